// Reads the limit of open files of this process. Children inherit it.

import { readFileSync } from 'node:fs';

/** The soft limit; null where the system has no /proc. */
export function openFilesMax(): number | null {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return match === null ? null : Number(match[1]);
  } catch {
    return null; // Not Linux: there is nothing to compare with.
  }
}
