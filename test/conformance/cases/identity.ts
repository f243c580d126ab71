// Identity of jobs, versions and leases, and the bounds of names and bodies.

import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { useCaseLimits } from '../../../src/use-cases/limits.ts';
import { words } from '../../support/words.ts';
import { type Case, dueAfter, fact, idsOf, jobOf, only, request, type Trial, waitOf } from '../trial.ts';

/** 256 bytes each, or the shortest; some differ only in details that a careless comparison ignores. */
const ids: readonly string[] = [
  'x'.repeat(256),
  `${'x'.repeat(255)}y`,
  '😀'.repeat(64),
  `${'😀'.repeat(63)}😁`,
  `${'語'.repeat(85)}x`,
  'a',
  'A',
  ' a',
  'a ',
  '\u00e9',
  'e\u0301',
  '\uffff',
  '\u{10ffff}',
  ...words`0 00 -0 1e3 1000 null __proto__ constructor`,
  "'; DROP TABLE job; --",
  ...words`% _ * {dq:3} a:b "`,
  '\\',
];
const topics: readonly string[] = [
  'x'.repeat(128),
  `${'x'.repeat(127)}y`,
  ...words`A.b-c_0 a.b-c_0 constructor hasOwnProperty toString 0 00`,
];
const bytes = (length: number): Buffer => {
  const body = Buffer.alloc(length);
  for (let n = 0; n < length; n += 1) body[n] = (n * 31) % 256;
  return body;
};

/** Every version and token so far, in order. */
class Numbers {
  readonly #seen: number[] = [];
  add(...numbers: readonly number[]): void {
    for (const number of numbers) {
      expect(number).toBeGreaterThan(this.#seen.at(-1) ?? 0);
      this.#seen.push(number);
    }
  }
}

async function afterEachEnd(
  trial: Trial,
  numbers: Numbers,
  end: (id: string) => Promise<unknown>,
): Promise<void> {
  numbers.add((await trial.push('1')).version);
  await end('1');
  numbers.add((await trial.push('1')).version);
  numbers.add((await trial.lease()).token);
  await trial.cancel({ topic: 't', id: '1' });
}

export const identityCases: readonly Case[] = [
  fact('numbers: versions and tokens rise and never repeat', async (trial) => {
    const numbers = new Numbers();
    const lease = async () => {
      const job = await trial.lease();
      numbers.add(job.token);
      return job;
    };
    await afterEachEnd(trial, numbers, async () => trial.ack(await lease()));
    await afterEachEnd(trial, numbers, async () => trial.cancel({ topic: 't', id: '1' }));
    await afterEachEnd(trial, numbers, async () => trial.admin.purgeTopic('t', 10));
    await afterEachEnd(trial, numbers, async () => {
      await trial.bury(await lease());
      await trial.dead.purge({}, 10);
    });
    await afterEachEnd(trial, numbers, async () => {
      await trial.bury(await lease());
      await trial.dead.requeue({}, 10);
      numbers.add((await trial.known('1')).version);
    });
    await afterEachEnd(trial, numbers, async () => {
      await trial.retry(await lease(), 0);
      await trial.release(await lease());
      await lease();
    });
  }),

  fact('numbers: each lease of a reserve has its own token', async (trial) => {
    const pushed = await trial.jobs.push(Array.from({ length: 50 }, (_, n) => jobOf(String(n))));
    const tokens = (await trial.reserve(request(50))).map((job) => job.token);
    const versions = pushed.map((outcome) => (outcome as { version: number }).version);
    expect(new Set([...tokens, ...versions]).size).toBe(100);
    expect(Math.min(...tokens)).toBeGreaterThan(Math.max(...versions));
  }),

  fact('identity: the same id in two topics is two jobs', async (trial) => {
    await trial.push('1', { topic: 'a' });
    expect(await trial.push('1', { topic: 'b' })).toMatchObject({ replaced: false });
    await trial.changes(
      () => trial.cancel({ topic: 'a', id: '1' }),
      () => ({ jobs: { 'a/1': null } }),
    );
  }),

  fact('identity: topic and id are never joined ambiguously', async (trial) => {
    const keys = [
      ['a', 'b:c'],
      ['a.b', 'c'],
      ['a', 'b.c'],
      ['a', '.b.c'],
      ['a-b', 'c'],
      ['a', 'b-c'],
      ['ab', 'c'],
      ['a', 'bc'],
    ] as const;
    for (const [topic, id] of keys)
      expect(await trial.push(id, { topic, body: Buffer.from(`${topic}|${id}`) })).toMatchObject({
        replaced: false,
      });
    for (const [topic, id] of keys)
      expect((await trial.known(id, topic)).body.toString()).toBe(`${topic}|${id}`);
  }),

  fact(
    `bounds: ids of any ${limits.idBytesMax} bytes of UTF-8 stay distinct byte for byte`,
    async (trial) => {
      for (const id of ids) {
        expect(Buffer.byteLength(id)).toBeLessThanOrEqual(limits.idBytesMax);
        expect(await trial.push(id)).toMatchObject({ kind: 'stored', replaced: false });
      }
      for (const id of ids)
        expect(await trial.known(id)).toMatchObject({ id, body: Buffer.from(`body of ${id}`) });
      const reserved = await trial.reserve(request(250));
      expect(new Set(idsOf(reserved))).toEqual(new Set(ids));
      for (const job of reserved.slice(0, 10)) expect(await trial.ack(job)).toEqual({ kind: 'acked' });
      for (const job of reserved.slice(10)) expect(await trial.bury(job)).toEqual({ kind: 'buried' });
      const dead = await trial.dead.list({ topic: 't', ids: ids.slice(3) }, 100, null);
      expect(new Set(idsOf(dead.items))).toEqual(
        new Set(idsOf(reserved.slice(10)).filter((id) => ids.indexOf(id) > 2)),
      );
      expect(await trial.dead.requeue({ topic: 't', ids }, 100)).toEqual({
        requeued: ids.length - 10,
        more: false,
      });
      const cancelled = await trial.jobs.cancel(ids.map((id) => ({ topic: 't', id })));
      expect(cancelled.filter((outcome) => outcome.kind === 'cancelled')).toHaveLength(ids.length - 10);
    },
  ),

  fact('bounds: topic names of any allowed shape stay distinct', async (trial) => {
    for (const topic of topics) expect(await trial.push('1', { topic })).toMatchObject({ replaced: false });
    expect(Object.keys((await trial.admin.counts()).topics).sort()).toEqual([...topics].sort());
    const rooms = Object.fromEntries(topics.slice(1).map((topic) => [topic, 1]));
    const reserved = await trial.reserve(request(250, rooms));
    expect(reserved.map((job) => job.topic).sort()).toEqual(topics.slice(1).sort());
    expect(await trial.admin.purgeTopic('constructor', 10)).toEqual({ purged: 1, more: false });
  }),

  fact('bounds: bodies of 0 bytes, all bytes and 256 KiB stay unchanged', async (trial) => {
    const bodies = {
      ...{ empty: Buffer.alloc(0), nul: Buffer.from([0]), every: bytes(256), large: bytes(256 * 1024) },
    };
    await trial.jobs.push(Object.entries(bodies).map(([id, body]) => jobOf(id, { body })));
    const sums = (jobs: readonly { id: string; body: Buffer }[]) =>
      Object.fromEntries(
        jobs.map(({ id, body }) => [id, [body.length, createHash('sha256').update(body).digest('hex')]]),
      );
    const expected = sums(Object.entries(bodies).map(([id, body]) => ({ id, body })));
    const reserved = await trial.reserve(request(10));
    expect(sums(reserved)).toEqual(expected);
    for (const job of reserved) await trial.retry(job, 0);
    const again = await trial.reserve(request(10));
    expect(sums(again)).toEqual(expected);
    for (const job of again) await trial.bury(job);
    const dead = (await trial.dead.list({}, 10, null)).items.map(({ id }) => trial.known(id));
    expect(sums(await Promise.all(dead))).toEqual(expected);
    await trial.dead.requeue({}, 10);
    expect(sums(await trial.reserve(request(10)))).toEqual(expected);
  }),

  fact('bounds: many large bodies are reserved over several calls', async (trial) => {
    const body = bytes(256 * 1024);
    for (let n = 0; n < 40; n += 4)
      await trial.jobs.push([0, 1, 2, 3].map((m) => jobOf(String(n + m), { body })));
    const seen: string[] = [];
    for (let more = true; more; ) {
      const answer = await trial.jobs.reserve(trial.partition, request(250));
      expect(answer.jobs.length).toBeGreaterThan(0);
      expect(answer.jobs.every((job) => job.body.equals(body))).toBe(true);
      seen.push(...idsOf(answer.jobs));
      more = answer.more;
    }
    expect(new Set(seen).size).toBe(40);
    expect(seen).toHaveLength(40);
  }),

  fact('bounds: content types stay unchanged, also an absent one', async (trial) => {
    const longest = `text/plain; x="${'y'.repeat(useCaseLimits.contentTypeMax - 17)}"`;
    for (const [id, contentType] of Object.entries({
      none: null,
      longest,
      odd: 'Text/HTML;Charset="utf-8"',
    })) {
      await trial.push(id, { contentType });
      expect(await trial.known(id)).toMatchObject({ contentType });
      expect(await trial.lease()).toMatchObject({ contentType });
    }
  }),

  fact('bounds: the longest delay is kept', async (trial) => {
    await trial.push('1', { when: { delayMs: limits.delayMsMax } });
    const dueAt = dueAfter(trial.now, limits.delayMsMax);
    expect(only((await trial.dump()).jobs)).toMatchObject({ dueAt, acceptedAt: trial.now });
    expect(await trial.promote()).toEqual({ moved: 0, waitMs: waitOf(dueAt - trial.now) });
    expect(await trial.justBefore(dueAt, () => trial.promote())).toMatchObject({ moved: 0 });
    expect(await trial.promote()).toEqual({ moved: 1, waitMs: null });
  }),
];
