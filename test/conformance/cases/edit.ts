// edit of one job: from each state, what it changes and what it keeps, and old leases.

import { expect } from 'vitest';
import { extensionOf, optionsIn, webhookOriginOf, withAgain } from '../../../src/core/extension.ts';
import type { EditItem, EditOutcome } from '../../../src/ports/job-store.ts';
import {
  type Case,
  dueAfter,
  editOf,
  fact,
  farOffMs,
  newContent,
  only,
  request,
  type Trial,
} from '../trial.ts';

const key = { topic: 't', id: '1' };
const large = Buffer.alloc(1_500, 'x');
type Edited = Extract<EditOutcome, { kind: 'edited' }>;

async function edit(trial: Trial, over: Partial<EditItem> = {}): Promise<EditOutcome> {
  return only(await trial.jobs.edit([editOf(await trial.known('1'), over)]));
}

/** The job of the id after the edit has these members. */
async function edited(trial: Trial, over: Partial<EditItem>, expected: object): Promise<Edited> {
  const before = await trial.known('1');
  const item = editOf(before, over);
  const outcome = await trial.changes(
    async () => only(await trial.jobs.edit([item])),
    (answer, now) => {
      expect(answer).toEqual({
        ...{ kind: 'edited', version: expect.any(Number), dueAt: before.dueAt, state: before.state },
        ...expected,
      });
      const { version, dueAt, state } = answer as Edited;
      const { contentType, body, priority, extension } = item;
      const fields = { version, dueAt, state, contentType, body, priority };
      const fresh = item.requeue ? { failures: 0, strikes: 0, deadAt: null, deadReason: null } : {};
      const its = { ...fields, ...(extension === null ? { extension: undefined } : { extension }), ...fresh };
      expect(dueAt).toBeLessThan(now + 2 * farOffMs);
      return { jobs: { 't/1': { ...its, origin: expect.any(Number) } } };
    },
  );
  const after = await trial.known('1');
  expect(after.origin).toBeGreaterThan(before.version);
  expect(after.version).toBeGreaterThan(after.origin);
  expect(webhookOriginOf(after)).toBe(webhookOriginOf(before));
  return outcome as Edited;
}

const refusals = [
  ['reserved', false, { kind: 'in_flight' }],
  ['dead', false, { kind: 'dead' }],
  ['delayed', true, { kind: 'not_dead', state: 'delayed' }],
  ['ready', true, { kind: 'not_dead', state: 'ready' }],
  ['reserved', true, { kind: 'not_dead', state: 'reserved' }],
] as const;

export const editCases: readonly Case[] = [
  ...refusals.map(([state, requeue, answer]) =>
    fact(`edit${requeue ? ' with requeue' : ''}: changes nothing when the job is ${state}`, async (trial) => {
      await trial.bystanders();
      const lease = await trial.seed(state);
      expect(await trial.unchanged(() => edit(trial, { requeue }))).toEqual(answer);
      if (state === 'reserved' && lease !== null) expect(await trial.ack(lease)).toEqual({ kind: 'acked' });
    }),
  ),

  fact('edit: changes nothing when there is no job', async (trial) => {
    await trial.bystanders();
    const { version } = await trial.push('1');
    await trial.cancel(key);
    const item = { ...editOf({ ...(await trial.known('1', 'by.ready')), version }), ...key };
    expect(await trial.unchanged(() => trial.jobs.edit([item]))).toEqual([{ kind: 'absent' }]);
  }),

  fact('edit: leaves a job alone that has another version than its caller read', async (trial) => {
    await trial.bystanders();
    await trial.seed('delayed');
    const { version } = await trial.known('1');
    await trial.jobs.reschedule([{ ...key, when: { delayMs: farOffMs } }]);
    for (const other of [version, version - 1, Number.MAX_SAFE_INTEGER])
      expect(await trial.unchanged(() => edit(trial, { version: other }))).toEqual({ kind: 'other_version' });
  }),

  fact('edit: a repeat changes nothing', async (trial) => {
    await trial.seed('delayed');
    const item = editOf(await trial.known('1'));
    expect(await trial.jobs.edit([item])).toEqual([expect.objectContaining({ kind: 'edited' })]);
    expect(await trial.unchanged(() => trial.jobs.edit([item]))).toEqual([{ kind: 'other_version' }]);
  }),

  ...(['delayed', 'ready'] as const).flatMap((state) => [
    fact(`edit: a ${state} job keeps its due time, failures and attempts`, async (trial) => {
      await trial.bystanders();
      const job = await trial.reserved('1', { priority: 'high', extension: extensionOf({ maxAttempts: 7 }) });
      await trial.retry(job, state === 'delayed' ? farOffMs : 0);
      await edited(trial, {}, { state });
      const { failures, attempts, extension } = await trial.known('1');
      expect({ failures, attempts: attempts.length, maxAttempts: optionsIn(extension).maxAttempts }).toEqual({
        ...{ failures: 1, attempts: 1, maxAttempts: 7 },
      });
      await trial.lost(job);
    }),

    fact(`edit: gives a ${state} job another due time`, async (trial) => {
      await trial.seed(state);
      const dueAt = dueAfter(trial.now, farOffMs / 2);
      await edited(trial, { when: { delayMs: farOffMs / 2 } }, { state: 'delayed', dueAt });
      await edited(trial, { when: { at: 1_600_000_000_000 } }, { state: 'ready', dueAt: trial.now });
      expect(await trial.lease()).toMatchObject({ ...key, body: newContent.body });
    }),
  ]),

  fact('edit: a job that is due is called with the new content only', async (trial) => {
    await trial.seed('ready', '1', { body: large });
    await edited(trial, {}, {});
    const job = await trial.lease();
    expect(job).toMatchObject({ contentType: newContent.contentType, body: newContent.body, failures: 0 });
    expect(await trial.ack(job)).toEqual({ kind: 'acked' });
    expect(await trial.reserve(request(1))).toEqual([]);
  }),

  fact('edit: replaces a small body by a large one, and a large one by a small one', async (trial) => {
    await trial.seed('ready');
    for (const body of [large, Buffer.from('small'), Buffer.alloc(0), large]) {
      await edited(trial, { body, contentType: 'x/y' }, {});
      expect((await trial.known('1')).body.equals(body)).toBe(true);
    }
  }),

  fact('edit: a job moves to the priority of its topic', async (trial) => {
    await trial.push('1', { priority: 'normal' });
    await edited(trial, { priority: 'high' }, {});
    expect(await trial.lease()).toMatchObject(key);
    expect(await trial.reserve(request(1))).toEqual([]);
  }),

  fact('edit: keeps the strikes', async (trial) => {
    const lease = await trial.lostLease('1');
    await edited(trial, {}, {});
    await trial.lost(lease);
    expect(await trial.lease()).toMatchObject({ strikes: 1, failures: 0 });
  }),

  fact('edit with requeue: a dead letter is ready with the new content, in one step', async (trial) => {
    await trial.bystanders();
    const job = await trial.buried('1');
    await trial.tick();
    await edited(trial, { requeue: true }, { state: 'ready', dueAt: trial.now });
    expect((await trial.known('1')).attempts).toHaveLength(1);
    const again = await trial.lease();
    expect(again).toMatchObject({
      failures: 0,
      strikes: 0,
      acceptedAt: job.acceptedAt,
      body: newContent.body,
    });
    await trial.lost(job);
    expect(await trial.ack(again)).toEqual({ kind: 'acked' });
  }),

  fact('edit: keeps the number of snoozes that the job has by now', async (trial) => {
    const extension = extensionOf({ maxAttempts: 3, again: 2 });
    const read = await trial.reserved('1', { extension });
    await trial.retry(read, farOffMs, null, withAgain(read.extension, 3));
    for (const given of [extension, null]) {
      await edit(trial, { extension: given });
      const { again, maxAttempts } = optionsIn((await trial.known('1')).extension);
      expect([again, maxAttempts]).toEqual([3, given === null ? undefined : 3]);
    }
    await edit(trial, { extension: extensionOf({ deadline: dueAfter(trial.now, 2 * farOffMs) }) });
    expect(optionsIn((await trial.known('1')).extension)).toMatchObject({ again: 3 });
  }),

  fact('edit with requeue: the number of snoozes begins again', async (trial) => {
    await trial.buried('1', { extension: extensionOf({ again: 9_999 }) });
    await edit(trial, { requeue: true });
    expect(optionsIn((await trial.known('1')).extension).again).toBeUndefined();
  }),

  fact('edit with requeue: the attempts can begin later', async (trial) => {
    await trial.buried('1');
    const dueAt = dueAfter(trial.now, farOffMs);
    await edited(trial, { requeue: true, when: { delayMs: farOffMs } }, { state: 'delayed', dueAt });
  }),

  fact(
    'edit: webhook-id derives from the first origin, also after several edits and the end',
    async (trial) => {
      const { version: origin } = await trial.push('1');
      await edited(trial, {}, {});
      await edited(trial, {}, {});
      expect(webhookOriginOf(await trial.known('1'))).toBe(origin);
      const job = await trial.lease();
      expect(webhookOriginOf(job)).toBe(origin);
      await trial.ack(job);
      expect(await trial.history.get(key)).toMatchObject({ origin, version: job.version });
    },
  ),

  fact('edit: without that option webhook-id is new', async (trial) => {
    const { version } = await trial.push('1');
    await edit(trial, { extension: null });
    const { origin, extension } = await trial.known('1');
    expect(extension).toBeUndefined();
    expect(origin).toBeGreaterThan(version);
    await trial.cancel(key);
    expect(await trial.history.get(key)).toMatchObject({ origin });
  }),

  fact('edit: a push of the id forgets attempts and options', async (trial) => {
    const job = await trial.buried('1');
    await edit(trial, { requeue: true });
    await trial.push('1');
    const { attempts, extension, failures, body } = await trial.known('1');
    expect({ attempts, extension, failures }).toEqual({ attempts: [], extension: undefined, failures: 0 });
    expect(body).toEqual(job.body);
  }),

  fact('edit: returns an outcome per item, in order', async (trial) => {
    await trial.seed('delayed', 'delayed');
    await trial.buried('dead');
    const item = editOf(await trial.known('delayed'));
    const dead = editOf(await trial.known('dead'), { id: 'dead' });
    const outcomes = await trial.jobs.edit([
      { ...item, id: 'delayed' },
      dead,
      { ...item, id: 'none' },
      { ...item, id: 'delayed' },
      { ...dead, requeue: true },
    ]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['edited', 'dead', 'absent', 'other_version', 'edited']);
  }),
];
