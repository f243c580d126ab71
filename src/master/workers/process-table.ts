// Which process is which, told by /proc: a process id alone may belong to a stranger by now, a process id with its start
// time may not. Reads only. Where there is no /proc nothing is known, and nobody is ended on a guess.

import { readFileSync } from 'node:fs';

/** Title of the master in the process table. */
export const masterTitle = 'dq-master';

/** One life of one process of this boot. */
export interface ProcessIdentity {
  readonly pid: number;
  /** clock ticks since boot, /proc/PID/stat field 22 */
  readonly startTicks: number;
  /** start times count from it */
  readonly bootId: string;
}

export function identityOf(pid: number): ProcessIdentity | null {
  const stat = readStat(pid);
  return stat === null ? null : { pid, startTicks: stat.startTicks, bootId: bootId() };
}

/** A zombie has ended: it holds nothing any more. */
export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid);
  return (
    stat !== null &&
    stat.startTicks === identity.startTicks &&
    !hasEnded(stat.state) &&
    bootId() === identity.bootId
  );
}

/** Whether the parent of a process is a dq-master that has not ended. This process does not count: an orphan can be its child
 *  where it is process 1 of a container. */
export function hasLivingMaster(pid: number): boolean {
  const parent = readStat(pid)?.parent;
  if (parent === undefined || parent === process.pid) return false;
  const state = readStat(parent)?.state;
  return state !== undefined && !hasEnded(state) && titleOf(parent) === masterTitle;
}

/** As `ps` shows it; empty for a process that has ended. */
function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
  } catch {
    return '';
  }
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
    // ENOENT or ESRCH: it has ended. Anything else: it cannot be identified, which comes to the same.
    return null;
  }
  // The second field is the command in parentheses, and may hold blanks and parentheses itself.
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
