// Finds the daemon that a command calls: a given URL, or the run record in the data directory. Asks its
// master through the control socket, for commands that work without the HTTP API.
// Invariant: the token of a run record goes to the URL of that record alone, never to a given URL.

import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { resolve } from 'node:path';
import { readVariable } from '../../config/environment.ts';
import { loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/options.ts';
import { formatProblem } from '../../config/parse.ts';
import type { ConfigJson } from '../../contract/api/daemon.ts';
import type { ProblemJson } from '../../contract/api/schema.ts';
import { messageOf } from '../../core/errors.ts';
import { type Answered, askMaster } from '../../master/control/control-client.ts';
import type { ControlAnswer, ControlRequest } from '../../master/control/control-protocol.ts';
import { type RunRecord, readRunRecord } from '../../master/data/run-record.ts';
import { exchange } from '../../runtime/exchange.ts';
import { urlOfHost } from '../../runtime/listen.ts';
import { timeoutSignal } from '../../runtime/time.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';

export interface DaemonFlags {
  readonly url?: string;
  readonly token?: string;
  readonly dataDir?: string;
  readonly config?: string;
}

export interface Daemon {
  /** without a trailing slash */
  readonly url: string;
  readonly token: string | null;
  /** of the run record; null for a given URL */
  readonly pid: number | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Any flag beats the environment: with `--data-dir`, DQ_URL is ignored. */
export function findDaemon(flags: DaemonFlags, env: Environment): Daemon {
  const token = flags.token ?? (env['DQ_TOKEN'] || null);
  if (flags.url !== undefined) return { url: baseUrl(flags.url, '--url'), token, pid: null };
  if (flags.dataDir === undefined && env['DQ_URL'])
    return { url: baseUrl(env['DQ_URL'], 'DQ_URL'), token, pid: null };
  const dataDir = dataDirOf(flags, env);
  const record = readRecord(dataDir);
  if (record === null) {
    throw new Exit(
      'notRunning',
      `no daemon is running on ${dataDir} (start one, or give --data-dir or --url)`,
    );
  }
  return { url: baseUrl(record.url, 'run/dq.json'), token: token ?? record.adminToken, pid: record.pid };
}

/** The record of the daemon that findDaemon finds; null: for a given URL, or without a daemon. */
export function recordOf(flags: DaemonFlags, env: Environment): RunRecord | null {
  if (flags.url !== undefined || (flags.dataDir === undefined && env['DQ_URL'])) return null;
  return readRecord(dataDirOf(flags, env));
}

function readRecord(dataDir: string): RunRecord | null {
  try {
    return readRunRecord(dataDir);
  } catch (error) {
    throw unreadable(dataDir, error);
  }
}

/** Only the daemon's user may read the run record and the control socket. */
function unreadable(dataDir: string, error: unknown): Exit {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'EACCES' && code !== 'EPERM')
    return new Exit('unreachable', `cannot ask the daemon on ${dataDir}: ${messageOf(error)}`, {
      cause: error,
    });
  return new Exit(
    'unreachable',
    `cannot ask the daemon on ${dataDir}: permission denied for user ${nameOf()}; run this as the user of the daemon${ownerOf(dataDir)} or as root, or use --url and --token where the command has them`,
  );
}

function nameOf(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.()); // no entry in /etc/passwd
  }
}

/** Owner of the data directory: ` (uid 998)`; empty when unknown. */
function ownerOf(dataDir: string): string {
  try {
    return ` (uid ${statSync(dataDir).uid})`;
  } catch {
    return '';
  }
}

/** Reads the configuration only without a flag or variable. Throws Exit when it is wrong. */
export function dataDirOf(flags: DaemonFlags, env: Environment): string {
  if (flags.dataDir) return resolve(flags.dataDir);
  const named = readVariable(env, 'dataDir');
  if (named !== null && 'problem' in named) throw new Exit('badConfiguration', formatProblem(named.problem));
  if (named !== null) return resolve(named.raw);
  const loaded = loadConfig({ flags: {}, env, cwd: process.cwd(), file: flags.config });
  if (loaded.ok) return loaded.config.dataDir;
  const [first] = loaded.problems.map(formatProblem);
  throw new Exit(
    'badConfiguration',
    `the configuration is wrong (dq config test lists all problems): ${first}; nothing was done. A running daemon keeps its configuration, and --data-dir DIR finds it without this file`,
  );
}

/** Configuration file of this command, which the user means to be that of the daemon; null: none. */
export function configFileOf(flags: DaemonFlags, env: Environment): string | null {
  if (flags.config === undefined && (flags.dataDir || readVariable(env, 'dataDir') !== null)) return null;
  const loaded = loadConfig({ flags: {}, env, cwd: process.cwd(), file: flags.config });
  return loaded.ok ? loaded.file : null;
}

function baseUrl(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new Exit('usage', `${from}: invalid URL ${text}; write http://… or https://…`);
  if (url.username !== '' || url.password !== '')
    throw new Exit(
      'usage',
      `${from}: user and password are not allowed in this URL; give --token or DQ_TOKEN`,
    );
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

/** Throws Exit; its code differs between a daemon that does not run and one that does not answer. `waitMs`:
 *  for the whole answer, default masterLimits.controlCallMs. `onAnswer` receives each line as it comes. */
export async function askDaemon(
  flags: DaemonFlags,
  request: ControlRequest,
  waitMs?: number,
  onAnswer?: (answer: ControlAnswer) => void,
): Promise<Answered> {
  const dataDir = dataDirOf(flags, process.env);
  const answered = await askMaster(dataDir, request, waitMs, onAnswer).catch((error: unknown) => {
    throw unreadable(dataDir, error);
  });
  if (answered !== null) return answered;
  const other = await otherDaemon(flags);
  throw new Exit(
    'notRunning',
    `no daemon is running on ${dataDir} (start one, or give --data-dir)${other === null ? '' : `; ${other}`}`,
  );
}

/** One sentence about a daemon on another data directory that has the address of this configuration; null:
 *  none is known, or a flag or variable names the directory. */
async function otherDaemon(flags: DaemonFlags): Promise<string | null> {
  const { env } = process;
  if (flags.dataDir || readVariable(env, 'dataDir') !== null) return null;
  const loaded = loadConfig({ flags: {}, env, cwd: process.cwd(), file: flags.config });
  return loaded.ok ? whoElseListens(loaded.config) : null;
}

/** As otherDaemon. For a configuration on whose data directory no daemon runs. */
export async function whoElseListens(config: Config): Promise<string | null> {
  const url = urlOfHost(config['server.host'], config['server.port']);
  try {
    const { text } = await exchange(`${url}/v1/config`, { signal: timeoutSignal(cliLimits.readyAskMs) });
    const { items, code } = JSON.parse(text) as Partial<ConfigJson & ProblemJson>;
    const dataDir = items?.find(({ name }) => name === 'dataDir')?.value ?? 'another data directory';
    if (items === undefined && code === undefined) return null;
    return `the daemon at ${url} runs on ${dataDir}: after a change of dataDir stop it with --data-dir, move the directory, and start it`;
  } catch {
    return null;
  }
}
