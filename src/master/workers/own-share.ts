// Reads the memory of a process with its share of the pages that it has in common with others (PSS). The sum
// over all processes is what they take from the machine; the sum of their RSS counts common pages often.

import { readFile } from 'node:fs/promises';

/** Bytes; null: not known, on a system without /proc/PID/smaps_rollup or of a process that has ended. */
export async function ownShare(pid: number): Promise<number | null> {
  try {
    const kib = /^Pss:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1];
    return kib === undefined ? null : Number(kib) * 1024;
  } catch {
    return null;
  }
}
