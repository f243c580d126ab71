// The two quiet logs, `notice` and `error`, through winston: it keeps the levels and calls the format; the file is a
// LineAppender like any other. Bundled, winston costs a process 16 ms at its start.

import { Writable } from 'node:stream';
import winston from 'winston';
import type { LineAppender } from './line-appender.ts';
import type { LogFields } from './log.ts';
import { formatLine } from './log-line.ts';

export type NoticeLevel = 'error' | 'info' | 'debug';
const levels: Readonly<Record<NoticeLevel, number>> = { error: 0, info: 1, debug: 2 };

export class NoticeLog {
  readonly #logger: winston.Logger;
  readonly #appender: LineAppender;
  readonly #format: (level: NoticeLevel, message: string, fields: LogFields) => string;
  #closing: Promise<void> | null = null;

  /** `head`: members that every line begins with. */
  constructor(appender: LineAppender, level: NoticeLevel, head: LogFields, now: () => number) {
    this.#appender = appender;
    this.#format = (level, message, fields) =>
      formatLine({ time: new Date(now()).toISOString(), level, ...head, message, ...fields });
    // The appender takes every line at once, so that nothing of winston's streams ever fills or fails.
    const stream = new Writable({
      decodeStrings: false,
      write: (line, _encoding, done) => {
        appender.write(line as string);
        done();
      },
    });
    const format = winston.format.printf(({ level, message, fields }) =>
      this.#format(level as NoticeLevel, message as string, fields as LogFields),
    );
    const transports = [new winston.transports.Stream({ stream, eol: '' })];
    this.#logger = winston.createLogger({ levels, level, format, transports });
  }

  write(level: NoticeLevel, message: string, fields: LogFields = {}): void {
    if (this.#closing === null) this.#logger.log({ level, message, fields });
    // winston throws at a line after its end. The appender takes it while it can, and counts it as lost afterwards.
    else if (this.#logger.isLevelEnabled(level)) this.#appender.write(this.#format(level, message, fields));
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#logger.once('finish', resolve);
      this.#logger.end();
    });
    await this.#appender.close();
  }
}
