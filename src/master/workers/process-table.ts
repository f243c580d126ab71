// Identifies processes by /proc: pid and start time. A pid alone may belong to another process by now. Also
// reads their memory. Without /proc no process is identified, and none is killed.

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

/** Title of the master in the process table. */
export const masterTitle = 'dq-master';

/** One process of this boot. */
export interface ProcessIdentity {
  readonly pid: number;
  /** clock ticks since boot, /proc/PID/stat field 22 */
  readonly startTicks: number;
  /** of the boot that startTicks counts from */
  readonly bootId: string;
}

/** null = it has ended, or there is no /proc. */
export function identityOf(pid: number): ProcessIdentity | null {
  const stat = readStat(pid);
  return stat === null ? null : { pid, startTicks: stat.startTicks, bootId: bootId() };
}

/** false for a zombie: it holds no file or lock. */
export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid);
  return (
    stat !== null &&
    stat.startTicks === identity.startTicks &&
    !hasEnded(stat.state) &&
    bootId() === identity.bootId
  );
}

/** Whether the parent of a process is a running dq-master. This process does not count: as process 1 of a
 *  container it can be the parent of an orphan. */
export function hasLivingMaster(pid: number): boolean {
  const parent = readStat(pid)?.parent;
  if (parent === undefined || parent === process.pid) return false;
  const state = readStat(parent)?.state;
  return state !== undefined && !hasEnded(state) && titleOf(parent) === masterTitle;
}

/** As `ps` shows it; '' for a process that has ended. */
function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
  } catch {
    return '';
  }
}

/** Memory of a process with its share of the pages that it has in common with others (PSS), bytes; null: not
 *  known. The sum over all processes is what they take from the machine; that of their RSS counts common
 *  pages often. */
export async function ownShare(pid: number): Promise<number | null> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
  const kib = /^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1];
  return kib === undefined ? null : Number(kib) * 1024;
}

const hasEnded = (state: string): boolean => state === 'Z' || state === 'X';

interface Stat {
  readonly state: string;
  readonly parent: number;
  readonly startTicks: number;
}

function readStat(pid: number): Stat | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    // ENOENT, ESRCH: it has ended. Other errors: it cannot be identified, which has the same effect.
    return null;
  }
  // The second field is the command in parentheses; it may contain blanks and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', parent: Number(fields[1]), startTicks: Number(fields[19]) };
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
