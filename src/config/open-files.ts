// Reads the limit of open files of this process. Children inherit it.

import { readFileSync } from 'node:fs';

/** The soft limit; null without /proc. */
export function openFilesMax(): number | null {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return match === null ? null : Number(match[1]);
  } catch {
    return null; // not Linux
  }
}
