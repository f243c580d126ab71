// Reads from /proc which processes live, and their states.
import { readdirSync, readFileSync } from 'node:fs';

export interface LiveProcess {
  readonly title: string;
  readonly pid: number;
}

/** Processes whose parent is `pid`, zombies left out, with their titles as `ps` shows them. */
export function childrenOf(pid: number): LiveProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const status = readFileSync(`/proc/${name}/status`, 'utf8');
        if (Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]) !== pid || /^State:\s+Z/m.test(status)) return [];
        const title = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        return [{ title, pid: Number(name) }];
      } catch {
        // It ended between the listing and the reading.
        return [];
      }
    });
}

/** `R`, `S`, `T` (stopped) …; null for an ended process and for a zombie: a container may have no process
 *  that reaps them. */
export function stateOf(pid: number): string | null {
  try {
    const state = /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? null;
    return state === 'Z' || state === 'X' ? null : state;
  } catch {
    return null;
  }
}

export const isAlive = (pid: number): boolean => stateOf(pid) !== null;

/** Resident memory. 0 for an ended process. */
export function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
