// Writes the reason of a crash to the error log of the process at once, because the crash discards gathered
// lines. The crash itself is unchanged: Node prints the reason and ends the process.

import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createCalendar } from '../core/calendar.ts';
import { wallNow } from '../runtime/time.ts';
import { formatLine } from './log-line.ts';
import { errorFields, fileNameOf, type LogOptions } from './open-log.ts';

/** From now on, for uncaught exceptions and unhandled rejections. `where` is called at the crash: a reload
 *  can change it. */
export function logCrashes(where: () => Pick<LogOptions, 'config' | 'role' | 'index' | 'title'>): void {
  process.on('uncaughtExceptionMonitor', (error) => {
    try {
      const { config, role, index, title } = where();
      const now = wallNow();
      const day = createCalendar(config.timezone).dayOf(now);
      const line = formatLine({
        time: new Date(now).toISOString(),
        level: 'error',
        process: title,
        pid: process.pid,
        message: 'crashed',
        ...errorFields(error),
      });
      mkdirSync(config.logDir, { recursive: true, mode: 0o750 });
      appendFileSync(join(config.logDir, fileNameOf('error', role, index, day)), line, { mode: 0o640 });
    } catch {
      // The disk rejects the line; stderr may accept it.
    }
  });
}
