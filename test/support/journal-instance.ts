// An instance with a journal in the process of a test: the store on Redis behind the decorator, a spool, and
// the agents of dq-upkeep, on real servers.

import { onTestFinished } from 'vitest';
import type { RedisServer } from '../../scripts/services/redis.ts';
import { journaled } from '../../src/journal/journaled-store.ts';
import type { Store } from '../../src/ports/job-store.ts';
import type { JournalParts } from '../../src/process/role.ts';
import { MysqlJournal } from '../../src/registry/sql/journal/journal-db.ts';
import type { SpoolDirectory } from '../../src/spool/spool-directory.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { Looker } from '../../src/upkeep/journal/looker.ts';
import { Recorder } from '../../src/upkeep/journal/recorder.ts';
import { Restorer } from '../../src/upkeep/journal/restorer.ts';
import { type OneShardOptions, type OpenedRedis, openOn } from './redis-store.ts';
import { spoolDirectory, writerIn } from './spool.ts';

export interface JournalInstance {
  /** as roles see it */
  readonly store: Store;
  readonly under: OpenedRedis;
  readonly spool: SpoolDirectory;
  readonly recorder: Recorder;
  readonly looker: Looker;
  readonly errors: readonly string[];
  /** as roles get it */
  readonly journal: JournalParts;
  /** Ends the agents: changes stay in the spool. */
  stop(): Promise<void>;
  /** Starts the agents again, as a new dq-upkeep. `shipped`: ends once the spool is shipped, while the
   *  store was not looked at yet. */
  restart(shipped?: () => Promise<unknown>): Promise<void>;
}

export async function journalInstance(
  server: RedisServer,
  mysql: ConstructorParameters<typeof MysqlJournal>[0],
  instance: number,
  { mode = 'sync', ...more }: OneShardOptions & { readonly mode?: 'sync' | 'lazy' } = {},
): Promise<JournalInstance> {
  const stream = { instance, incarnation: 1 };
  const under = await openOn(server, { writer: `${instance}.1`, ...more });
  const spool = spoolDirectory();
  const writer = await writerIn(spool, { stream, mode, segmentBytes: 1024 * 1024 });
  const journal = new MysqlJournal(mysql);
  const { healing, jobs } = under.store;
  if (healing === undefined) throw new Error('the store has no healing');
  const errors: string[] = [];
  const log = { ...silentLog, error: (message: string) => void errors.push(message) };
  const common = { journal, instance, log };
  const agents = () => {
    const looker: Looker = new Looker({
      ...{ ...common, healing, partitions: () => jobs.partitions() },
      deadBelow: () => null,
      onLateFrom: (place, lowest) => restorer.addLateFrom(place, lowest),
    });
    const record = (changes: Parameters<typeof writer.write>[0]) => writer.write(changes, 'synced');
    const listed = { refresh: async () => {}, isListed: () => true };
    const restorer: Restorer = new Restorer({
      ...common,
      ...listed,
      healing,
      looker,
      record,
      barrierMs: 5_000,
    });
    const recorder = new Recorder({
      ...{ ...common, spool, looker, host: `host-${instance}`, spoolBytes: 2 ** 30 },
      ...{ retentionMs: 7 * 86_400_000, titleOf: () => 'dq-server-0', onWentBack: () => {} },
      onLate: (changes) => restorer.addLate(changes),
    });
    return { looker, restorer, recorder };
  };
  let running = agents();
  const start = async () => {
    for (const agent of [running.looker, running.recorder, running.restorer]) await agent.start();
  };
  const end = async () => {
    for (const agent of [running.restorer, running.recorder, running.looker]) await agent.drain(5_000);
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
    store: journaled(under.store, writer, 'sync'),
    ...{ under, spool, errors },
    journal: {
      ...{ db: journal, spool, trouble: () => null },
      record: (changes) => writer.write(changes, 'synced'),
    },
    get recorder() {
      return running.recorder;
    },
    get looker() {
      return running.looker;
    },
    stop: end,
    async restart(shipped) {
      await end();
      running = agents();
      if (shipped !== undefined) {
        await running.recorder.start();
        await shipped();
      }
      await start();
    },
  };
}
