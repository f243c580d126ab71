// The journal in a real MariaDB: merge, shipping, positions, marks, pages and retention.

import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { type Change, type JobRow, mergeRows, rowOf } from '../../src/core/job-change.ts';
import type { MysqlServer } from '../../src/core/url/server-url.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { allBarriers, type RowPage, type ShippedBatch } from '../../src/ports/journal.ts';
import { startAnswerLoser } from '../support/answer-loser.ts';
import { askMysql, journalDatabase } from '../support/journal-instance.ts';
import { randomLife } from '../support/journal-lives.ts';
import { lacks, workerMariadb } from '../support/services.ts';
import { changeKinds, changeOf } from '../support/spool.ts';
import { until } from '../support/until.ts';

const stream = { instance: 7, incarnation: 3 };
const here = { process: 'dq-server-0', host: 'h' };
const at = (offset: number) => ({ segment: 1, offset });

const batch = (changes: readonly Change[], from: number, more: Partial<ShippedBatch> = {}): ShippedBatch => ({
  ...{ ...stream, ...here, changes, marks: new Map() },
  from: from === 0 ? { segment: 0, offset: 0 } : at(from),
  next: at(from + 1),
  ...more,
});

describe.skipIf(await lacks('mysql'))('journal in MySQL', async () => {
  const server = await workerMariadb();
  let database = '';
  let made = 0;
  const ask = (sql: string) => askMysql(server.url(database), sql);
  let login: MysqlServer;
  const journalOn = (port = login.port): MysqlJournal => {
    const journal = new MysqlJournal({ ...login, port });
    onTestFinished(() => journal.close());
    return journal;
  };
  let journal: MysqlJournal;

  beforeEach(async () => {
    database = `journal${made++}`;
    login = await journalDatabase(server, database);
    journal = journalOn();
  });

  const byId = (rows: readonly JobRow[]) => [...rows].sort((a, b) => (a.id < b.id ? -1 : 1));

  it('merge: 300 lives of jobs, shuffled, repeated and in parts, are the fold of their changes', async () => {
    const dice = new Dice(7);
    const lives = Array.from({ length: 300 }, (_, n) =>
      randomLife(dice).map((change) => ({ ...change, id: `job-${n}` })),
    );
    const expected = lives.map((changes) => changes.map(rowOf).reduce(mergeRows));
    const all = lives.flatMap((changes) => [...changes, ...changes.filter(() => dice.chance(0.3))]);
    for (let i = all.length - 1; i > 0; i -= 1) {
      const j = dice.below(i + 1);
      [all[i], all[j]] = [all[j] as Change, all[i] as Change];
    }
    let from = 0;
    while (all.length > 0) {
      expect(await journal.ship(batch(all.splice(0, 1 + dice.below(200)), from))).toEqual({
        kind: 'shipped',
      });
      from += 1;
    }
    const rows = await journal.rows(expected);
    expect(byId(rows)).toEqual(byId(expected));
  });

  it('ship: a batch with two of the largest bodies fits into packets of 4 MiB', async () => {
    const [before] = await ask('SELECT @@max_allowed_packet AS bytes');
    await ask('SET GLOBAL max_allowed_packet = 4194304');
    onTestFinished(async () => void (await ask(`SET GLOBAL max_allowed_packet = ${before?.['bytes']}`)));
    const largest = [1, 2].map((n) => changeOf(n, 'accepted', 'x'.repeat(1024 ** 2)));
    expect(await journalOn().ship(batch(largest, 0))).toEqual({ kind: 'shipped' });
    const rows = await journal.rows(largest);
    expect(rows.map(({ pushed }) => pushed?.body.length)).toEqual([1024 ** 2, 1024 ** 2]);
    const short = await journal.rows(largest, false);
    expect(short.map(({ pushed }) => pushed?.body.length)).toEqual([0, 0]);
  });

  it('merge: of equal numbers the one with more failures decides, then the later one', async () => {
    const found = { ...changeOf(1), isOwn: false, failures: 0, dueAt: 500 } as Change;
    const others = [
      { ...found, failures: 2, dueAt: 7 },
      { ...found, failures: 2, dueAt: 3 },
    ] as const;
    for (const order of [[found, ...others], [...others, found], [...others].reverse()])
      for (const [n, change] of order.entries()) {
        const id = `of-${order.indexOf(found)}`;
        const [known] = await journal.positions(stream.instance);
        const from = known?.offset ?? 0;
        await journal.ship(batch([{ ...change, id }], from));
        if (n < order.length - 1) continue;
        expect(await journal.rows([{ topic: found.topic, id }])).toMatchObject([{ failures: 2, dueAt: 7 }]);
      }
  });

  it('ship: merges changes of every kind, logs each own one, and keeps position and marks', async () => {
    const changes = changeKinds.map((kind, i) => changeOf(i + 1, kind));
    const marks = new Map([['shard:0', 5]]);
    expect(await journal.ship(batch(changes, 0, { marks }))).toEqual({ kind: 'shipped' });
    expect(byId(await journal.rows(changes))).toEqual(byId(changes.map(rowOf)));
    expect(await journal.positions(stream.instance)).toEqual([{ ...stream, ...at(1) }]);
    expect(await journal.marks()).toEqual([{ instance: 7, place: 'shard:0', number: 5 }]);
    await journal.ship(batch([], 1, { marks: new Map([['shard:0', 4]]) }));
    expect(await journal.marks()).toEqual([{ instance: 7, place: 'shard:0', number: 5 }]);
    const logged = await Promise.all(changes.map((change) => journal.flow(change, 10)));
    expect(logged.map((flow) => flow.map(({ event }) => event))).toEqual([
      ['accepted'],
      ['requeue'],
      ['retried'],
      // Number 4 was found, not drawn; an alert does not change its job.
      [],
      ['done'],
      [],
      ['restored'],
    ]);
    expect(JSON.parse(logged[2]?.[0]?.attempt ?? '')).toMatchObject({ status: 503 });
    expect(logged[0]?.[0]).toMatchObject({ number: 1, place: 'shard:1', process: 'dq-server-0', host: 'h' });
  });

  it('ship: any bytes of ids, bodies and attempts arrive as they are', async () => {
    const texts = ["it's", 'a\\', "\\'; DROP TABLE dq_job; -- ", '%_?', '作业 🙂', '\t\0\x1a', '"', 'x'];
    const bodies = [
      ...texts.map((text) => Buffer.from(text)),
      Buffer.alloc(0),
      Buffer.from([0xff, 0x27, 0x5c]),
    ];
    bodies.push(Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
    const accepted = bodies.map((body, i): Change => {
      const change = { ...changeOf(4 * i + 1), id: texts[i] ?? `id-${i}`, contentType: texts[i] ?? null };
      return { ...change, body, extension: body.length === 0 ? null : body } as Change;
    });
    const retried = texts.map((text, i) => {
      const change = changeOf(4 * i + 2, 'retried') as Change & { readonly kind: 'retried' };
      return { ...change, id: `retried ${text}`, attempt: { ...change.attempt, excerpt: text } } as Change;
    });
    const changes = [...accepted, ...retried];
    expect(await journal.ship(batch(changes, 0))).toEqual({ kind: 'shipped' });
    expect(byId(await journal.rows(changes))).toEqual(byId(changes.map(rowOf)));
    for (const change of retried) {
      const [logged] = await journal.flow(change, 1);
      expect(JSON.parse(logged?.attempt ?? '')).toEqual((change as { readonly attempt: unknown }).attempt);
    }
  });

  it('ship: a position other than the one in MySQL writes nothing', async () => {
    await journal.ship(batch([changeOf(1)], 0));
    expect(await journal.ship(batch([changeOf(2)], 0))).toEqual({ kind: 'elsewhere', at: at(1) });
    expect(await journal.ship(batch([changeOf(2)], 9))).toEqual({ kind: 'elsewhere', at: at(1) });
    expect(await journal.rows([changeOf(2)])).toEqual([]);
  });

  it('ship: after a lost reply to COMMIT the next call finds the position', async () => {
    const proxy = await startAnswerLoser(login.port, '\x03COMMIT');
    const far = journalOn(proxy.port);
    await far.ship(batch([changeOf(1)], 0));
    proxy.arm();
    await expect(far.ship(batch([changeOf(2)], 1))).rejects.toMatchObject({ failure: { kind: 'unknown' } });
    expect(await journal.ship(batch([changeOf(2)], 1))).toEqual({ kind: 'elsewhere', at: at(2) });
    expect(await journal.rows([changeOf(2)])).toHaveLength(1);
  });

  it('open: pages of waiting and of dead rows of some places, in their order', async () => {
    const accepted = Array.from({ length: 2_500 }, (_, n) => ({
      ...(changeOf(n + 1) as Change & { kind: 'accepted' }),
      // Many rows of one due time: a page ends between them.
      dueAt: 1_000 + (n % 3),
    }));
    const dead = [changeOf(5_001, 'dead'), changeOf(5_003, 'dead'), changeOf(5_002, 'dead')];
    for (let n = 0; n < 5; n += 1) await journal.ship(batch(accepted.slice(500 * n, 500 * n + 500), n));
    await journal.ship(batch(dead, 5));
    const found: JobRow[] = [];
    let cursor: string | null = null;
    do {
      const page = await journal.open('waiting', ['shard:1'], cursor);
      found.push(...page.rows);
      cursor = page.nextCursor;
    } while (cursor !== null);
    const wanted = accepted.filter(({ place }) => place === 'shard:1');
    expect(found.map(({ id }) => id).sort()).toEqual(wanted.map(({ id }) => id).sort());
    expect(found.map(({ dueAt }) => dueAt)).toEqual([...found.map(({ dueAt }) => dueAt)].sort());
    expect(found[0]?.pushed?.body.toString()).toMatch(/^body /);
    const { rows } = await journal.open('dead', ['shard:0', 'shard:1'], null);
    expect(rows.map(({ number }) => number)).toEqual([5_001, 5_002, 5_003]);
    expect((await journal.open('dead', [], null)).rows).toEqual([]);
  });

  it('pages with large bodies have fewer rows, and leave none out', async () => {
    const large = Array.from({ length: 30 }, (_, n) => changeOf(4 * n + 1, 'accepted', 'b'.repeat(900_000)));
    for (const [n, change] of large.entries()) await journal.ship(batch([change], n));
    const rowsBy = async (read: (cursor: string | null) => Promise<RowPage>) => {
      const [ids, sizes]: [string[], number[]] = [[], []];
      let cursor: string | null = null;
      do {
        const page: RowPage = await read(cursor);
        sizes.push(page.rows.length);
        ids.push(...page.rows.map(({ id }) => id));
        cursor = page.nextCursor;
      } while (cursor !== null);
      expect(Math.max(...sizes)).toBeLessThan(10);
      return ids.sort();
    };
    const all = large.map(({ id }) => id).sort();
    const places = ['shard:0', 'shard:1'];
    expect(await rowsBy((cursor) => journal.open('waiting', places, cursor))).toEqual(all);
    expect(await rowsBy((cursor) => journal.changedAbove(0, places, cursor))).toEqual(all);
  });

  it('a page examines a bounded number of rows, also when it returns none', async () => {
    const others = Array.from({ length: 3_000 }, (_, n) => ({ ...changeOf(n + 1), place: 'shard:9' }));
    const own = { ...changeOf(3_001), place: 'shard:1', dueAt: 10_000 } as Change & { kind: 'accepted' };
    for (let n = 0; n < 3; n += 1)
      await journal.ship(batch(others.slice(1_000 * n, 1_000 * n + 1_000), n) as ShippedBatch);
    await journal.ship(batch([own], 3));
    const until = Date.now();
    const pagesOf = async (
      read: (cursor: string | null) => Promise<{ readonly nextCursor: string | null }>,
    ) => {
      let count = 0;
      for (let cursor: string | null = null; cursor !== null || count === 0; count += 1)
        ({ nextCursor: cursor } = await read(cursor));
      return count;
    };
    const found: string[] = [];
    const take = <P extends RowPage>(page: P) => {
      found.push(...page.rows.map(({ id }) => id));
      return page;
    };
    expect(await pagesOf(async (at) => take(await journal.open('waiting', ['shard:1'], at)))).toBe(4);
    expect(await pagesOf(async (at) => take(await journal.changedAbove(0, ['shard:1'], at)))).toBe(3);
    expect(found).toEqual([own.id, own.id]);
    const filter = { until, acceptedFrom: own.acceptedAt };
    const keys: unknown[] = [];
    const audited = await pagesOf(async (at) => {
      const page = await journal.openKeys('waiting', filter, at);
      keys.push(...page.keys);
      return page;
    });
    expect([audited, keys]).toEqual([4, [expect.objectContaining({ id: own.id })]]);
  });

  it('openKeys: leaves out rows that cannot be put back, where asked to', async () => {
    const one = { ...changeOf(1), topic: 't', id: 'one' } as Change;
    const kept = { ...changeOf(5), topic: 't', id: 'kept' } as Change;
    // Its origin has ended; a later move says that it waits.
    const ended = { ...changeOf(2, 'ended'), topic: 't', id: 'one', origin: 1, version: 1 } as Change;
    const moved = { ...changeOf(9, 'moved'), topic: 't', id: 'one', origin: 1 } as Change;
    await journal.ship(batch([one, ended, moved, kept], 0));
    const idsOf = async (isRestorable: boolean) =>
      (await journal.openKeys('waiting', { isRestorable }, null)).keys.map(({ id }) => id).sort();
    expect(await idsOf(false)).toEqual(['kept', 'one']);
    expect(await idsOf(true)).toEqual(['kept']);
  });

  it('changedAbove: rows of the ids that changed above a number', async () => {
    const changes = Array.from({ length: 2_400 }, (_, n) => changeOf(4 * n + 1));
    for (let n = 0; n < 4; n += 1) await journal.ship(batch(changes.slice(600 * n, 600 * n + 600), n));
    const from = changes[99]?.number ?? 0;
    const found = new Set<string>();
    let cursor: string | null = null;
    do {
      const page = await journal.changedAbove(from, ['shard:1'], cursor);
      for (const { id } of page.rows) found.add(id);
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(found.size).toBe(2_300);
    expect(found.has(changes[99]?.id ?? '')).toBe(false);
    const part = await journal.changedAbove(from, ['shard:1'], null, { upTo: changes[101]?.number ?? 0 });
    expect(part).toMatchObject({ rows: [changes[100], changes[101]].map((its) => ({ id: its?.id })) });
    expect(part.nextCursor).toBeNull();
    expect(await journal.oldestChange()).toBe(1);
  });

  it('late changes: their work begins with the batch, and further ones extend it', async () => {
    const late = (lowest: number) => [{ place: 'shard:1', lowest, highest: 900 }];
    const claim = async () => {
      const work = await journal.claimRestore(1, 60_000);
      if (work === null) throw new Error('no claim');
      return work;
    };
    expect(await journal.ship(batch([], 5, { late: () => late(10) }))).toMatchObject({ kind: 'elsewhere' });
    expect(await journal.restores(1)).toEqual([]);
    await journal.ship(batch([], 0, { late: () => late(500) }));
    const first = await claim();
    expect(first).toMatchObject({ kind: 'shipped', about: 'shard:1', note: 900, cursor: '499' });
    // Its worker may have passed them: it must not save where it is.
    await journal.ship(batch([], 1, { late: () => late(100) }));
    expect(await journal.saveRestore({ ...first, cursor: '600' }, 1, 60_000)).toBe(false);
    await journal.beginShipped(late(700));
    const second = await claim();
    expect(second).toMatchObject({ no: first.no, cursor: '99' });
    expect(await journal.endRestore(second, 1, 'done')).toBe(true);
    await journal.beginShipped([...late(800), { place: 'shard:0', lowest: 1, highest: 0 }]);
    // A healing comes first.
    await journal.beginRestore({ kind: 'heal', about: 'shard', note: 1 });
    const works = [await claim(), await claim(), await claim()];
    expect(works.map(({ kind, cursor }) => [kind, cursor])).toEqual([
      ...[['heal', null] as const, ['shipped', '799'] as const, ['shipped', '0'] as const],
    ]);
  });

  it('trim: removes ended rows and changes after their time, and never open or dead ones', async () => {
    const numbered = (number: number) => number * 1_000_000;
    const kinds = ['accepted', 'dead', 'ended', 'alert', 'retried'] as const;
    const changes = kinds.map((kind, i) => ({ ...changeOf(numbered(i + 1), kind), id: kind }) as Change);
    await journal.ship(batch(changes, 0));
    expect(await journal.trim(1_000, 10)).toBe(false);
    expect(await journal.rows(changes)).toHaveLength(5);
    expect(await journal.trim(10_000_000, 1)).toBe(true);
    while (await journal.trim(10_000_000, 1));
    expect(byId(await journal.rows(changes)).map(({ id }) => id)).toEqual(['accepted', 'dead', 'retried']);
    expect(await journal.oldestChange()).toBeNull();
  });

  it('trim: removes ended work after its time, and never open work or a lost shard', async () => {
    const kinds = ['heal', 'shipped', 'lost_shard'] as const;
    for (const kind of kinds)
      for (const about of ['open', 'done']) await journal.beginRestore({ kind, about, note: 1 });
    await ask("UPDATE dq_restore SET state = 'done', ended_at = 5000 WHERE about = 'done'");
    await journal.trim(5_000, 10);
    expect(await journal.restores(10)).toHaveLength(6);
    await journal.trim(5_001, 10);
    const left = (await journal.restores(10)).map(({ kind, about }) => `${kind} ${about}`).sort();
    expect(left).toEqual(['heal open', 'lost_shard done', 'lost_shard open', 'shipped open']);
  });

  it('restores: each piece of work exists once, and has one worker at a time', async () => {
    const work = { kind: 'heal', about: '5a', note: 70 } as const;
    await Promise.all([journal.beginRestore(work), journal.beginRestore(work), journal.beginRestore(work)]);
    await journal.beginRestore({ ...work, note: 71 });
    const claims = await Promise.all([1, 2, 3].map((worker) => journal.claimRestore(worker, 60_000)));
    const notes = claims.map((claim) => claim?.note ?? null);
    expect(notes.sort()).toEqual([70, 71, null]);
    const claimed = claims.find((claim) => claim?.note === 70);
    if (claimed == null) throw new Error('no claim');
    const worker = claims.indexOf(claimed) + 1;
    const further = { ...claimed, cursor: 'c', counts: { done: 5, put: 2, removed: 1, kept: 2 } };
    expect(await journal.saveRestore(further, worker + 1, 0)).toBe(false);
    expect(await journal.saveRestore(further, worker, 0)).toBe(true);
    // Its time is over: the next worker continues where it was.
    expect(await journal.claimRestore(9, 60_000)).toMatchObject({
      ...further,
      ageMs: expect.any(Number),
    });
    expect(await journal.endRestore(further, worker, 'done')).toBe(false);
    expect(await journal.endRestore(further, 9, 'done')).toBe(true);
    const [, done] = await journal.restores(10);
    expect(done).toMatchObject({ no: further.no, cursor: 'c', counts: further.counts, state: 'done' });
    // A note that is still in force: it was not healed.
    await journal.beginRestore(work);
    expect(await journal.claimRestore(9, 60_000)).toMatchObject({ no: further.no, cursor: null });
    const removed = { kind: 'lost_shard', about: '5b', note: 1 } as const;
    await journal.beginRestore(removed);
    const lost = await journal.claimRestore(9, 60_000);
    if (lost === null) throw new Error('no claim');
    expect(await journal.endRestore(lost, 9, 'done')).toBe(true);
    await journal.beginRestore(removed);
    expect(await journal.claimRestore(9, 60_000)).toBeNull();
    expect(await journal.restores(10, 'lost_shard')).toMatchObject([{ no: lost.no, state: 'done' }]);
    expect(done?.endedAt).toBeGreaterThanOrEqual(done?.begunAt ?? Number.NaN);
  });

  it('surveys: one row per shard, which begins again when it is due', async () => {
    const day = 86_400_000;
    await journal.beginRestore({ kind: 'heal', about: '5a', note: 72 });
    for (let n = 0; n < 2; n += 1) await journal.beginSurvey('5a', day, 0);
    const work = await journal.claimRestore(1, 60_000, 'survey');
    if (work === null) throw new Error('no claim');
    expect(work).toMatchObject({ kind: 'survey', about: '5a', note: 0, cursor: null });
    expect(await journal.claimRestore(2, 60_000, 'survey')).toBeNull();
    expect((await journal.claimRestore(2, 60_000))?.kind).toBe('heal');
    expect(await journal.saveRestore({ ...work, cursor: 'c' }, 1, 60_000)).toBe(true);
    // Not due: it goes on. Due: its worker loses it.
    await journal.beginSurvey('5a', day, 0);
    expect(await journal.saveRestore({ ...work, cursor: 'd' }, 1, 60_000)).toBe(true);
    // It takes longer than a day.
    await ask("UPDATE dq_restore SET begun_at = begun_at - 90000000 WHERE kind = 'survey'");
    await journal.beginSurvey('5a', day, 0);
    expect(await journal.saveRestore({ ...work, cursor: 'd' }, 1, 60_000)).toBe(true);
    await journal.beginSurvey('5a', 0, 0);
    expect(await journal.saveRestore({ ...work, cursor: 'e' }, 1, 60_000)).toBe(false);
    const again = await journal.claimRestore(2, 60_000, 'survey');
    expect(again).toMatchObject({ no: work.no, cursor: null });
    expect(await journal.endRestore(work, 2, 'done')).toBe(true);
    await journal.beginSurvey('5a', day, 0);
    expect(await journal.claimRestore(2, 60_000, 'survey')).toBeNull();
    // Ends were not recorded after it began.
    await journal.raiseSince(Date.now() + day);
    await journal.beginSurvey('5a', day, day);
    expect(await journal.claimRestore(2, 60_000, 'survey')).toBeNull();
    await journal.beginSurvey('5a', day, 0);
    expect(await journal.claimRestore(2, 60_000, 'survey')).toMatchObject({ no: work.no, cursor: null });
  });

  it('instances: barrier and highest number only rise; ages are by the clock of MySQL', async () => {
    const self = { instance: 7, host: 'h', barrier: 0, highest: 50, spoolBytes: 9 };
    expect(await journal.seen(self)).toBe(0);
    const barrier = await journal.raiseBarrier();
    expect(barrier).toBeGreaterThan(0);
    expect(await journal.raiseBarrier()).toBeGreaterThan(barrier);
    expect(await journal.seen({ ...self, highest: 40 })).toBeGreaterThan(barrier);
    await journal.seen({ ...self, barrier: 1, host: 'other' });
    expect(await journal.instances()).toMatchObject([{ ...self, barrier: 1, host: 'other' }]);
    expect((await journal.instances())[0]?.ageMs).toBeLessThan(60_000);
  });

  it('instances: a MySQL that went back takes no sign, and repeats no barrier', async () => {
    const incarnation = 77;
    const self = { instance: 9, host: 'h', barrier: 0, highest: 50, spoolBytes: 9 };
    const batch = { instance: 9, incarnation, changes: [], process: 'p', host: 'h', marks: new Map() };
    const [from, next] = [
      { segment: 0, offset: 0 },
      { segment: 1, offset: 500 },
    ];
    const shipped = new Map([[incarnation, next]]);
    expect(await journal.seen(self, shipped)).toBeNull();
    expect((await journal.instances()).map(({ instance }) => instance)).not.toContain(9);
    expect(await journal.ship({ ...batch, from, next })).toEqual({ kind: 'shipped' });
    expect(await journal.seen(self, shipped)).not.toBeNull();
    const before = await journal.raiseBarrier();
    await journal.seen({ ...self, barrier: before }, shipped);
    await ask('UPDATE dq_journal SET barrier = 0');
    await ask('UPDATE dq_journal_instance SET barrier = 0 WHERE instance = 9');
    await ask(`UPDATE dq_journal_stream SET offset_at = 499 WHERE incarnation = ${incarnation}`);
    await until('a later ms', () => Date.now() > before + 1);
    expect(await journal.raiseBarrier()).toBeGreaterThan(before);
    expect(await journal.seen({ ...self, barrier: before }, shipped)).toBeNull();
    const barrierOf = async () => (await journal.instances()).find(({ instance }) => instance === 9)?.barrier;
    expect(await barrierOf()).toBe(0);
    await journal.forgetStreams([{ instance: 9, incarnation }]);
  });

  it('instances: one that has ended reached every barrier, until its next sign or its next start', async () => {
    const self = { instance: 8, host: 'h', barrier: 3, highest: 50, spoolBytes: 9 };
    const barrierOf = async () => (await journal.instances()).find(({ instance }) => instance === 8)?.barrier;
    await journal.seen(self);
    await journal.seen({ ...self, barrier: allBarriers });
    expect(await barrierOf()).toBe(allBarriers);
    await journal.begins(8);
    expect(await barrierOf()).toBe(0);
    await journal.seen({ ...self, barrier: allBarriers });
    await journal.seen({ ...self, barrier: 0 });
    expect(await barrierOf()).toBe(0);
    await journal.seen({ ...self, barrier: 2 });
    await journal.begins(8);
    expect(await barrierOf()).toBe(2);
  });

  it('instances: silent ones are given up, others are not', async () => {
    const self = { host: 'h', barrier: 0, highest: 50, spoolBytes: 9 };
    for (const instance of [21, 22, 23]) await journal.seen({ ...self, instance });
    expect(await journal.giveUp(60_000)).toEqual([]);
    expect(await journal.giveUp(0, 22)).toMatchObject([{ ...self, instance: 22 }]);
    expect(await journal.giveUp(0, 22)).toEqual([]);
    const ended = (await journal.instances()).filter(({ barrier }) => barrier === allBarriers);
    expect(ended.map(({ instance }) => instance)).toEqual([22]);
  });

  it('since: only rises', async () => {
    expect(await journal.since()).toBe(0);
    await journal.raiseSince(500);
    await journal.raiseSince(400);
    expect(await journal.since()).toBe(500);
  });

  it('a server that is gone: not_stored; it goes on when the server is back', async () => {
    await server.process.kill();
    await expect(journal.ship(batch([changeOf(1)], 0))).rejects.toMatchObject({
      failure: { kind: 'not_stored' },
    });
    await server.process.start();
    // A connection that is not made in time fails the call, which then wrote nothing.
    const answer = await until('it goes on', () => journal.ship(batch([changeOf(1)], 0)));
    expect(answer).toEqual({ kind: 'shipped' });
  });
});
