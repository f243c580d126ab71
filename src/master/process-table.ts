// Which process is which, told by /proc: a process id alone may belong to a stranger by now, a process id with its start
// time may not. Reads only. Where there is no /proc nothing is known, and nobody is ended on a guess.

import { readFileSync } from 'node:fs';

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
    stat.state !== 'Z' &&
    stat.state !== 'X' &&
    bootId() === identity.bootId
  );
}

function readStat(pid: number): { readonly state: string; readonly startTicks: number } | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    // ENOENT or ESRCH: it has ended. Anything else: it cannot be identified, which comes to the same.
    return null;
  }
  // The second field is the command in parentheses, and may hold blanks and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', startTicks: Number(fields[19]) };
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
