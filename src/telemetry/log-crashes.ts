// The reason of a crash, in the error log of the process that crashes: what the logs gather is lost with it, so this line is
// written at once. Changes nothing about the crash: Node prints it too, and ends the process.

import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createCalendar } from '../core/calendar.ts';
import { formatLine } from './log-line.ts';
import { errorFields, fileNameOf, type LogOptions } from './open-log.ts';

/** From now on, for an exception that nobody catches, and a rejection that nobody takes. `where` is asked at the crash: a reload
 *  may have changed it. */
export function logCrashes(where: () => Pick<LogOptions, 'config' | 'role' | 'index' | 'title'>): void {
  process.on('uncaughtExceptionMonitor', (error) => {
    try {
      const { config, role, index, title } = where();
      const now = Date.now();
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
      // The disk does not take it; stderr may.
    }
  });
}
