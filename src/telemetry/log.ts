// The contract of the logger that every part gets. open-log.ts opens the files, and line-appender.ts writes
// them.

import { writeSync } from 'node:fs';
import { printable } from '../runtime/printable-text.ts';

/** Members of a line, never secrets. JSON escapes text from outside. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  /** lifecycle of the processes: started, ready, draining, reloaded */
  notice(message: string, fields?: LogFields): void;
  /** a failure that an operator should read; `error` gives reason and cause */
  error(message: string, error?: unknown, fields?: LogFields): void;
  /** details for `log.level: debug` */
  debug(message: string, fields?: LogFields): void;
  /** every push and cancel with its reply: `status` is the HTTP status, 400 and more counts as an error */
  request(fields: LogFields): void;
  /** The same of a success whose members are JSON already, of ASCII only: thousands per second have one
   *  shape. */
  requestText(members: string): void;
  /** every change by a call of scope operate or admin, and every sign-in; no option switches it off */
  audit(fields: LogFields): void;
  /** every attempt with its verdict: `outcome` other than 'delivered' counts as an error */
  notify(fields: LogFields): void;
}

/** The log of a process; open-log.ts writes it to files. */
export interface OpenLog extends Log {
  /** The next lines open the current files at the paths. */
  reopen(): void;
  /** Resolves when all lines are written, or the time for it is over; later ones are dropped. */
  close(): Promise<void>;
  /** lines dropped since the start: not written, or beyond the daily limit */
  dropped(): number;
}

/** For tests and for code that runs before the logs are open. */
export const silentLog: OpenLog = {
  notice() {},
  error() {},
  debug() {},
  request() {},
  requestText() {},
  audit() {},
  notify() {},
  reopen() {},
  close: async () => {},
  dropped: () => 0,
};

/** Writes the last line of a process directly to stderr, because process.exit discards lines that the logs
 *  still hold. It is written when this returns, or dropped: a full or closed pipe must not keep a dying
 *  process alive. */
export function fatalLine(text: string): void {
  try {
    writeSync(2, `${printable(text)}\n`);
  } catch {
    // There is no other place for the message.
  }
}
