// Checks the daemon of a data directory; without one, what the next start would find: the port, the store's
// files.
// Opens no store: SQLite would replay its log, which only the owner may do.

import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type Config, compatPortsOf, keyPathOf } from '../config/options.ts';
import type { HeldTopics } from '../core/capacity-reasons.ts';
import { ageWords } from '../core/duration.ts';
import { messageOf } from '../core/errors.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { askMaster } from '../master/control/control-client.ts';
import type { DaemonStatus } from '../master/control/control-protocol.ts';
import { keyFileWarning, readKeyFile } from '../registry/sql/keys/registry-key.ts';
import { exchange } from '../runtime/exchange.ts';
import { timeoutSignal } from '../runtime/time.ts';
import { doctorLimits } from './limits.ts';

/** A running daemon as this program reads it. Each answer rejects with the reason. */
export interface DaemonReader {
  /** as /readyz */
  ready(dataDir: string): Promise<{
    readonly durability: string;
    readonly warnings: readonly string[];
  }>;
  /** as in /v1/summary; `ageMs`: absent, they are of now */
  held(dataDir: string): Promise<HeldTopics & { readonly ageMs?: number }>;
}

export async function checkDaemon(config: Config, reader: DaemonReader): Promise<Finding[]> {
  const finding = findingsOf('daemon');
  let daemon: DaemonStatus | null;
  try {
    daemon = await statusOf(config.dataDir);
  } catch (error) {
    return [finding('failed', 'daemon_silent', { directory: config.dataDir, why: messageOf(error) })];
  }
  if (daemon === null) {
    const files = checkFiles(config);
    return [
      finding('ok', 'daemon_none'),
      await checkPort(config['server.host'], config['server.port']),
      ...(await Promise.all(compatPortsOf(config).map(({ port }) => checkPort(config['compat.host'], port)))),
      ...files,
    ];
  }
  const restarts = daemon.processes.reduce((sum, one) => sum + one.restarts, 0);
  const { version, state } = daemon;
  const pid = daemon.processes[0]?.pid ?? '?';
  return [
    finding(state === 'ready' ? 'ok' : 'warning', 'daemon_ready', { version, pid, state, restarts }),
    ...(await checkWork(reader, config.dataDir)),
  ];
}

/** The store, what /readyz warns about, and the topics that hold jobs. */
export async function checkWork(reader: DaemonReader, dataDir: string): Promise<Finding[]> {
  const store = findingsOf('store');
  try {
    const { durability, warnings } = await reader.ready(dataDir);
    return [
      store('ok', 'durability', { durability }),
      ...warnings.map((warning) =>
        findingsOf('readyz')('warning', 'readyz_warning', { warning: withoutDoctor(warning) }),
      ),
      ...(await checkHeld(() => reader.held(dataDir))),
    ];
  } catch (error) {
    // Without the store, held topics fail with the same reason.
    return [store('failed', 'store_failed', { why: messageOf(error) })];
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
  const finding = findingsOf('topics');
  try {
    const { topics, jobs, most, ageMs = 0 } = await read();
    const others = most.filter(({ why }) => why !== 'unreadable' && why !== 'unknown_broker');
    if (topics === 0) return [finding('ok', 'held_none')];
    if (others.length === 0) return [];
    const shown = others.slice(0, doctorLimits.heldShown);
    const named = shown.map((one) => `${one.topic} (${one.why.replaceAll('_', ' ')}, ${one.jobs} waiting)`);
    const more = topics - (most.length - others.length) - shown.length;
    if (more > 0) named.push(`and ${more} more, ${jobs} waiting in all held topics`);
    const age = ageWords(ageMs);
    if (age !== '') named.push(age);
    return [finding('warning', 'held_some', { topics: named.join(', ') })];
  } catch (error) {
    return [finding('unknown', 'held_unknown', { why: messageOf(error) })];
  }
}

async function checkPort(host: string, port: number): Promise<Finding> {
  const finding = findingsOf('port');
  if (port === 0) return finding('ok', 'port_any');
  const place = `${host}:${port}`;
  const error = await tryToListen(host, port);
  if (error === null) return finding('ok', 'port_free', { place });
  if (error.code !== 'EADDRINUSE') return finding('failed', 'port_failed', { place, why: messageOf(error) });
  return (await isDq(host, port))
    ? finding('warning', 'port_other_dq', { place })
    : finding('failed', 'port_taken', { place });
}

/** The error of a server there; null: it would listen. */
export function tryToListen(host: string, port: number): Promise<NodeJS.ErrnoException | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', resolve);
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

/** Whether a dq answers on this port: /livez needs no token. */
async function isDq(host: string, port: number): Promise<boolean> {
  const address = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  try {
    const signal = timeoutSignal(doctorLimits.toolMs);
    const name = address.includes(':') ? `[${address}]` : address;
    const { text } = await exchange(`http://${name}:${port}/livez`, { signal });
    return text === '{"live":true}';
  } catch {
    return false;
  }
}

function checkFiles(config: Config): Finding[] {
  const finding = findingsOf('store');
  const { dataDir } = config;
  const isEmbedded = config['mysql.url'] === '';
  const key = keyPathOf(config);
  const jobs = join(dataDir, 'jobs.db');
  const files = isEmbedded ? [jobs, join(dataDir, 'registry.db')] : [jobs];
  if (!files.some((path) => existsSync(path))) return [finding('ok', 'store_later')];
  const missing = files.filter((path) => !existsSync(path));
  if (missing.length > 0) return [finding('failed', 'store_missing', { files: missing.join(', ') })];
  const foreign = files.filter((path) => !isSqlite(path));
  if (foreign.length > 0) return [finding('failed', 'store_foreign', { files: foreign.join(', ') })];
  try {
    if (isEmbedded && readKeyFile(key) === null) return [finding('failed', 'key_missing', { key })];
  } catch (error) {
    return [finding('failed', 'key_failed', { why: messageOf(error) })];
  }
  const open = isEmbedded ? keyFileWarning(key) : null;
  if (open !== null) return [finding('warning', 'key_open', { warning: open })];
  const log = statSync(`${jobs}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const size = ((statSync(jobs).size + log) / 1024 / 1024).toFixed(1);
  return [finding('ok', 'store_size', { size })];
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
