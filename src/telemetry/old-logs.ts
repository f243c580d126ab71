// Retention of the log files, for the Janitor, by the day in their names: touching a file does not extend
// it. Also bounds the output of a background daemon, whose file name has no day. Removes only files with
// names of dq.

import { copyFile, readdir, stat, truncate, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { telemetryLimits } from './limits.ts';

/** stdout and stderr of all processes of a background daemon: a crash of the runtime leaves its trace
 *  there. */
export const outputName = 'dq-output.log';

const namePattern = /^(notice|error|request|notify|audit)-[a-z]+-\d+-(\d{4})(\d{2})(\d{2})\.log$/;
const dayMs = 86_400_000;
/** A day of the westernmost zone ends this long after the same day of UTC. */
const zoneMs = 12 * 3_600_000;

/** Removes files whose day ended more than `days` days (kind audit: `auditDays`) before `now` (epoch ms) in
 *  every time zone; returns their names. Rejects when it cannot read the directory. Leaves a file that it
 *  cannot remove for the next call. */
export async function removeOldLogs(
  directory: string,
  days: number,
  now: number,
  auditDays = days,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const name of await readdir(directory)) {
    const [, kind, year, month, day] = namePattern.exec(name) ?? [];
    if (year === undefined) continue;
    const endedAt = Date.UTC(Number(year), Number(month) - 1, Number(day)) + dayMs + zoneMs;
    if (now - endedAt <= (kind === 'audit' ? auditDays : days) * dayMs) continue;
    try {
      await unlink(join(directory, name));
      removed.push(name);
    } catch {
      // Removed already, or without permission; continue with the others.
    }
  }
  return removed;
}

/** Empties output longer than telemetryLimits.outputBytesMax after copying it to `.1`; empties or removes
 *  both when they are older than `days`. In place: the processes keep the file open and append. */
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
