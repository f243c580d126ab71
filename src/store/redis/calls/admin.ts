// Administration of the port: counts, purge, health, clock, fsck. The result of an fsck is kept in Redis,
// because another process may read it than the one that runs it.

import { messageOf } from '../../../core/errors.ts';
import type { LateJob } from '../../../core/incident.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import { uncheckedSentence } from '../../../core/url/redis-url.ts';
import type {
  Counts,
  Examination,
  LongWork,
  Problem,
  StateCounts,
  StoreAdmin,
  StoreHealth,
} from '../../../ports/job-store.ts';
import { StoreError, type StoreFailure, shardsAway } from '../../../ports/store-error.ts';
import { monotonicNow, wallNow } from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
import { oldestByTopic } from '../../oldest-jobs.ts';
import { readSettings, redisDurabilityOf, settingNames } from '../client/durability.ts';
import { redisLimits } from '../limits.ts';
import { idOf, prefixOf } from '../scripts/keys.ts';
import type { Shard } from '../shard/shard.ts';
import { type Answered, askAll, namingMissing, type Shards } from '../shard/shards.ts';
import { bulkStep, inSteps } from './calls.ts';
import { examine, relink } from './examination.ts';
import { quarantineOf } from './quarantine.ts';

type CountsReply = readonly [topic: Buffer, delayed: number, ready: number, reserved: number, dead: number];
type BucketCounts = readonly [
  now: number,
  oldest: readonly (readonly [dueAt: number, topic: Buffer, tid: Buffer])[],
  ...CountsReply[],
];

/** Of dq-store, which owns registry.db, and a jobs.db whose jobs have not moved. */
export type FileBackups = Pick<StoreAdmin, 'startBackup' | 'backup'>;

/** All but health, which also depends on the shard list. `members`: the open shards at this moment; throws
 *  StoreError while no shard is known */
export function adminCalls(
  shards: Shards,
  members: () => readonly Shard[],
  backups: FileBackups | null = null,
): Omit<StoreAdmin, 'health'> {
  const records = () => members().map((shard) => new ExaminationRecord(shard));
  return {
    counts: async (held = [], pulled = []) => {
      const args = [limits.oldestMax, held.length, ...held, ...pulled];
      return sumOf([await askAll(shards, (partition) => shards.run('counts', partition, args))]);
    },
    async countsOf(topics) {
      const answered: Answered<unknown>[] = [];
      for (const some of inBatches(topics, redisLimits.countsPiece)) {
        const args = [limits.oldestMax, ...some];
        answered.push(await askAll(shards, (partition) => shards.run('countsOf', partition, args)));
      }
      return sumOf(answered);
    },
    async purgeTopic(topic, max, onChanged) {
      const bound = Math.min(max, limits.bulkMax);
      const { done, more } = await inSteps(shards.partitions, bound, (partition, n) =>
        bulkStep(shards, 'purgeTopic', partition, [topic, n], onChanged),
      );
      return { purged: done, more };
    },
    async clock() {
      const shards = members();
      const shard = shards.find(({ isReady }) => isReady) ?? (shards[0] as Shard);
      return Math.floor(await shard.now());
    },
    async moment() {
      // The list may have a shard more, which others push to.
      await shards.refresh();
      const { answers, missing } = await askAll(
        shards,
        async (partition) =>
          [shards.lastingNameOf(partition), Number(await shards.run('moment', partition, []))] as const,
      );
      if (missing.length > 0) throw new StoreError(shardsAway(missing));
      return Object.fromEntries(answers);
    },
    startBackup: async (directory) => backups?.startBackup(directory) ?? 'started',
    backup: async () => backups?.backup() ?? { kind: 'none' },
    async startFsck(how) {
      const all = records();
      if ((await readAll(all)).kind === 'running') return 'busy';
      await Promise.all(all.map((record) => record.start(how === 'relinks')));
      return 'started';
    },
    fsck: async () => readAll(records()),
  };
}

/** Of the answers of all buckets. */
function sumOf(answered: readonly Answered<unknown>[]): Counts {
  const replies = answered.flatMap(({ answers }) => answers);
  const missing = [...new Set(answered.flatMap((one) => one.missing))];
  const topics = new Map<string, StateCounts>();
  let oldestOverdueMs: number | null = null;
  const oldest: LateJob[] = [];
  for (const [now, overdue, ...found] of replies as BucketCounts[]) {
    for (const [dueAt, topic, tid] of overdue) {
      oldestOverdueMs = Math.max(oldestOverdueMs ?? 0, now - dueAt);
      oldest.push({ topic: topic.toString(), id: idOf(tid), dueAt });
    }
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
  // fromEntries, because assignment would fail for a topic named `__proto__`.
  return {
    topics: Object.fromEntries(topics),
    oldestOverdueMs,
    oldest: oldestByTopic(oldest),
    ...namingMissing(missing),
  };
}

/** Ok while one shard works: jobs on the others wait, and each of those is named in the warnings.
 *  `whyUnknown`: why there are no members */
export async function healthOfAll(
  members: readonly Shard[],
  whyUnknown: StoreFailure | null,
): Promise<StoreHealth> {
  if (whyUnknown !== null)
    return { ok: false, ...redisDurabilityOf(null), warnings: [whyUnknown.why ?? whyUnknown.code] };
  const healths = await Promise.all(members.map(healthOf));
  const first = healths[0] as StoreHealth;
  if (healths.length === 1) return first;
  const sentences = [...new Set(healths.filter(({ ok }) => ok).map(({ durability }) => durability))];
  return {
    ok: healths.some(({ ok }) => ok),
    durability: sentences.join('; ') || first.durability,
    // The warning of a failed shard contains its name; other warnings get it here.
    warnings: healths.flatMap(({ ok, warnings }, i) =>
      ok ? warnings.map((warning) => `${members[i]?.name}: ${warning}`) : warnings,
    ),
    servers: healths.flatMap(({ servers }) => servers ?? []),
    quarantined: healths.reduce((sum, { quarantined = 0 }) => sum + quarantined, 0),
  };
}

async function healthOf(shard: Shard): Promise<StoreHealth> {
  const trouble = await troubleOf(shard);
  const { name } = shard;
  const servers = [{ name, trouble }];
  if (trouble !== null) {
    const warnings = [`Redis at ${name} ${withErrorText(shard, trouble)}`];
    return { ok: false, ...redisDurabilityOf(null), warnings, servers };
  }
  const { count, warnings: ofQuarantine } = await quarantineOf(shard).catch(noneKnown);
  const { durability, warnings: ofSettings } = redisDurabilityOf(await settingsOf(shard));
  const ofClocks = await shard.clockWarnings();
  const ofTls = shard.verifiesTls ? [] : [uncheckedSentence(name)];
  const warnings = [...ofSettings, ...ofQuarantine, ...ofClocks, ...ofTls];
  return { ok: true, durability, warnings, servers, quarantined: count };
}

/** The end of a sentence about the server, as healthOf says it; null = the shard works and accepts pushes. */
export async function whyNotWorking(shard: Shard): Promise<string | null> {
  const trouble = await troubleOf(shard);
  return trouble === null ? null : withErrorText(shard, trouble);
}

/** The error text is not part of the incident key. */
const withErrorText = ({ errorText }: Shard, trouble: string): string =>
  errorText === null ? trouble : `${trouble}: ${errorText}`;

/** The shard became unavailable meanwhile: the next health check reports it. */
function noneKnown(error: unknown): Awaited<ReturnType<typeof quarantineOf>> {
  if (error instanceof StoreError) return { count: 0, warnings: [] };
  throw error;
}

const troubles: Readonly<Record<string, string>> = {
  redis_away: 'cannot be reached',
  redis_no_answer: 'does not answer',
  redis_full: 'is full and rejects pushes; deliveries continue',
  redis_read_only: 'is read-only: it follows another server',
  redis_no_replicas: 'has too few replicas to accept writes',
  redis_cannot_write: 'cannot write to its disk and rejects writes',
  redis_loading: 'is loading its data',
  redis_cluster_down: 'is a Cluster that is down',
  redis_master_down: 'is a replica that has lost its master',
  redis_too_many_clients: 'has no free connection: raise its maxclients',
  redis_no_database: 'has no database with the number of its address',
  redis_set_up: 'rejects the set-up of a connection',
  redis_unsupported: 'does not support a command that dq needs',
  redis_unknown_reply: 'answers with an error that dq does not know',
  redis_denied: 'rejects the user or password, or denies them a command',
  redis_busy: 'is blocked by a script of another program',
  foreign_marker: 'belongs to another store',
  registry_away: 'waits for the registry, whose id it needs',
  no_marker: 'has lost its jobs',
};

/** Runs requeue with no jobs: Redis rejects it whenever it would reject a push, and it changes nothing. */
async function troubleOf(shard: Shard): Promise<string | null> {
  try {
    // With the highest list number: a stale list of this process is not the server's failure.
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

/** null = unreadable: usually its user lacks the right to CONFIG. */
export async function settingsOf(shard: Shard) {
  try {
    return readSettings((await shard.command('CONFIG', 'GET', ...settingNames)) as string[]);
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}

/** Merges the examinations of all shards into one. */
async function readAll(records: readonly ExaminationRecord[]): Promise<LongWork<Examination>> {
  const all = await Promise.all(records.map((record) => record.read()));
  const running = all.find(({ kind }) => kind === 'running');
  const unfinished = running ?? all.find(({ kind }) => kind !== 'done');
  if (unfinished !== undefined) return unfinished;
  const done = all.filter((one) => one.kind === 'done');
  if (done.length === 0) return { kind: 'none' };
  const relinked = done.flatMap(({ result }) => result.relinked ?? []);
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
      ...(relinked.length === 0 ? {} : { relinked: relinked.reduce((sum, n) => sum + n, 0) }),
    },
  };
}

/** The examination of one shard. Its record expires when the process that runs it dies. */
class ExaminationRecord {
  readonly #shard: Shard;
  readonly #key: string;

  constructor(shard: Shard) {
    this.#shard = shard;
    this.#key = `${prefixOf(0)}:fsck`;
  }

  async start(relinks: boolean): Promise<void> {
    const startedAt = wallNow();
    await this.#write({ kind: 'running', startedAt }, redisLimits.examinationBeatMs);
    void this.#work(startedAt, relinks);
  }

  async read(): Promise<LongWork<Examination>> {
    const text = (await this.#shard.command('GET', this.#key)) as string | null;
    return text === null ? { kind: 'none' } : (JSON.parse(text) as LongWork<Examination>);
  }

  async #work(startedAt: number, relinks: boolean): Promise<void> {
    let beatAt = monotonicNow();
    const onPiece = async () => {
      if (monotonicNow() < beatAt + redisLimits.examinationBeatMs / 4) return;
      beatAt = monotonicNow();
      await this.#write({ kind: 'running', startedAt }, redisLimits.examinationBeatMs);
    };
    let ended: LongWork<Examination>;
    try {
      const relinked = relinks ? { relinked: await relink(this.#shard, onPiece) } : {};
      const result = { ...(await examine(this.#shard, onPiece)), ...relinked };
      ended = { kind: 'done', startedAt, endedAt: wallNow(), result };
    } catch (error) {
      ended = { kind: 'failed', startedAt, endedAt: wallNow(), reason: messageOf(error) };
    }
    try {
      await this.#write(ended, redisLimits.examinationKeptMs);
    } catch {
      // Redis is unavailable: the `running` record expires, and fsck then answers `none`.
    }
  }

  async #write(state: LongWork<Examination>, forMs: number): Promise<void> {
    await this.#shard.command('SET', this.#key, JSON.stringify(state), 'PX', forMs);
  }
}
