// Tests the import of jobs with a model of dq and of a source that die, or do not answer, at any call.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiClient, ApiRefusal, type ApiReply } from '../../src/cli/daemon/api-client.ts';
import { importJobs, JobReport } from '../../src/cli/import/import-jobs.ts';
import { ImportState } from '../../src/cli/import/import-state.ts';
import { KnownTopics } from '../../src/cli/import/import-topics.ts';
import { noSettings } from '../../src/cli/import/job-settings.ts';
import { digestOf, type Found, type Source, type SourceJob } from '../../src/cli/import/source.ts';
import { startProgress } from '../../src/cli/output/progress.ts';

const topic = 't';

interface InSource {
  readonly id: string;
  readonly body: string;
  /** seconds after some time; null: the source does not say */
  readonly accepted: number | null;
}
interface InDq {
  readonly body: string;
  readonly createdAt: number;
  readonly dueAt: number;
  readonly isLive: boolean;
}
type Call = Parameters<ApiClient['call']>[0];

/** An fsync takes no time there. */
const memory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

class Death extends Error {}

/** dq, as its API shows it. `keep` leaves a live job, `replace` does not. */
class Dq extends ApiClient {
  readonly jobs = new Map<string, InDq>();
  /** `id body` of each push that it stored */
  readonly stored: string[] = [];
  readonly #mayDie: () => void;

  constructor(mayDie: () => void) {
    super({ url: 'http://127.0.0.1:1', token: null, pid: null });
    this.#mayDie = mayDie;
  }

  override async call<T>(call: Call): Promise<ApiReply<T>> {
    this.#mayDie();
    const json = this.#answer(call) as T;
    this.#mayDie();
    return { status: 200, text: '', json, at: null };
  }

  endAll(): void {
    for (const [id, job] of this.jobs) this.jobs.set(id, { ...job, isLive: false });
  }

  own(id: string, body: string, dueAt = 1): void {
    this.jobs.set(id, { body, createdAt: 1, dueAt, isLive: true });
  }

  #answer({ path, body }: Call): unknown {
    if (path[1] === 'jobs')
      return { results: JSON.parse(`${body?.bytes}`).map((item: never) => this.#push(item)) };
    if (path.length === 3) return { topic, state: 'active', delivery: 'push' };
    const job = this.jobs.get(path[4] ?? '');
    if (job === undefined) {
      throw new ApiRefusal({ code: 'job_not_found', status: 404, title: '', errors: [], detail: '' });
    }
    const createdAt = new Date(job.createdAt).toISOString();
    const times = { createdAt, dueAt: new Date(job.dueAt).toISOString() };
    return job.isLive ? { ...times, body: job.body } : { ...times, endedAt: createdAt };
  }

  #push({
    id,
    mode,
    idempotency,
    acceptedAt,
    body,
  }: {
    id: string;
    mode: string;
    idempotency: unknown;
    acceptedAt: number;
    body: unknown;
  }) {
    // The topic has a window that holds.
    if (idempotency !== 0 && this.jobs.get(id)?.isLive === false)
      return { status: 200, duplicate: true, state: 'done' };
    if (mode === 'keep' && this.jobs.get(id)?.isLive) return { status: 200, duplicate: true };
    const text = JSON.stringify(body);
    this.jobs.set(id, { body: text, createdAt: acceptedAt, dueAt: acceptedAt, isLive: true });
    this.stored.push(`${id} ${text}`);
    return { status: 201, duplicate: false };
  }
}

class World {
  /** in the order of reading; an id may be on two servers */
  source: InSource[] = [];
  /** dies at the call of this number; the calls so far */
  deathAt = Number.POSITIVE_INFINITY;
  calls = 0;
  isAway = false;
  readonly dq = new Dq(() => this.#mayDie());
  readonly directory = mkdtempSync(join(memory, 'dq-import-'));

  async run(options: { readonly move?: boolean; readonly dryRun?: boolean } = {}): Promise<JobReport> {
    const { move = false, dryRun = false } = options;
    const identity = { source: 'a', places: 'b', dq: 'c' };
    const state = new ImportState(join(this.directory, 's'), identity, !dryRun);
    const report = new JobReport();
    const progress = startProgress('jobs read', null);
    try {
      const known = new KnownTopics(this.dq);
      const options = { dryRun, move, bodyBytesMax: null, settings: noSettings };
      await importJobs({ client: this.dq, source: this.#reader(), known, state, report, options }, progress);
    } finally {
      progress.stop();
      state.close();
    }
    return report;
  }

  close(): void {
    rmSync(this.directory, { recursive: true });
  }

  #mayDie(): void {
    if (this.calls++ === this.deathAt || this.isAway) throw new Death();
  }

  #reader(): Source {
    const world = this;
    return {
      places: 'b',
      topics: async () => [],
      async *jobs() {
        for (const one of [...world.source]) yield [{ kind: 'job', job: jobOf(one) } satisfies Found];
      },
      async remove(jobs) {
        world.#mayDie();
        const gone = world.source.filter(({ id, body }) =>
          jobs.some((job) => job.id === id && `${job.record}` === body),
        );
        world.source = world.source.filter((one) => !gone.includes(one));
        world.#mayDie();
        return gone.length;
      },
      settings: async () => '',
      close: async () => {},
    };
  }
}

function jobOf({ id, body, accepted }: InSource): SourceJob {
  const record = Buffer.from(body);
  return {
    ...{ topic, id, dueAt: null, place: 'due', failures: 0, leaseMs: null, digest: digestOf(record), record },
    acceptedAt: accepted === null ? null : Date.parse('2020-01-01') + accepted * 1_000,
    body: { contentType: 'application/json', bytes: record },
  };
}

function newWorld(source: InSource[]): World {
  const world = new World();
  onTestFinished(() => world.close());
  world.source = source;
  return world;
}
const one = (id: string, v: number, accepted: number | null = v): InSource => ({
  id,
  body: `{"v":${v}}`,
  accepted,
});

describe('import of jobs', () => {
  it('--move again: a job whose content dq never had stays in the source', async () => {
    const world = newWorld([one('2', 1)]);
    world.dq.own('2', '{"v":9}');
    for (const _ of [1, 2]) {
      const { counts, left } = await world.run({ move: true });
      expect({ ...counts, left }).toMatchObject({ kept: 1, before: 0, removed: 0, left: 1 });
    }
    expect(world.source).toEqual([one('2', 1)]);
    world.dq.endAll();
    expect((await world.run({ move: true })).counts).toMatchObject({ pushed: 1, removed: 1 });
  });

  it('a kept job without --move is not taken for imported by a later --move', async () => {
    const world = newWorld([one('2', 1)]);
    world.dq.own('2', '{"v":9}');
    expect((await world.run()).left).toBe(1);
    expect((await world.run({ move: true })).left).toBe(1);
    expect(world.source).toHaveLength(1);
  });

  it('a kept job with the same body is imported', async () => {
    const world = newWorld([one('2', 1)]);
    world.dq.own('2', '{"v":1}');
    expect((await world.run()).counts).toMatchObject({ kept: 1, pushed: 0 });
    world.dq.endAll();
    expect((await world.run({ move: true })).counts).toMatchObject({ before: 1, pushed: 0, removed: 1 });
  });

  it.each([
    [1, 'live'],
    [1, 'ended'],
    [2, 'live'],
    [null, 'ended'],
  ])('newer push (%s), dq unavailable at its push: dq gets it (older one %s)', async (accepted, state) => {
    const world = newWorld([one('1', 1, accepted === null ? null : 1)]);
    await world.run();
    if (state === 'ended') world.dq.endAll();
    world.source = [one('1', 2, accepted)];
    world.isAway = true;
    await expect(world.run({ move: true })).rejects.toThrow(Death);
    world.isAway = false;
    await world.run({ move: true });
    expect(world.dq.jobs.get('1')?.body).toBe('{"v":2}');
    expect(world.source).toEqual([]);
  });

  it('a job of dq with the same body that is due later is another one: --move leaves the job there', async () => {
    const world = newWorld([one('2', 1)]);
    world.dq.own('2', '{"v":1}', Date.now() + 86_400_000);
    for (const n of [1, 2]) {
      expect(await world.run({ move: true }), `run ${n}`).toMatchObject({ left: 1, counts: { removed: 0 } });
      expect(world.source).toHaveLength(1);
    }
  });

  it('a dry run with --move removes nothing', async () => {
    const world = newWorld([one('1', 1)]);
    await world.run();
    expect((await world.run({ move: true, dryRun: true })).counts).toMatchObject({ before: 1, removed: 0 });
    expect(world.source).toHaveLength(1);
  });

  it.each([
    ['the older first', [one('1', 1), one('1', 2)], 0],
    ['the newer first', [one('1', 2), one('1', 1)], 1],
    ['without times', [one('1', 1, null), one('1', 2, null)], 0],
  ])('one id on two servers, %s: the newer is in dq, and no run repeats', async (_, source, left) => {
    const world = newWorld(source);
    expect((await world.run()).left).toBe(left);
    expect(world.dq.jobs.get('1')?.body).toBe('{"v":2}');
    world.dq.endAll();
    const again = await world.run();
    expect({ pushed: again.counts.pushed, left: again.left }).toEqual({ pushed: 0, left });
  });

  it('death at any call, then again at any call: each push is stored once, and none is lost', async () => {
    const before = [one('1', 1), one('2', 1), one('3', 1), one('4', 1), one('4', 2), one('5', 1, null)];
    const newer = [one('1', 2), one('5', 2, null)];
    let worlds = 0;
    for (const isEnded of [false, true])
      for (let first = 0, isDone = false; !isDone; first += 1)
        for (let second = 0, isOver = false; !isOver; second += 3) {
          const world = new World();
          world.source = [...before];
          world.dq.own('2', '{"v":9}');
          world.dq.own('3', '{"v":1}');
          const runTo = async (deathAt: number) => {
            world.calls = 0;
            world.deathAt = deathAt;
            const died = await world.run({ move: true }).catch((error: Error) => error);
            if (died instanceof Error && !(died instanceof Death)) throw died;
            if (isEnded) world.dq.endAll();
            return died instanceof Death;
          };
          isDone = !(await runTo(first));
          world.source = [...world.source.filter(({ id }) => id !== '1' && id !== '5'), ...newer];
          isOver = !(await runTo(second));
          await runTo(Number.POSITIVE_INFINITY);
          const { stored } = world.dq;
          const state = JSON.stringify({ isEnded, first, second, stored, source: world.source });
          expect(new Set(stored).size, state).toBe(stored.length);
          for (const { id, body } of [...newer, ...before.filter(({ id }) => !'15'.includes(id))]) {
            const isSafe =
              stored.includes(`${id} ${body}`) ||
              world.source.some((one) => one.id === id && one.body === body);
            expect(isSafe || id === '3', state).toBe(true);
          }
          const calls = stored.length;
          await runTo(Number.POSITIVE_INFINITY);
          expect(stored.length - calls, state).toBe(0);
          world.close();
          worlds += 1;
        }
    expect(worlds).toBeGreaterThan(50);
  });
});

describe('state file of an import', () => {
  const identity = { source: 'a', places: 'b', dq: 'c' };

  it('a second import is rejected with the process that uses it', () => {
    const { directory } = newWorld([]);
    const path = join(directory, 's');
    const state = new ImportState(path, identity, true);
    expect(() => new ImportState(path, identity, true)).toThrow(`process ${process.pid} on `);
    new ImportState(path, identity, false).close();
    state.close();
    new ImportState(path, identity, true).close();
  });

  it('of another import, or not a state file: rejected', () => {
    const { directory } = newWorld([]);
    const path = join(directory, 's');
    new ImportState(path, identity, true).close();
    expect(() => new ImportState(path, { ...identity, source: 'x' }, true)).toThrow(
      's belongs to another import (source: a, now x); give another file',
    );
    for (const text of ['text\n', '5\n']) {
      writeFileSync(path, text);
      expect(() => new ImportState(path, identity, true)).toThrow('s is not the state of an import');
    }
    writeFileSync(path, `${JSON.stringify(identity)}\n{"batch":1,"jobs":[["t","1","d"]]}\n`);
    expect(() => new ImportState(path, identity, true)).toThrow('by another version of dq');
    // A kill came before the first line was whole.
    writeFileSync(path, '{"source":"a');
    new ImportState(path, identity, true).close();
  });

  it('a directory that does not exist: a message with the path', () => {
    expect(() => new ImportState('/nowhere/s', identity, true)).toThrow(/--state: cannot use \/nowhere\/s: /);
  });
});
