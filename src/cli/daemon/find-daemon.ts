// Where a command finds the daemon it talks to: a URL that was named, or the run record in the data directory. Decides by
// reading alone. Never hands the token of a run record to a URL that somebody named: it belongs to the daemon that wrote it.

import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { resolve } from 'node:path';
import { readVariable } from '../../config/environment.ts';
import { formatProblem } from '../../config/given.ts';
import { loadConfig } from '../../config/load.ts';
import { reasonOf } from '../../core/errors.ts';
import { type RunRecord, readRunRecord } from '../../master/data/run-record.ts';
import { Exit } from '../exit.ts';

export interface DaemonFlags {
  readonly url?: string;
  readonly token?: string;
  readonly dataDir?: string;
  readonly config?: string;
}

export interface Daemon {
  /** without a slash at the end */
  readonly url: string;
  readonly token: string | null;
  /** of the run record; null when the URL was named, and nothing is known about its process */
  readonly pid: number | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A flag beats the environment, whatever it names: `--data-dir` is not overruled by DQ_URL. */
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
      `no daemon is running on ${dataDir} (start one, or name it: --data-dir, --url)`,
    );
  }
  return { url: baseUrl(record.url, 'run/dq.json'), token: token ?? record.adminToken, pid: record.pid };
}

function readRecord(dataDir: string): RunRecord | null {
  try {
    return readRunRecord(dataDir);
  } catch (error) {
    throw unreadable(dataDir, error);
  }
}

/** The record and the control socket are for the daemon's own user. */
export function unreadable(dataDir: string, error: unknown): Exit {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'EACCES' && code !== 'EPERM')
    return new Exit('unreachable', `cannot ask the daemon on ${dataDir}: ${reasonOf(error)}`, {
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
    return String(process.getuid?.()); // a user without an entry
  }
}

/** Of the data directory, as far as it can be seen: ` (uid 998)`. */
function ownerOf(dataDir: string): string {
  try {
    return ` (uid ${statSync(dataDir).uid})`;
  } catch {
    return '';
  }
}

/** Rejects a wrong configuration only when it is needed to know. */
export function dataDirOf(flags: DaemonFlags, env: Environment): string {
  if (flags.dataDir) return resolve(flags.dataDir);
  const named = readVariable(env, 'dataDir');
  if (named !== null && 'problem' in named) throw new Exit('badConfiguration', formatProblem(named.problem));
  if (named !== null) return resolve(named.raw);
  const loaded = loadConfig({ flags: {}, env, cwd: process.cwd(), file: flags.config });
  if (loaded.ok) return loaded.config.dataDir;
  const [first] = loaded.problems.map(formatProblem);
  throw new Exit('badConfiguration', `the configuration is wrong (dq config test tells all): ${first}`);
}

function baseUrl(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new Exit('usage', `${from}: ${text} is no http or https URL`);
  if (url.username !== '' || url.password !== '')
    throw new Exit('usage', `${from}: a URL carries no user or password here; give --token or DQ_TOKEN`);
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}
