// dq journal: how the journal is doing. dq journal ship: ships the spool of a daemon that will not start
// again, without a daemon.

import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Config } from '../../config/options.ts';
import type { JournalJson } from '../../contract/api/journal.ts';
import { formatDuration } from '../../core/duration.ts';
import { messageOf } from '../../core/errors.ts';
import { hasNews } from '../../core/restore-news.ts';
import { parseMysqlUrl } from '../../core/url/server-url.ts';
import { MysqlJournal } from '../../journal/ship/journal-db.ts';
import { type Shipment, shipLate, shipSpool } from '../../journal/ship/ship-spool.ts';
import { SpoolDirectory } from '../../journal/ship/spool-directory.ts';
import { takeDirectoryLock } from '../../master/data/data-directory.ts';
import { runDirOf } from '../../master/data/run-record.ts';
import { WorkerRecord } from '../../master/workers/worker-record.ts';
import { StoreError } from '../../ports/store-error.ts';
import { makeDirectory } from '../../runtime/files.ts';
import { wallNow } from '../../runtime/time.ts';
import { silentLog } from '../../telemetry/log.ts';
import { ask, callsDaemon, type DaemonOptions } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { readConfig } from '../flags.ts';
import { instantOf, printItems, printRecord, say } from '../output/output.ts';

interface ShipFlags {
  readonly dataDir: string;
  readonly config?: string;
  readonly late?: boolean;
}

export function register(program: Command): void {
  const family = program.command('journal').description('the journal of jobs in Redis');
  callsDaemon(family.command('status', { isDefault: true }))
    .description('show spool, lag, instances and restores')
    .action(status);
  family
    .command('ship')
    .description('ship the spool of a daemon that will not start again')
    .requiredOption('--data-dir <dir>', 'its data directory')
    .option('-c, --config <file>', 'names MySQL; instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('--late', 'only the segments in spool/late; a daemon may run')
    .action(ship);
}

async function status(flags: DaemonOptions): Promise<void> {
  const { json } = await ask<JournalJson>(flags, { path: ['v1', 'journal'], needs: ['mode'] });
  if (flags.json) return;
  if (json.mode === 'off') say('dq: there is no journal; the option journal.mode switches it on');
  else print(json);
}

function print(journal: JournalJson): void {
  const { mode, lagMs, late, damaged, streams, instances, restores } = journal;
  printRecord([
    ['mode', mode],
    ['lag', lagMs === null ? 'unknown' : formatDuration(lagMs)],
    ['spool', `${mebibytes(journal.spoolBytes)} of ${mebibytes(journal.spoolBytesMax)}`],
    ['late', `${late} segments`],
    ['damaged', `${damaged} segments`],
  ]);
  process.stdout.write('\n');
  printItems(streams, {
    STREAM: ({ instance, incarnation }) => `${instance}-${incarnation}`,
    SEGMENTS: 'segments',
    WAITING: ({ waiting }) => waiting ?? '?',
    BYTES: ({ bytes }) => mebibytes(bytes),
  });
  if (instances === null || restores === null) {
    say('dq: MySQL does not answer: instances and restores are unknown');
    return;
  }
  process.stdout.write('\n');
  printItems(instances, {
    INSTANCE: ({ instance, self }) => (self ? `${instance} *` : instance),
    HOST: 'host',
    STATE: 'state',
    'LAST SIGN': ({ seenMs }) => `${formatDuration(seenMs)} ago`,
    SPOOL: ({ spoolBytes }) => mebibytes(spoolBytes),
  });
  const news = restores.filter((one) => hasNews(one, wallNow()));
  const open = news.filter(({ state }) => state === 'open');
  const shown = open.length > 0 ? open : news.slice(0, 1);
  if (shown.length === 0) return;
  process.stdout.write('\n');
  printItems(shown, {
    RESTORE: 'no',
    KIND: 'kind',
    ABOUT: 'about',
    STATE: 'state',
    COMPARED: 'done',
    PUT: 'put',
    REMOVED: 'removed',
    KEPT: 'kept',
    'BEGUN AT': instantOf('begunAt'),
  });
}

const mebibytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`;

async function ship({ dataDir, config: file, late = false }: ShipFlags): Promise<void> {
  const { config } = readConfig({ dataDir }, file);
  const directory = late ? join('spool', 'late') : 'spool';
  const path = join(config.dataDir, directory);
  if (!existsSync(path)) throw new Exit('failed', `${path} does not exist: there is nothing to ship`);
  const lock = late ? null : await takeDirectory(config.dataDir);
  try {
    const { segments, streams, changes } = await shipIt(config, directory, late);
    say(`dq: shipped ${changes} changes of ${segments} segments and ${streams} processes from ${path}`);
  } finally {
    lock?.release();
  }
}

/** Throws Exit while a daemon uses it. Ends processes that a killed daemon has left, as a start does. */
async function takeDirectory(dataDir: string) {
  const runDir = runDirOf(dataDir);
  makeDirectory(runDir, 0o700);
  const lock = takeDirectoryLock(runDir);
  if (lock === null)
    throw new Exit('failed', `a daemon runs on ${dataDir} and ships its spool; end it with dq stop first`);
  try {
    await new WorkerRecord(runDir).endLeftovers();
    return lock;
  } catch (error) {
    lock.release();
    throw new Exit('failed', messageOf(error), { cause: error });
  }
}

async function shipIt(config: Config, directory: string, late: boolean): Promise<Shipment> {
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) throw new Exit('badConfiguration', 'mysql.url is not set; the journal needs MySQL');
  const journal = new MysqlJournal(server.value);
  const spool = new SpoolDirectory(config.dataDir, directory);
  const warn = (message: string) => say(`dq: ${message}`);
  try {
    const common = { journal, spool, host: hostname() };
    if (late) return await shipLate(common);
    const log = { ...silentLog, notice: warn, error: warn };
    return await shipSpool({ ...common, log, retentionMs: config['journal.retention'] });
  } catch (error) {
    if (error instanceof StoreError) throw new Exit('storeUnreachable', messageOf(error), { cause: error });
    throw error;
  } finally {
    await spool.close();
    await journal.close();
  }
}
