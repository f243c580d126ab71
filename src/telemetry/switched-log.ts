// SwitchedLog is a log whose settings change while its users keep it, because the master outlives reloads.
// Earlier lines go to the previous log, which closes after they are written.

import type { Log, LogFields, OpenLog } from './log.ts';

export class SwitchedLog implements OpenLog {
  #log: OpenLog;
  #closing: Promise<unknown> = Promise.resolve();
  /** previous logs, which can still drop lines */
  readonly #before = new Set<OpenLog>();
  #droppedBefore = 0;

  constructor(log: OpenLog) {
    this.#log = log;
  }

  switchTo(log: OpenLog): void {
    const before = this.#log;
    this.#log = log;
    this.#before.add(before);
    const closed = before.close().then(() => {
      this.#before.delete(before);
      this.#droppedBefore += before.dropped();
    });
    this.#closing = Promise.all([this.#closing, closed]);
  }

  notice: Log['notice'] = (message, fields) => this.#log.notice(message, fields);
  error: Log['error'] = (message, error, fields) => this.#log.error(message, error, fields);
  debug: Log['debug'] = (message, fields) => this.#log.debug(message, fields);
  request = (fields: LogFields): void => this.#log.request(fields);
  requestText = (members: string): void => this.#log.requestText(members);
  audit = (fields: LogFields): void => this.#log.audit(fields);
  notify = (fields: LogFields): void => this.#log.notify(fields);

  reopen(): void {
    this.#log.reopen();
  }

  async close(): Promise<void> {
    await Promise.all([this.#closing, this.#log.close()]);
  }

  dropped(): number {
    const logs = [...this.#before, this.#log];
    return logs.reduce((sum, log) => sum + log.dropped(), this.#droppedBefore);
  }
}
