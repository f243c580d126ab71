// Retention of the log files, for the Janitor: by the day in the name, so that a file touched since does not live for ever.
// Also bounds what a daemon in the background prints, which has no day in its name. Removes nothing that dq did not name.

import { copyFile, readdir, stat, truncate, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { telemetryLimits } from './limits.ts';

/** stdout and stderr of every process of a daemon in the background: where a crash of the runtime leaves its trace. */
export const outputName = 'dq-output.log';

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

/** Cuts the output back where it is longer than telemetryLimits.outputBytesMax, keeping what it held beside it as `.1`, and both when nothing
 *  was written to them for `days`. In place: the processes have it open for their whole life, and append. */
export async function trimOutput(directory: string, days: number, now: number): Promise<void> {
  const path = join(directory, outputName);
  const older = `${path}.1`;
  const isOld = (at: number) => now - at > days * dayMs;
  const output = await lookAt(path);
  if (output !== null && output.size > telemetryLimits.outputBytesMax) {
    await copyFile(path, older);
    await truncate(path);
  } else if (output !== null && output.size > 0 && isOld(output.mtimeMs)) await truncate(path);
  const kept = await lookAt(older);
  if (kept !== null && isOld(kept.mtimeMs)) await unlink(older);
}

async function lookAt(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | null> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
