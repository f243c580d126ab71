// NoticeLog writes the `notice` and `error` logs through winston, which filters levels and calls the format.
// LineAppender writes the files. Bundled, winston adds 16 ms to the start of a process.

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

  /** `head`: the first members of every line. */
  constructor(appender: LineAppender, level: NoticeLevel, head: LogFields, now: () => number) {
    this.#appender = appender;
    this.#format = (level, message, fields) =>
      formatLine({ time: new Date(now()).toISOString(), level, ...head, message, ...fields });
    // The appender accepts every line at once, so winston's streams never fill or fail.
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
    // winston throws on a line after its end. The appender accepts it, or counts it as lost after its own
    // end.
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
