// What the store on Redis does with a row of the journal: each line of the put-back, on a real server.

import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { rowOf as changedRow, type JobRow, mergeRows, type PushedParts } from '../../src/core/job-change.ts';
import { placesOf, withShard } from '../../src/core/shard-list.ts';
import { journaled } from '../../src/journal/record/journaled-store.ts';
import { editOf, examined, farOffMs, jobOf, newContent, type Trial } from '../conformance/trial.ts';
import { MemorySpool } from '../support/memory-spool.ts';
import { openedEmpty } from '../support/redis-store.ts';
import { lacks, owned, workerRedis } from '../support/services.ts';
import { emptied, listOf, openShards, shardOf } from '../support/shards.ts';

const meta = '{dq:0}:n';
const key = { topic: 't', id: '1' };
const here = `${'5a'.repeat(8)}:0`;
const pushedParts: PushedParts = {
  ...{ acceptedAt: 1_234_567, priority: 'high', contentType: 'text/x; a=1' },
  ...{ extension: Buffer.from([1, 4, 0, 0, 1, 0]), body: Buffer.from('of the journal') },
};

describe.skipIf(await lacks('redis'))('Redis store, put-back', async () => {
  const server = await workerRedis();

  async function opened() {
    const { under, trial } = await openedEmpty(server, { writer: '7.1' });
    const { healing } = under.store;
    if (healing === undefined) throw new Error('no healing');
    return { under, trial, healing };
  }

  const sound = async (trial: Trial) => expect((await examined(trial)).problems).toEqual([]);

  /** A waiting row that can be put back; its numbers are of the future. */
  const rowOf = (version: number, more: Partial<JobRow> = {}): JobRow => ({
    ...{ ...key, state: 'waiting', version, origin: version, number: version, orderAt: 0, dueAt: 0 },
    ...{ failures: 0, reason: null, place: here, endedOrigin: 0, alertTold: 0, bodyOrigin: version },
    pushed: pushedParts,
    ...more,
  });
  const endedRow = (version: number, state: JobRow['state'] = 'cancelled') =>
    rowOf(version, { state, endedOrigin: version, pushed: null });
  const later = (version: number) => version + 1_000;

  it('absent: is put back with all members, delayed or ready', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('clock');
    const dueAt = Date.now() + farOffMs;
    // Above the clock.
    const row = rowOf(version + 60_000_000, {
      ...{ origin: version - 5, bodyOrigin: version - 5, dueAt, failures: 3 },
    });
    const [outcome] = await healing.put([row]);
    expect(outcome).toMatchObject({
      kind: 'put',
      change: { version: row.version, origin: row.origin, failures: 3 },
    });
    expect((outcome as { change: { number: number } }).change.number).toBeGreaterThan(row.version);
    const dump = await under.dump();
    expect(dump.jobs.find(({ id }) => id === '1')).toMatchObject({
      ...{ state: 'delayed', version: row.version, origin: row.origin, dueAt, failures: 3, strikes: 0 },
      ...{ acceptedAt: 1_234_567, priority: 'high', contentType: 'text/x; a=1' },
      extension: pushedParts.extension,
      body: Buffer.from('of the journal'),
    });
    const pushed = { ...pushedParts, body: Buffer.alloc(9_000, 7) };
    const ready = rowOf(row.version + 1, { id: '2', pushed });
    expect(await healing.put([ready])).toMatchObject([{ kind: 'put' }]);
    const [leased] = (await trial.jobs.reserve(0, request)).jobs.filter(({ id }) => id === '2');
    expect(leased).toMatchObject({ version: ready.version, body: Buffer.alloc(9_000, 7) });
    // A repeat changes nothing, and a later push has a higher version.
    expect(await healing.put([row, ready])).toEqual([{ kind: 'kept' }, { kind: 'kept' }]);
    expect((await trial.push('1')).version).toBeGreaterThan(ready.version);
  });

  it('absent and dead: is put back as a dead letter; its alert is owed unless it was settled', async () => {
    const { trial, healing } = await opened();
    const { version } = await trial.push('clock');
    const dead = { state: 'dead', reason: 'gone', orderAt: 5_000, failures: 2 } as const;
    const [owed, told] = [later(version), later(version) + 1];
    await healing.put([rowOf(owed, dead), rowOf(told, { ...dead, id: '2', alertTold: told })]);
    expect(await trial.jobs.get(key)).toMatchObject({ state: 'dead', deadReason: 'gone', deadAt: 5_000 });
    expect(await trial.alerts.stateOf({ ...key, version: owed })).toBe('owed');
    expect(await trial.alerts.stateOf({ topic: 't', id: '2', version: told })).toBe('sent');
    await sound(trial);
    expect(await trial.dead.requeue({}, 10)).toEqual({ requeued: 2, more: false });
  });

  it('edited: comes back with its new body, whether it is absent or an older version came back', async () => {
    const { under, trial, healing } = await opened();
    const spool = new MemorySpool();
    const { jobs } = journaled(under.store, spool);
    await jobs.push([jobOf('1')]);
    await jobs.edit([editOf(await trial.known('1'))]);
    await jobs.reschedule([{ ...key, when: { delayMs: farOffMs } }]);
    const edited = await trial.known('1');
    const [push, ...later] = spool.changes.map(changedRow) as [JobRow, ...JobRow[]];
    const rows = [later.reduce(mergeRows, push), later.toReversed().reduceRight(mergeRows, push)];
    for (const [n, row] of rows.entries())
      for (const isBack of [false, true]) {
        // As if each were the id that the store has lost, or has in its older version.
        const at = (its: JobRow) => ({ ...its, id: `${n} ${isBack}` });
        if (isBack) await healing.put([at(push)]);
        expect(await healing.put([at(row)])).toMatchObject([{ kind: 'put' }]);
        expect(await healing.put([at(push)])).toEqual([{ kind: 'kept' }]);
        expect(await trial.jobs.get(at(row))).toEqual({ ...edited, id: at(row).id });
      }
    expect(edited.body).toEqual(newContent.body);
  });

  it('absent, and the row has ended: an entry keeps older rows away', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('clock');
    expect(await healing.put([endedRow(later(version))])).toMatchObject([{ kind: 'kept' }]);
    expect(await under.store.history.get(key)).toMatchObject({ state: 'cancelled' });
    expect(await healing.put([rowOf(version)])).toMatchObject([{ kind: 'ended' }]);
    expect(await trial.jobs.get(key)).toBeNull();
  });

  it('live with a higher version: kept', async () => {
    const { trial, healing } = await opened();
    const { version } = await trial.push('1');
    expect(await healing.put([rowOf(version - 1), endedRow(version - 1)])).toEqual([
      { kind: 'kept' },
      { kind: 'kept' },
    ]);
    expect(await trial.jobs.get(key)).toMatchObject({ version });
  });

  it('live with the same version: an end removes it; more failures or a death count; a reserved one is kept', async () => {
    const { trial, healing } = await opened();
    const { version } = await trial.push('1', { when: { delayMs: farOffMs } });
    expect(await healing.put([rowOf(version)])).toEqual([{ kind: 'kept' }]);
    const dueAt = Date.now() + 2 * farOffMs;
    expect(await healing.put([rowOf(version, { failures: 2, dueAt })])).toMatchObject([{ kind: 'put' }]);
    expect(await trial.jobs.get(key)).toMatchObject({ failures: 2, dueAt, version });
    const dead = rowOf(version, { state: 'dead', reason: 'no_retry', orderAt: 7, failures: 2 });
    expect(await healing.put([dead])).toMatchObject([{ kind: 'put' }]);
    expect(await trial.jobs.get(key)).toMatchObject({ state: 'dead', deadReason: 'no_retry' });
    expect(await healing.put([endedRow(version, 'expired')])).toMatchObject([{ kind: 'removed' }]);
    expect(await trial.jobs.get(key)).toBeNull();
    const job = await trial.reserved('2');
    const more = rowOf(job.version, { id: '2', failures: 9 });
    expect(await healing.put([more])).toEqual([{ kind: 'kept' }]);
    expect(
      await healing.put([endedRow(job.version, 'done')].map((row) => ({ ...row, id: '2' }))),
    ).toMatchObject([{ kind: 'removed' }]);
    expect(await trial.jobs.ack([{ ...job, attempt: null }])).toEqual([{ kind: 'lease_lost' }]);
  });

  it('live with a lower version: replaced by the row, or removed by its end', async () => {
    const { trial, healing } = await opened();
    const job = await trial.reserved('1');
    expect(await healing.put([rowOf(later(job.version))])).toMatchObject([{ kind: 'put' }]);
    expect(await trial.jobs.get(key)).toMatchObject({
      ...{ version: later(job.version), body: Buffer.from('of the journal'), state: 'ready' },
    });
    expect(await trial.jobs.ack([{ ...job, attempt: null }])).toEqual([{ kind: 'lease_lost' }]);
    await sound(trial);
    const end = later(later(job.version));
    expect(await healing.put([endedRow(end)])).toMatchObject([{ kind: 'removed' }]);
    expect(await healing.put([rowOf(end - 1)])).toMatchObject([{ kind: 'ended', version: end }]);
  });

  it('what it wrote has a number: a server that loses it again makes a note, and ends no phase', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('1');
    const note = { partition: 0, place: here, from: 1, id: version, phase: 'ends' } as const;
    await under.raw.hset(meta, 'heal', `1 ${version} ends`);
    const allowed = () => ({ note: version, healed: 0 });
    const written = [
      [endedRow(version), 'removed'],
      [endedRow(later(version), 'done'), 'kept'],
      [{ ...rowOf(later(version)), id: 'other' }, 'put'],
    ] as const;
    for (const [row, kind] of written) {
      const before = (await under.raw.hget(meta, 'w7.1')) ?? '0';
      const [outcome] = await healing.put([row], allowed);
      expect(outcome).toMatchObject({ kind });
      const reached = (await under.raw.hget(meta, 'w7.1')) ?? '0';
      expect(Number(reached)).toBeGreaterThan(Number(before));
      // As an older copy of the server has it.
      await under.raw.hset(meta, 'w7.1', before);
      expect(await healing.advance(note, 'jobs')).toBe(false);
      expect(await healing.hold(note, 1_000)).toBe(false);
      await under.raw.hset(meta, 'w7.1', reached);
    }
    expect(await healing.advance(note, 'jobs')).toBe(true);
    await under.raw.hset(meta, 'w7.1', version - 1);
    const looked = await healing.look(0, { writers: new Map(), marks: new Map(), forget: null });
    expect(looked.note).toMatchObject({ from: 1, phase: 'ends' });
  });

  it('works on one note only: not under another one, nor after it was healed, and late rows without one', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('clock');
    const row = rowOf(later(version));
    const allowed = (note: number, healed: number) => () => ({ note, healed });
    const other = { kind: 'other_note', place: here, note: version };
    await under.raw.hset(meta, 'heal', `1 ${version} jobs`);
    expect(await healing.put([row])).toEqual([other]);
    for (const its of [version - 1, version + 1])
      expect(await healing.put([row], allowed(its, its))).toEqual([other]);
    await under.raw.hset(meta, 'heal', String(version));
    expect(await healing.put([row], allowed(version, version - 1))).toEqual([other]);
    // Of another partition's note: this one was healed meanwhile.
    expect(await healing.put([row], allowed(version, version))).toMatchObject([{ kind: 'put' }]);
    await under.raw.hset(meta, 'heal', `1 ${version} jobs`);
    const second = { ...row, id: '2' };
    expect(await healing.put([second], allowed(version, 0))).toMatchObject([{ kind: 'put' }]);
    await under.raw.hset(meta, 'heal', String(version));
    expect(await healing.put([{ ...row, id: '3' }])).toMatchObject([{ kind: 'put' }]);
    expect(await trial.jobs.get({ topic: 't', id: '3' })).not.toBeNull();
  });

  it('live, and the row names another place: found here, unless only one of them is dead', async () => {
    const { trial, healing } = await opened();
    const { version } = await trial.push('1', { when: { delayMs: farOffMs } });
    const row = rowOf(version, { place: `${'5b'.repeat(8)}:0` });
    const [outcome] = await healing.put([row]);
    expect(outcome).toMatchObject({ kind: 'found', change: { version, failures: 0, place: here } });
    expect((outcome as { change: { number: number } }).change.number).toBeGreaterThan(version);
    expect(await healing.put([{ ...row, place: here }])).toEqual([{ kind: 'kept' }]);
    const dead = { ...row, state: 'dead', reason: 'gone', orderAt: 5_000 } as const;
    expect(await healing.put([dead])).toMatchObject([{ kind: 'put' }]);
    expect(await healing.put([row, dead])).toMatchObject([{ kind: 'kept' }, { kind: 'found' }]);
  });

  it('look: makes a note when a writer or a mark has a lower number, raises marks, and forgets writers', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('a');
    const none = { writers: new Map<string, number>(), marks: new Map(), forget: null };
    const mark = (known: number, next: number) => new Map([[7, { known, next }]]);
    const whole = { place: `${'5a'.repeat(8)}:0`, note: null, healed: 0 };
    expect(await healing.look(0, none)).toEqual(whole);
    expect(await healing.look(0, { ...none, writers: new Map([['7.1', version]]) })).toEqual(whole);
    expect(await healing.look(0, { ...none, marks: mark(0, version) })).toEqual(whole);
    expect(await healing.look(0, { ...none, marks: mark(version, version - 5) })).toEqual(whole);
    expect(await under.raw.hget(meta, 'r7')).toBe(String(version));
    // Of a clock that was an hour ahead.
    const lost = version + 3_600_000_000;
    const { note } = await healing.look(0, { ...none, writers: new Map([['8.1', lost]]) });
    if (note === null) throw new Error('no note');
    expect(note).toMatchObject({ from: 0, phase: 'ends', partition: 0, place: whole.place });
    expect(note.id).toBeGreaterThan(lost);
    expect(await healing.look(0, none)).toEqual({ ...whole, note });
    expect(await healing.advance({ ...note, id: 5 }, 'jobs')).toBe(false);
    expect(await healing.advance(note, 'jobs')).toBe(true);
    expect(await healing.look(0, none)).toEqual({ ...whole, note: { ...note, phase: 'jobs' } });
    expect(await healing.advance(note, 'healed')).toBe(true);
    const healed = { ...whole, healed: note.id };
    expect(await healing.look(0, none)).toEqual(healed);
    // Numbers from before the healing show no further loss; a mark above it does.
    expect(await healing.look(0, { ...none, writers: new Map([['8.1', lost]]) })).toEqual(healed);
    const known = note.id + 50;
    expect((await healing.look(0, { ...none, marks: mark(known, known) })).note).toMatchObject({
      from: version,
    });
    const writers = async () => (await under.raw.hkeys(meta)).filter((name) => name.startsWith('w')).sort();
    await under.raw.hset(meta, { 'w7.10': version, 'w70.1': version });
    await healing.look(0, { ...none, forget: { instance: 7, below: 1 } });
    expect(await writers()).toEqual(['w7.1', 'w7.10', 'w70.1']);
    await healing.look(0, { ...none, forget: { instance: 7, below: 10 } });
    expect(await writers()).toEqual(['w7.10', 'w70.1']);
  });

  it('look: a forgotten writer whose changes MySQL gets again has lost nothing', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('a');
    const none = { writers: new Map<string, number>(), marks: new Map(), forget: null };
    const noteOf = async (writer: string) =>
      (await healing.look(0, { ...none, writers: new Map([[writer, version]]) })).note;
    await under.raw.hset(meta, 'w8.1', version);
    for (const below of [2, 1]) await healing.look(0, { ...none, forget: { instance: 8, below } });
    expect(await under.raw.hexists(meta, 'w8.1')).toBe(0);
    expect(await noteOf('8.1')).toBeNull();
    expect(await noteOf('8.2')).toMatchObject({ from: 0 });
  });

  it('replace: an open row replaces an older version, and brings no absent job', async () => {
    const { trial, healing } = await opened();
    const { version } = await trial.push('1');
    const rows = [rowOf(later(version)), rowOf(later(version), { id: 'absent' })];
    expect(await healing.put(rows, undefined, 'replace')).toMatchObject([{ kind: 'put' }, { kind: 'kept' }]);
    expect(await trial.jobs.get(key)).toMatchObject({ version: later(version) });
    expect(await trial.jobs.get({ topic: 't', id: 'absent' })).toBeNull();
  });

  it('compare: tells of an older version, removes what has ended, and puts nothing', async () => {
    const { trial, healing } = await opened();
    const { version } = await trial.push('1');
    const { version: other } = await trial.push('2');
    const rows = [
      rowOf(later(version)),
      rowOf(later(version), { id: 'absent' }),
      rowOf(later(other), { id: '2', state: 'cancelled', endedOrigin: later(other) }),
    ];
    expect(await healing.put(rows, undefined, 'compare')).toMatchObject([
      ...[{ kind: 'older' }, { kind: 'kept' }, { kind: 'removed' }],
    ]);
    expect(await trial.jobs.get(key)).toMatchObject({ version });
    expect(await trial.jobs.get({ topic: 't', id: 'absent' })).toBeNull();
    expect(await trial.jobs.get({ topic: 't', id: '2' })).toBeNull();
  });

  it('lacks: neither the version nor a higher one, live or dead; an ended or damaged job is lacking', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('1');
    const dead = await trial.buried('dead', { topic: 'dead' });
    const ended = await trial.reserved('ended', { topic: 'ended' });
    await trial.jobs.ack([{ ...ended, attempt: null }]);
    const at = (its: number, id = '1', topic = 't') => ({ topic, id, version: its });
    const asked = [at(version - 1), at(version), at(version + 1), at(1, '2'), at(1, '1', 'unknown')];
    const others = [at(dead.version, 'dead', 'dead'), at(ended.version, 'ended', 'ended')];
    expect(await healing.lacks([...asked, ...others])).toEqual([
      ...[false, false, true, true, true],
      ...[false, true],
    ]);
    for (const field of await under.raw.hkeysBuffer('{dq:0}:j')) await under.raw.hset('{dq:0}:j', field, 'x');
    expect(await healing.lacks([at(version)])).toEqual([true]);
    // Not surely.
    await under.redis.close();
    expect(await healing.lacks([at(version)])).toEqual([false]);
  });

  it('lacks: asks each shard that may have the job; while one does not answer, no job surely lacks', async () => {
    const other = await owned('test', startRedis());
    await emptied([server]);
    const listed = { list: listOf([server]) };
    const redis = await openShards(listed, { writer: '7.1' });
    await owned('test', Promise.resolve({ stop: () => redis.close() }));
    const { healing, jobs } = redis.store;
    if (healing === undefined) throw new Error('no healing');
    const ids = Array.from({ length: 40 }, (_, n) => `job-${n}`);
    const outcomes = await jobs.push(ids.map((id) => jobOf(id)));
    const asked = outcomes.map((outcome, n) => ({
      ...{ topic: 't', id: ids[n] as string },
      version: outcome.kind === 'stored' ? outcome.version : 0,
    }));
    listed.list = withShard(listed.list, shardOf(other, 'b'));
    redis.apply(listed.list);
    await jobs.push([jobOf('connected')]);
    expect((await healing.lacks(asked)).filter(Boolean)).toEqual([]);
    const unknown = ids.map((id) => ({ topic: 't', id: `no-${id}`, version: 1 }));
    expect((await healing.lacks(unknown)).filter((lacks) => !lacks)).toEqual([]);
    await other.stop();
    // Those that only the first shard may have still lack.
    const homes = new Set(asked.map((job) => placesOf(listed.list, job).home));
    expect(homes.size).toBe(2);
    const answers = await healing.lacks(unknown);
    expect(answers).toEqual(unknown.map((job) => placesOf(listed.list, job).home === 'a'.repeat(16)));
  });

  it('walk: every job once or more, in parts of bounded bytes; a job that ended meanwhile is left out', async () => {
    const { trial, healing } = await opened();
    const found = new Map<string, number>();
    const walkAll = async (take: () => Promise<void>) => {
      let pieces = 0;
      let cursor: string | null = null;
      do {
        cursor = await healing.walk(0, cursor, async (jobs) => {
          expect(jobs.reduce((sum, { body }) => sum + body.length, 0)).toBeLessThanOrEqual(1024 * 1024);
          for (const { id, body } of jobs) found.set(id, body.length);
          await take();
        });
        pieces += 1;
      } while (cursor !== null);
      return pieces;
    };
    const large = Array.from({ length: 5 }, (_, n) => `large-${n}`);
    for (const id of large) await trial.push(id, { body: Buffer.alloc(400_000, id) });
    let gone: string | undefined;
    // A small bucket is one piece.
    const pieces = await walkAll(async () => {
      gone ??= large.findLast((id) => !found.has(id)) as string;
      await trial.jobs.cancel([{ topic: 't', id: gone }]);
    });
    expect(pieces).toBe(1);
    const left = large.filter((id) => id !== gone);
    expect([...found].sort()).toEqual(left.map((id) => [id, 400_000]));
    found.clear();
    const small = Array.from({ length: 700 }, (_, n) => jobOf(`small-${n}`));
    await trial.jobs.push(small);
    expect(await walkAll(async () => {})).toBeGreaterThan(1);
    expect([...found.keys()].sort()).toEqual([...left, ...small.map(({ id }) => id)].sort());
  });

  it('a full server rejects rows before it changes anything', async () => {
    const { under, trial, healing } = await opened();
    const { version } = await trial.push('clock');
    await under.raw.config('SET', 'maxmemory', '1');
    const full = { kind: 'not_stored', code: 'redis_full' };
    expect(await healing.put([rowOf(later(version))])).toEqual([full]);
    await under.raw.config('SET', 'maxmemory', '0');
    expect(await healing.put([rowOf(later(version))])).toMatchObject([{ kind: 'put' }]);
  });
});

const request = {
  owner: { instance: 3, incarnation: 3 },
  max: 10,
  others: { room: 10, leaseMs: 60_000 },
  topics: new Map(),
};
