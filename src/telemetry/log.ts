// The logger that every part is given: four kinds of line, as operations.md lists them. This file owns the contract;
// notice-log.ts and line-appender.ts beside it write the files.

/** Members of a line; text from outside is escaped by JSON itself, secrets are never passed in. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  /** life of the processes: started, ready, draining, reloaded */
  notice(message: string, fields?: LogFields): void;
  /** a failure somebody should look at; `error` gives its reason and cause, never a stack into a reply */
  error(message: string, error?: unknown, fields?: LogFields): void;
  /** details for `log.level: debug` */
  debug(message: string, fields?: LogFields): void;
  /** every push and cancel with its answer: `status` is the HTTP status, 400 and more counts as an error */
  request(fields: LogFields): void;
  /** every attempt with its verdict: `outcome` other than 'delivered' counts as an error */
  notify(fields: LogFields): void;
}

/** For tests and for what runs before the logs are open. */
export const silentLog: Log = {
  notice() {},
  error() {},
  debug() {},
  request() {},
  notify() {},
};
