// Opens the journal of one process: its stream in the spool, the store behind it, and in dq-upkeep what its
// agents need. Invariant: every process of an instance that opens the store on Redis names its changes, also
// one that records none: each may be the one that finds a shard emptied.

import type { Config } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { parseMysqlUrl } from '../core/url/server-url.ts';
import { DroppedChanges } from '../journal/record/dropped-changes.ts';
import { journaled } from '../journal/record/journaled-store.ts';
import { realFiles, SyncThread } from '../journal/record/segment.ts';
import { SpoolWriter } from '../journal/record/spool-writer.ts';
import { SpoolDirectory } from '../journal/ship/spool-directory.ts';
import type { Store } from '../ports/job-store.ts';
import type { JournalDb } from '../ports/journal.ts';
import type { Spool, SpooledStreams } from '../ports/spool.ts';
import type { Init, RoleName } from '../process/messages.ts';
import type { JournalParts } from '../process/role.ts';
import { Agent } from '../runtime/loop.ts';
import type { Resources } from '../runtime/service.ts';
import { wallNow } from '../runtime/time.ts';
import { orAfter } from '../runtime/timeout.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export interface ProcessJournal {
  /** Adds the journal to a store, which closes before the stream: no change follows the end. */
  over(store: Store): Store;
  /** of the roles that read MySQL's part: dq-upkeep, and those that answer people */
  readonly parts: JournalParts | undefined;
  /** Makes the first segment of a process that answers pushes: the first one would wait for it. */
  start(): Promise<void>;
}

/** What the journal of a process reaches. By default MySQL and files in the data directory. */
export interface JournalSeams {
  readonly db: JournalDb & { close(): Promise<void> };
  readonly spool: SpooledStreams;
  readonly writer: Spool & { start(): Promise<void> };
}

export async function openJournal(
  init: Init,
  log: Log,
  metrics: Metrics,
  opened: Resources,
  seams?: JournalSeams,
): Promise<ProcessJournal> {
  const { config, instance, role } = init;
  const db = readers.has(role) ? (seams?.db ?? (await openDatabase(config, role))) : null;
  if (db !== null) opened.add(db, () => db.close());
  const { spool, writer } = seams ?? openSpool(init, log, metrics, opened);
  opened.add(writer, () => writer.close());
  return {
    over: (store) => journaled(store, writer),
    parts:
      db === null
        ? undefined
        : {
            db,
            spool,
            record: (changes) => writer.write(changes, 'synced'),
            rejectReason: () => writer.rejectReason,
          },
    async start() {
      if (role !== 'server') return;
      // Before the first answer: a clean stop has said that nothing follows. Without MySQL dq-upkeep takes it
      // back when MySQL is there.
      await orAfter(
        limits.mysqlCallMs,
        Promise.resolve(db?.begins(instance)).catch((error: unknown) =>
          log.notice('journal: cannot tell MySQL that this instance writes again', {
            reason: messageOf(error),
          }),
        ),
        undefined,
      );
      await writer.start();
    },
  };
}

function openSpool(
  { config, instance, incarnation, role }: Init,
  log: Log,
  metrics: Metrics,
  opened: Resources,
): Pick<JournalSeams, 'spool' | 'writer'> {
  const directory = opened.add(new SpoolDirectory(config.dataDir), (own) => own.close());
  const dropped = opened.add(new DroppedChanges(directory, log), (own) => own.close());
  // The others let few callers wait for the disk.
  const thread = role === 'server' ? new SyncThread() : null;
  if (thread !== null) opened.add(thread, () => thread.close());
  const writer = new SpoolWriter({
    directory: directory.path,
    stream: { instance, incarnation },
    bytesMax: config['journal.spoolBytes'],
    sizes: () => directory.bytes(),
    log,
    metrics,
    onDropped: (changes) => dropped.add(changes),
    files: realFiles(thread),
  });
  return { spool: directory, writer };
}

const readers: ReadonlySet<RoleName> = new Set(['upkeep', 'server', 'console']);

/** In dq-upkeep of an instance without a journal: tells the journal of others, or of later, again and again
 *  that jobs which were accepted before may have ended without a change. The audit leaves those out. */
export async function openWithoutJournal(config: Config, log: Log, opened: Resources): Promise<Agent> {
  const db = opened.add(await openDatabase(config, 'upkeep'), (own) => own.close());
  const agent = new Agent({
    log,
    failure: 'journal: cannot note that this instance records no ends',
    end: 'journal: notes again that this instance records no ends',
    // Covers all ends until the next note, even if this process dies first.
    work: () => db.raiseSince(wallNow() + 2 * limits.unrecordedEveryMs),
    everyMs: limits.unrecordedEveryMs,
  });
  return opened.add(agent, () => agent.drain(limits.loopSleepMsMax));
}

/** Connects on first use. */
async function openDatabase(config: Config, role: RoleName) {
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) throw new Error(`mysql.url ${server.message}`);
  const [{ MysqlJournal }, { sqlLimits }] = await Promise.all([
    import('../journal/ship/journal-db.ts'),
    import('../registry/sql/limits.ts'),
  ]);
  return new MysqlJournal(server.value, role === 'upkeep' ? undefined : sqlLimits.journalReaders);
}
