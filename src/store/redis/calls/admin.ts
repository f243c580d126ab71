// Counting, purging, health and examination of the port. What an examination has found is kept in the store itself: another
// server process may be asked for it than the one that does it.

import { reasonOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import type {
  Examination,
  LongWork,
  Problem,
  StateCounts,
  StoreAdmin,
  StoreHealth,
} from '../../../ports/job-store.ts';
import { StoreError } from '../../../ports/job-store.ts';
import { storeLimits } from '../../limits.ts';
import { durabilityOf, readSettings, settingNames } from '../client/durability.ts';
import { redisLimits } from '../limits.ts';
import { prefixOf } from '../scripts/keys.ts';
import type { Shard } from '../shard/shard.ts';
import { askAll, namingMissing, type Shards } from '../shard/shards.ts';
import { inSteps } from './calls.ts';
import { examine } from './examination.ts';
import { setAsideOn } from './quarantine.ts';

type CountsReply = readonly [topic: Buffer, delayed: number, ready: number, reserved: number, dead: number];

/** `members`: the shards as they are now */
export function adminCalls(shards: Shards, members: () => readonly Shard[]): StoreAdmin {
  const records = () => members().map((shard) => new ExaminationRecord(shard));
  return {
    async counts(held = []) {
      const { answers: replies, missing } = await askAll(
        shards,
        (partition) => shards.run('counts', partition, held) as Promise<unknown[]>,
      );
      const topics = new Map<string, StateCounts>();
      let oldest: number | null = null;
      for (const [now, due, ...found] of replies as unknown as [number, number, ...CountsReply[]][]) {
        if (due >= 0) oldest = Math.max(oldest ?? 0, now - due);
        for (const [topic, delayed, ready, reserved, dead] of found) {
          const name = topic.toString();
          const sum = topics.get(name) ?? { delayed: 0, ready: 0, reserved: 0, dead: 0 };
          topics.set(name, {
            delayed: sum.delayed + delayed,
            ready: sum.ready + ready,
            reserved: sum.reserved + reserved,
            dead: sum.dead + dead,
          });
        }
      }
      // From entries, not by assignment: a topic may be called `constructor`.
      return { topics: Object.fromEntries(topics), oldestOverdueMs: oldest, ...namingMissing(missing) };
    },
    async purgeTopic(topic, max) {
      const { done, more } = await inSteps(
        shards.partitions,
        Math.min(max, limits.bulkMax),
        async (bucket, n) => {
          return (await shards.run('purgeTopic', bucket, [topic, n])) as [number, number];
        },
      );
      return { purged: done, more };
    },
    health: () => healthOfAll(members()),
    async clock() {
      const shards = members();
      const shard = shards.find(({ isReady }) => isReady) ?? shards[0];
      if (shard === undefined) throw new StoreError({ kind: 'not_stored', code: 'no_such_shard' });
      const [seconds, micros] = (await shard.command('TIME')) as [string, string];
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    },
    startBackup: async () => 'started',
    backup: async () => ({ kind: 'failed', startedAt: 0, endedAt: 0, reason: noBackup }),
    async startFsck() {
      const all = records();
      if ((await readAll(all)).kind === 'running') return 'busy';
      await Promise.all(all.map((record) => record.start()));
      return 'started';
    },
    fsck: () => readAll(records()),
  };
}

const noBackup =
  'nothing was copied, because the jobs are in Redis. Back up Redis by its own means (BGSAVE, then copy its dump.rdb), after it the registry ' +
  '(with MySQL: mysqldump --single-transaction; without: sqlite3 registry.db ".backup FILE" in the data directory), and secret.key: ' +
  'README.md, "Backing up Redis and MySQL"';

/** `whyNone`: what the first list of shards waits for. Well enough while one works: what the others hold waits for them, and each of them is named. */
export async function healthOfAll(
  members: readonly Shard[],
  whyNone: () => string | null = () => null,
): Promise<StoreHealth> {
  const healths = await Promise.all(members.map(healthOf));
  const [first] = healths;
  if (first === undefined)
    return { ok: false, ...durabilityOf(null), warnings: [whyNone() ?? 'no Redis is known yet'] };
  if (healths.length === 1) return first;
  const sentences = [...new Set(healths.filter(({ ok }) => ok).map(({ durability }) => durability))];
  return {
    ok: healths.some(({ ok }) => ok),
    durability: sentences.join('; ') || first.durability,
    // What does not work is named by its warning; what is configured badly, by its address.
    warnings: healths.flatMap(({ ok, warnings }, i) =>
      ok ? warnings.map((warning) => `${members[i]?.name}: ${warning}`) : warnings,
    ),
    servers: healths.flatMap(({ servers }) => servers ?? []),
    setAside: healths.reduce((sum, { setAside = 0 }) => sum + setAside, 0),
  };
}

async function healthOf(shard: Shard): Promise<StoreHealth> {
  const trouble = await troubleOf(shard);
  const { name } = shard;
  const servers = [{ name, trouble }];
  if (trouble !== null) {
    // The error text is not part of the incident key.
    const words = shard.words === null ? '' : `: ${shard.words}`;
    return { ok: false, ...durabilityOf(null), warnings: [`Redis at ${name} ${trouble}${words}`], servers };
  }
  const { count, warnings: ofSetAside } = await setAsideOn(shard).catch(noneKnown);
  const { durability, warnings: ofSettings } = durabilityOf(await settingsOf(shard));
  const ofClocks = await shard.clockWarnings();
  const warnings = [...ofSettings, ...ofSetAside, ...ofClocks];
  return { ok: true, durability, warnings, servers, setAside: count };
}

/** It went away meanwhile: the next question says so. */
function noneKnown(error: unknown): Awaited<ReturnType<typeof setAsideOn>> {
  if (error instanceof StoreError) return { count: 0, warnings: [] };
  throw error;
}

const troubles: Readonly<Record<string, string>> = {
  redis_away: 'cannot be reached',
  redis_no_answer: 'does not answer',
  redis_full: 'is full and takes no pushes; the rest goes on',
  redis_read_only: 'is read-only: it follows another server',
  redis_no_replicas: 'has too few replicas to take writes',
  redis_cannot_write: 'cannot write to its disk, and refuses writes',
  redis_loading: 'is loading its data',
  redis_denied: 'refuses the user or password, or a command to them',
  redis_busy: 'is held up by a script of somebody else',
  foreign_marker: 'belongs to another store',
  registry_away: 'is not used before the registry has said which one it is',
  no_marker: 'has lost its jobs',
};

/** Asked to bring no dead letter back: refused whenever a push would be, and nothing is changed or placed. */
async function troubleOf(shard: Shard): Promise<string | null> {
  try {
    // By no list of shards: whether this process has the newest is no trouble of the server.
    const newest = Number.MAX_SAFE_INTEGER;
    await Promise.all(shard.onePerNode().map((bucket) => shard.run('requeue', bucket, [], newest)));
    return null;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const { code } = error.failure;
    if (code === 'redis_denied' && shard.denial !== null) return shard.denial;
    return troubles[code] ?? `does not work (${code})`;
  }
}

async function settingsOf(shard: Shard) {
  try {
    return readSettings((await shard.command('CONFIG', 'GET', ...settingNames)) as string[]);
  } catch (error) {
    // A user of Redis without the right to CONFIG: what it survives is then not known, and nothing else is wrong.
    if (error instanceof StoreError) return null;
    throw error;
  }
}

/** What is known of all of them, as of one work. */
async function readAll(records: readonly ExaminationRecord[]): Promise<LongWork<Examination>> {
  const all = await Promise.all(records.map((record) => record.read()));
  const running = all.find(({ kind }) => kind === 'running');
  const unfinished = running ?? all.find(({ kind }) => kind !== 'done');
  if (unfinished !== undefined) return unfinished;
  const done = all.filter((one) => one.kind === 'done');
  if (done.length === 0) return { kind: 'none' };
  const problems = new Map<string, Problem>();
  for (const problem of done.flatMap(({ result }) => result.problems)) {
    const name = `${problem.invariant} ${problem.what}`;
    const known = problems.get(name);
    const examples = [...(known?.examples ?? []), ...problem.examples].slice(0, storeLimits.fsckExamples);
    problems.set(name, { ...problem, count: (known?.count ?? 0) + problem.count, examples });
  }
  return {
    kind: 'done',
    startedAt: Math.min(...done.map(({ startedAt }) => startedAt)),
    endedAt: Math.max(...done.map(({ endedAt }) => endedAt)),
    result: {
      jobs: done.reduce((sum, { result }) => sum + result.jobs, 0),
      problems: [...problems.values()],
    },
  };
}

/** The examination of one shard. Its record runs out when the process that does it has died. */
class ExaminationRecord {
  readonly #shard: Shard;
  readonly #key: string;

  constructor(shard: Shard) {
    this.#shard = shard;
    this.#key = `${prefixOf(0)}:fsck`;
  }

  async start(): Promise<void> {
    const startedAt = Date.now();
    await this.#write({ kind: 'running', startedAt }, redisLimits.examinationPulseMs);
    void this.#work(startedAt);
  }

  async read(): Promise<LongWork<Examination>> {
    const text = (await this.#shard.command('GET', this.#key)) as string | null;
    return text === null ? { kind: 'none' } : (JSON.parse(text) as LongWork<Examination>);
  }

  async #work(startedAt: number): Promise<void> {
    let pulseAt = performance.now();
    const onPiece = async () => {
      if (performance.now() < pulseAt + redisLimits.examinationPulseMs / 4) return;
      pulseAt = performance.now();
      await this.#write({ kind: 'running', startedAt }, redisLimits.examinationPulseMs);
    };
    let ended: LongWork<Examination>;
    try {
      const result = await examine(this.#shard, onPiece);
      ended = { kind: 'done', startedAt, endedAt: Date.now(), result };
    } catch (error) {
      ended = { kind: 'failed', startedAt, endedAt: Date.now(), reason: reasonOf(error) };
    }
    try {
      await this.#write(ended, redisLimits.examinationKeptMs);
    } catch {
      // Redis is away: the record of the work runs out by itself, and whoever asks is told that there is none.
    }
  }

  async #write(state: LongWork<Examination>, forMs: number): Promise<void> {
    await this.#shard.command('SET', this.#key, JSON.stringify(state), 'PX', forMs);
  }
}
