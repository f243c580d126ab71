// Checks the machine: Node, the SQLite library, open files, the clock. Reads only.

import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { callAccounts, fullDescriptors, leastDescriptors } from '../config/open-files.ts';
import { messageOf } from '../core/errors.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { limits } from '../core/limits.ts';
import { readExtraAuthorities } from '../runtime/extra-authorities.ts';
import { doctorLimits } from './limits.ts';

/** `version`: `v20.19.0` */
export function checkNode(version: string): Finding {
  const finding = findingsOf('node');
  const [major = 0, minor = 0] = version.slice(1).split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) return finding('failed', 'node_old', { version });
  if (major === 20) return finding('warning', 'node_ended', { version });
  return finding('ok', 'node_ok', { version });
}

/** None where the variable is not set. */
export function checkAuthorities(env: NodeJS.ProcessEnv = process.env): readonly Finding[] {
  const finding = findingsOf('authorities');
  const read = readExtraAuthorities(env);
  if (read === null) return [];
  if ('fault' in read) return [finding('warning', 'authorities_wrong', { why: read.fault })];
  return [finding('ok', 'authorities_read', { file: read.file, count: read.certificates })];
}

export async function checkLibrary(): Promise<Finding> {
  const finding = findingsOf('sqlite');
  try {
    const { askAndForget, openDatabase } = await import('../runtime/database.ts');
    const db = openDatabase(':memory:');
    const version = askAndForget(db, 'sqlite_version()', '(SELECT 1)');
    db.close();
    return finding('ok', 'sqlite_ok', { version: String(version) });
  } catch (error) {
    return finding('failed', 'sqlite_missing', { why: messageOf(error) });
  }
}

/** `text`: of /proc/self/limits; null where there is none. `slots`: notifier.slots */
export function checkOpenFiles(text: string | null, slots: number): Finding {
  const finding = findingsOf('open files');
  const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(text ?? '') ?? [];
  if (soft === undefined) return finding('unknown', 'files_unknown');
  const [least, full] = [leastDescriptors(slots), fullDescriptors(slots)];
  const wanted = Math.max(full, doctorLimits.openFilesWanted);
  const server = limits.descriptorsBesideSlots;
  const values = { soft, hard: hard ?? '?', slots, least, full, server, wanted };
  // Only the hard limit counts: Node raises its soft limit to it at its start.
  const raised = Number(hard) < wanted ? { ...values, user: 'root' } : values;
  if (Number(soft) < least) return finding('failed', 'files_none', raised);
  if (Number(soft) < full) {
    const fitting = callAccounts(slots, Number(soft)).slowMax;
    const slow = callAccounts(slots, null).slowMax;
    return finding('warning', 'files_slow', { ...raised, fitting, slow });
  }
  if (Number(soft) < doctorLimits.openFilesWanted) return finding('warning', 'files_clients', raised);
  return finding('ok', 'files_ok', values);
}

export function readLimits(): string | null {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return null; // no Linux
  }
}

const proxyVariables = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

/** None without a proxy in the environment. Prints no value: it may hold a password. */
export function checkProxy(env: NodeJS.ProcessEnv): Finding[] {
  const names = proxyVariables.filter((name) => (env[name] ?? '') !== '');
  if (names.length === 0) return [];
  return [findingsOf('proxy')('warning', 'proxy_unused', { names: names.join(', ') })];
}

/** A clock that jumps moves every due time. */
export async function checkClock(dataDir: string | null, now: number): Promise<Finding> {
  const finding = findingsOf('clock');
  const newest = dataDir === null ? null : newestOf(dataDir);
  if (newest !== null && newest.at - now > limits.clockAheadMs) {
    const seconds = Math.round((newest.at - now) / 1_000);
    return finding('failed', 'clock_behind_files', { file: newest.name, seconds });
  }
  // The state of the kernel, which chrony, ntpd and systemd-timesyncd all set.
  const answer = await promisify(execFile)('timedatectl', ['show', '-p', 'NTPSynchronized', '--value'], {
    timeout: doctorLimits.toolMs,
  }).then(
    ({ stdout }) => stdout.trim(),
    () => '', // no such tool, or no answer
  );
  if (answer === 'yes') return finding('ok', 'clock_ok');
  if (answer === 'no') return finding('warning', 'clock_free');
  return finding('unknown', 'clock_unknown');
}

function newestOf(dataDir: string): { readonly name: string; readonly at: number } | null {
  const found = ['jobs.db', 'jobs.db-wal', 'registry.db', 'registry.db-wal', 'instance.json'].flatMap(
    (name) => {
      const at = statSync(join(dataDir, name), { throwIfNoEntry: false })?.mtimeMs;
      return at === undefined ? [] : [{ name, at }];
    },
  );
  return found.sort((a, b) => b.at - a.at)[0] ?? null;
}
