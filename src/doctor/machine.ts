// Checks the machine: Node, the SQLite library, open files, the clock. Reads only.

import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { callAccounts, fullDescriptors, leastDescriptors } from '../core/call-accounts.ts';
import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { readExtraAuthorities } from '../runtime/extra-authorities.ts';
import { type Finding, of } from './finding.ts';
import { doctorLimits } from './limits.ts';

/** `version`: `v20.19.0` */
export function checkNode(version: string): Finding {
  const finding = of('node');
  const [major = 0, minor = 0] = version.slice(1).split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19))
    return finding('failed', `${version}: dq needs 20.19 or newer`);
  if (major === 20)
    return finding('warning', `${version} works but gets no security fixes any more; install the newest LTS`);
  return finding('ok', version);
}

/** None where the variable is not set. */
export function checkAuthorities(env: NodeJS.ProcessEnv = process.env): readonly Finding[] {
  const finding = of('authorities');
  const read = readExtraAuthorities(env);
  if (read === null) return [];
  if ('fault' in read) return [finding('warning', read.fault)];
  return [finding('ok', `NODE_EXTRA_CA_CERTS: ${read.file}, certificates: ${read.certificates}`)];
}

export async function checkLibrary(): Promise<Finding> {
  const finding = of('sqlite');
  try {
    const { askAndForget, openDatabase } = await import('../runtime/database.ts');
    const db = openDatabase(':memory:');
    const version = askAndForget(db, 'sqlite_version()', '(SELECT 1)');
    db.close();
    return finding('ok', `SQLite ${String(version)}`);
  } catch (error) {
    return finding(
      'failed',
      `cannot load the library: ${messageOf(error)}; install dq again on this machine`,
    );
  }
}

/** `text`: of /proc/self/limits; null where there is none. `slots`: notifier.slots */
export function checkOpenFiles(text: string | null, slots: number): Finding {
  const finding = of('open files');
  const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(text ?? '') ?? [];
  if (soft === undefined) return finding('unknown', 'cannot read the limit');
  const [least, full] = [leastDescriptors(slots), fullDescriptors(slots)];
  const facts =
    `limit ${soft} (at most ${hard}); with ${slots} slots a notifier needs ${least}, for all slow calls ${full}; ` +
    `a server needs ${limits.descriptorsBesideSlots} and one for each client`;
  const wanted = Math.max(full, doctorLimits.openFilesWanted);
  // Only the hard limit counts: Node raises its soft limit to it at its start.
  const by = Number(hard) < wanted ? ' as root' : '';
  const remedy = `raise it to ${wanted} (ulimit -n ${wanted}${by}, LimitNOFILE=${wanted})`;
  if (Number(soft) < least) return finding('failed', `${facts}: ${remedy}`);
  if (Number(soft) < full) {
    const fitting = callAccounts(slots, Number(soft)).slowMax;
    return finding(
      'warning',
      `${facts}: ${fitting} of ${callAccounts(slots, null).slowMax} slow calls fit; ${remedy}`,
    );
  }
  if (Number(soft) < doctorLimits.openFilesWanted)
    return finding('warning', `${facts}: few clients fit; ${remedy}`);
  return finding('ok', facts);
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
  const about =
    `${names.join(', ')}: dq uses no outgoing proxy; callbacks, alert hooks and mails go out directly. ` +
    'Receivers must be reachable from this machine without it';
  return [of('proxy')('warning', about)];
}

/** A clock that jumps moves every due time. */
export async function checkClock(dataDir: string | null, now: number): Promise<Finding> {
  const finding = of('clock');
  const newest = dataDir === null ? null : newestOf(dataDir);
  if (newest !== null && newest.at - now > limits.clockAheadMs) {
    const seconds = Math.round((newest.at - now) / 1_000);
    return finding(
      'failed',
      `the clock is behind: ${newest.name} is ${seconds} s in the future; set the clock before dq starts`,
    );
  }
  // The state of the kernel, which chrony, ntpd and systemd-timesyncd all set.
  const answer = await promisify(execFile)('timedatectl', ['show', '-p', 'NTPSynchronized', '--value'], {
    timeout: doctorLimits.toolMs,
  }).then(
    ({ stdout }) => stdout.trim(),
    () => '', // no such tool, or no answer
  );
  if (answer === 'yes') return finding('ok', 'synchronized');
  if (answer === 'no')
    return finding('warning', 'not synchronized with a time server; run chrony or systemd-timesyncd');
  return finding('unknown', 'cannot read the synchronization (no timedatectl)');
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
