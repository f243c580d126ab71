// An instance with a journal in the process of a test: the store on Redis behind the decorator, a spool, and
// the agents of dq-upkeep, on real servers.

import { createConnection } from 'mysql2/promise';
import { onTestFinished } from 'vitest';
import type { RedisServer } from '../../scripts/services/redis.ts';
import { parseMysqlUrl } from '../../src/core/url/server-url.ts';
import { Auditor } from '../../src/journal/heal/auditor.ts';
import { Looker } from '../../src/journal/heal/looker.ts';
import { Restorer } from '../../src/journal/heal/restorer.ts';
import { Surveyor } from '../../src/journal/heal/surveyor.ts';
import { journaled } from '../../src/journal/record/journaled-store.ts';
import { MysqlJournal } from '../../src/journal/ship/journal-db.ts';
import { Recorder } from '../../src/journal/ship/recorder.ts';
import type { SpoolDirectory } from '../../src/journal/ship/spool-directory.ts';
import type { Healing, Store } from '../../src/ports/job-store.ts';
import type { JournalDb } from '../../src/ports/journal.ts';
import type { JournalParts } from '../../src/process/role.ts';
import { journalTables } from '../../src/registry/sql/schema/mysql-schema.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { type OneShardOptions, type OpenedRedis, openOn } from './redis-store.ts';
import { spoolDirectory, writerIn } from './spool.ts';

export interface JournalInstance {
  /** as roles see it */
  readonly store: Store;
  readonly under: OpenedRedis;
  /** of `under` */
  readonly healing: Healing;
  readonly spool: SpoolDirectory;
  readonly recorder: Recorder;
  readonly looker: Looker;
  readonly errors: readonly string[];
  readonly notices: readonly string[];
  /** hosts without a sign for which a healing waited, of each look */
  readonly waits: readonly string[];
  /** as roles get it */
  readonly journal: JournalParts;
  /** Whether its Redis has lost changes, and is healed since. */
  isHealed(): Promise<boolean>;
  /** Ends the agents: changes stay in the spool. */
  stop(): Promise<void>;
  /** Starts the agents again, as a new dq-upkeep. */
  restart(): Promise<void>;
}

export type InstanceOptions = OneShardOptions & {
  /** also audits and surveys */
  readonly isWhole?: boolean;
  /** how long a healing waits for the other instances */
  readonly barrierMs?: number;
  /** and for those without a sign; default: barrierMs */
  readonly peerWaitMs?: number;
  /** instead of a store whose list has one shard */
  readonly under?: OpenedRedis;
};

/** Makes a database with the tables of the journal. */
export async function journalDatabase(
  mysql: { url(database: string): string },
  database: string,
): Promise<ConstructorParameters<typeof MysqlJournal>[0]> {
  const connection = await createConnection({ uri: mysql.url('mysql') });
  await connection.query(`CREATE DATABASE ${database}`);
  await connection.changeUser({ database });
  for (const table of journalTables) await connection.query(table);
  await connection.end();
  const parsed = parseMysqlUrl(mysql.url(database));
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.value;
}

/** One connection runs the statements. Returns the rows of the last one. */
export async function askMysql(uri: string, ...statements: readonly string[]) {
  const connection = await createConnection({ uri, supportBigNumbers: true });
  let rows: unknown = [];
  for (const statement of statements) [rows] = await connection.query(statement);
  await connection.end();
  return rows as readonly Record<string, unknown>[];
}

/** The journal with other calls of these names. */
export const journalWith = (journal: JournalDb, calls: Partial<JournalDb>): JournalDb =>
  new Proxy(journal, {
    get: (_, name: keyof JournalDb) => calls[name] ?? journal[name].bind(journal),
  });

export async function journalInstance(
  server: RedisServer,
  mysql: ConstructorParameters<typeof MysqlJournal>[0],
  instance: number,
  {
    isWhole = false,
    barrierMs = 5_000,
    peerWaitMs = barrierMs,
    under: opened,
    ...more
  }: InstanceOptions = {},
): Promise<JournalInstance> {
  const stream = { instance, incarnation: 1 };
  const under = opened ?? (await openOn(server, { writer: `${instance}.1`, ...more }));
  const spool = spoolDirectory();
  const writer = await writerIn(spool, { stream, segmentBytes: 1024 * 1024 });
  const journal = new MysqlJournal(mysql);
  const { healing, jobs } = under.store;
  if (healing === undefined) throw new Error('the store has no healing');
  const errors: string[] = [];
  const notices: string[] = [];
  const log = {
    ...silentLog,
    error: (message: string) => void errors.push(message),
    notice: (message: string) => void notices.push(message),
  };
  const common = { journal, instance, log };
  const retentionMs = 7 * 86_400_000;
  const waits: string[] = [];
  const watch = {
    ...{ lost: async () => {}, compared: () => {}, healed: async () => {}, goesOn: async () => {} },
    interrupted: () => {},
    async waits(silent: readonly { readonly host: string }[]) {
      waits.push(silent.map(({ host }) => host).join(' '));
    },
  };
  const agents = () => {
    const looker: Looker = new Looker({
      ...{ ...common, healing, partitions: () => jobs.partitions() },
      deadBelow: () => null,
    });
    const record = (changes: Parameters<typeof writer.write>[0]) => writer.write(changes, 'synced');
    const listed = { refresh: async () => {}, isListed: () => true };
    const restorer: Restorer = new Restorer({
      ...common,
      ...listed,
      healing,
      looker,
      record,
      ...{ barrierMs, peerWaitMs, retentionMs, watch },
    });
    const recorder = new Recorder({
      ...{ ...common, spool, looker, host: `host-${instance}`, spoolBytes: 2 ** 30 },
      ...{ retentionMs, titleOf: () => 'dq-server-0', onWentBack: () => surveyor.again() },
    });
    const auditor = new Auditor({
      ...{ ...common, healing, looker, record, refresh: listed.refresh },
      ...{ retentionMs, everyMs: 200, overdueMs: 0, barrierMs: 500 },
    });
    const surveyor: Surveyor = new Surveyor({
      ...{ ...common, healing, looker, record, recorder: () => recorder.state },
      ...{ spoolBytes: 2 ** 30, turnMs: 200 },
    });
    return { looker, recorder, restorer, further: isWhole ? [auditor, surveyor] : [] };
  };
  let running = agents();
  const start = async () => {
    for (const agent of [running.looker, running.recorder, running.restorer, ...running.further])
      await agent.start();
  };
  const end = async () => {
    for (const agent of [...running.further, running.restorer, running.recorder, running.looker])
      await agent.drain(5_000);
  };
  await start();
  onTestFinished(async () => {
    await end();
    await spool.close();
    await journal.close();
    await under.close();
    await writer.close();
  });
  return {
    store: journaled(under.store, writer),
    ...{ under, healing, spool, errors, notices, waits },
    journal: {
      ...{ db: journal, spool, rejectReason: () => null },
      record: (changes) => writer.write(changes, 'synced'),
    },
    get recorder() {
      return running.recorder;
    },
    get looker() {
      return running.looker;
    },
    isHealed: async () => /^\d+$/.test((await under.raw.hget('{dq:0}:n', 'heal')) ?? ''),
    stop: end,
    async restart() {
      await end();
      running = agents();
      await start();
    },
  };
}
