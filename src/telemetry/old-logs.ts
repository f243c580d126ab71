// Retention of the log files, for the Janitor: by the day in the name, so that a file touched since does not live for ever.
// Removes nothing that dq did not name.

import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';

const namePattern = /^(?:notice|error|request|notify)-[a-z]+-\d+-(\d{4})(\d{2})(\d{2})\.log$/;
const dayMs = 86_400_000;
/** A day of the westernmost zone ends this long after the same day of UTC. */
const zoneMs = 12 * 3_600_000;

/** Removes files whose day ended more than `days` days before `now` (epoch ms) in every time zone; answers their names.
 *  Rejects when the directory cannot be read; a file that cannot be removed is left for the next time. */
export async function removeOldLogs(
  directory: string,
  days: number,
  now: number,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const name of await readdir(directory)) {
    const [, year, month, day] = namePattern.exec(name) ?? [];
    if (year === undefined) continue;
    const endedAt = Date.UTC(Number(year), Number(month) - 1, Number(day)) + dayMs + zoneMs;
    if (now - endedAt <= days * dayMs) continue;
    try {
      await unlink(join(directory, name));
      removed.push(name);
    } catch {
      // Gone already, or not ours to remove; the others may be.
    }
  }
  return removed;
}
