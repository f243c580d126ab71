// Checks the daemon of a data directory; without one, what the next start would find: the port, the store's
// files.
// Opens no store: SQLite would replay its log, which only the owner may do.

import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type Config, compatPortsOf } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import type { HeldTopics } from '../core/held-topics.ts';
import { askMaster } from '../master/control/control-client.ts';
import type { DaemonStatus } from '../master/control/control-protocol.ts';
import { keyFileWarning, readKeyFile } from '../registry/sql/keys/key-file.ts';
import { timeoutSignal } from '../runtime/time.ts';
import { type Finding, of } from './finding.ts';
import { doctorLimits } from './limits.ts';

/** A running daemon as this program reads it. Each answer rejects with the reason. */
export interface DaemonReader {
  /** as /readyz */
  ready(dataDir: string): Promise<{
    readonly durability: string;
    readonly warnings: readonly string[];
  }>;
  /** as in /v1/summary */
  held(dataDir: string): Promise<HeldTopics>;
}

export async function checkDaemon(config: Config, reader: DaemonReader): Promise<Finding[]> {
  const finding = of('daemon');
  let daemon: DaemonStatus | null;
  try {
    daemon = await statusOf(config.dataDir);
  } catch (error) {
    return [finding('failed', `the daemon on ${config.dataDir} does not answer: ${messageOf(error)}`)];
  }
  if (daemon === null) {
    const files = checkFiles(config);
    return [
      finding('ok', 'not running'),
      await checkPort(config['server.host'], config['server.port']),
      ...(await Promise.all(compatPortsOf(config).map(({ port }) => checkPort(config['compat.host'], port)))),
      ...files,
    ];
  }
  const restarts = daemon.processes.reduce((sum, one) => sum + one.restarts, 0);
  const facts = `dq ${daemon.version}, pid ${daemon.processes[0]?.pid ?? '?'}, ${daemon.state}, ${restarts} restarts`;
  return [
    finding(daemon.state === 'ready' ? 'ok' : 'warning', facts),
    ...(await checkWork(reader, config.dataDir)),
  ];
}

/** The store, what /readyz warns about, and the topics that hold jobs. */
export async function checkWork(reader: DaemonReader, dataDir: string): Promise<Finding[]> {
  const store = of('store');
  try {
    const { durability, warnings } = await reader.ready(dataDir);
    return [
      store('ok', durability),
      ...warnings.map((warning) => of('readyz')('warning', withoutDoctor(warning))),
      ...(await checkHeld(() => reader.held(dataDir))),
    ];
  } catch (error) {
    // Without the store, held topics fail with the same reason.
    return [store('failed', messageOf(error))];
  }
}

/** Of an incident whose help is `dq doctor`: its reader is there already. */
const withoutDoctor = (warning: string): string => warning.replace(/; dq doctor [^;]*/, '');

async function statusOf(dataDir: string): Promise<DaemonStatus | null> {
  const answered = await askMaster(dataDir, { cmd: 'status' });
  return answered?.answers.find((answer) => 'status' in answer)?.status ?? null;
}

/** Topics that dq does not call, where jobs wait. /readyz names those that are unreadable or lack their
 *  broker. */
async function checkHeld(read: () => ReturnType<DaemonReader['held']>): Promise<Finding[]> {
  const finding = of('topics');
  try {
    const { topics, jobs, most } = await read();
    const others = most.filter(({ why }) => why !== 'unreadable' && why !== 'unknown_broker');
    if (topics === 0) return [finding('ok', 'no waiting jobs are held')];
    if (others.length === 0) return [];
    const shown = others.slice(0, doctorLimits.heldShown);
    const named = shown.map((one) => `${one.topic} (${one.why.replaceAll('_', ' ')}, ${one.jobs} waiting)`);
    const more = topics - (most.length - others.length) - shown.length;
    if (more > 0) named.push(`and ${more} more, ${jobs} waiting in all held topics`);
    return [
      finding(
        'warning',
        `dq calls no job of these topics: ${named.join(', ')}; dq explain TOPIC says what to do`,
      ),
    ];
  } catch (error) {
    return [finding('unknown', messageOf(error))];
  }
}

function checkPort(host: string, port: number): Promise<Finding> {
  const finding = of('port');
  if (port === 0) return Promise.resolve(finding('ok', 'dq will choose a free port'));
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      const at = `${host}:${port}`;
      if (error.code !== 'EADDRINUSE') resolve(finding('failed', `cannot open ${at}: ${messageOf(error)}`));
      else
        void isDq(host, port).then((own) =>
          resolve(
            own
              ? finding(
                  'warning',
                  `a dq of another data directory serves ${at}; to check it give -c or --data-dir`,
                )
              : finding('failed', `another program uses ${at}`),
          ),
        );
    });
    server.listen({ host, port, exclusive: true }, () => {
      server.close(() => resolve(finding('ok', `${host}:${port} is free`)));
    });
  });
}

/** Whether a dq answers on this port: /livez needs no token. */
async function isDq(host: string, port: number): Promise<boolean> {
  const address = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  try {
    const reply = await fetch(`http://${address.includes(':') ? `[${address}]` : address}:${port}/livez`, {
      headers: { connection: 'close' },
      redirect: 'manual',
      signal: timeoutSignal(doctorLimits.toolMs),
    });
    return (await reply.text()).slice(0, 20) === '{"live":true}';
  } catch {
    return false;
  }
}

function checkFiles(config: Config): Finding[] {
  const finding = of('store');
  const { dataDir } = config;
  const isEmbedded = config['mysql.url'] === '';
  const key = config.secretKeyFile || join(dataDir, 'secret.key');
  const jobs = join(dataDir, 'jobs.db');
  const files = isEmbedded ? [jobs, join(dataDir, 'registry.db')] : [jobs];
  if (!files.some((path) => existsSync(path))) return [finding('ok', 'the first start creates it')];
  const missing = files.filter((path) => !existsSync(path));
  if (missing.length > 0) return [finding('failed', `${missing.join(', ')} is missing: restore a backup`)];
  const foreign = files.filter((path) => !isSqlite(path));
  if (foreign.length > 0) return [finding('failed', `${foreign.join(', ')} is not a SQLite file`)];
  try {
    if (isEmbedded && readKeyFile(key) === null)
      return [finding('failed', `${key} is missing: without it the topics' secrets are lost`)];
  } catch (error) {
    return [finding('failed', messageOf(error))];
  }
  const open = isEmbedded ? keyFileWarning(key) : null;
  if (open !== null) return [finding('warning', open)];
  const log = statSync(`${jobs}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const mebibytes = ((statSync(jobs).size + log) / 1024 / 1024).toFixed(1);
  return [finding('ok', `${mebibytes} MiB; dq fsck checks it while dq runs`)];
}

function isSqlite(path: string): boolean {
  const head = Buffer.alloc(16);
  const fd = openSync(path, 'r');
  try {
    readSync(fd, head, 0, head.length, 0);
    return head.toString('latin1') === 'SQLite format 3\0';
  } finally {
    closeSync(fd);
  }
}
