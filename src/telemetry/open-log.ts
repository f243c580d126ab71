// The logs of one process: JSON lines in <logDir>/<kind>-<role>-<n>-<yyyymmdd>.log, or with their kind on the
// standard output. Decides which line goes to which file.
// Invariant: no call throws or waits, no line contains a secret.

import { appendFileSync, mkdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import winston from 'winston';
import { type Config, standardOutput } from '../config/options.ts';
import { createCalendar } from '../core/calendar.ts';
import { messageOf, wordsOf } from '../core/errors.ts';
import { wallNow } from '../runtime/time.ts';
import { telemetryLimits } from './limits.ts';
import { LineAppender } from './line-appender.ts';
import type { Log, LogFields, OpenLog } from './log.ts';
import { formatLine, formatReadable, headOf } from './log-line.ts';

export interface LogOptions {
  readonly config: Pick<
    Config,
    'logDir' | 'log.level' | 'log.request' | 'log.notify' | 'log.bytesMaxPerDay' | 'timezone'
  >;
  readonly role: string;
  readonly index: number;
  /** `dq-server-0` */
  readonly title: string;
  /** Gets each logged notice and error too, in readable form without a line feed: the master prints them. */
  readonly echo?: (line: string) => void;
  readonly now?: () => number;
  /** telemetryLimits.logCloseMs, unless a test has more time */
  readonly closeMs?: number;
}

type Whose = Pick<LogOptions, 'config' | 'role' | 'index' | 'title'>;
type Kind = 'notice' | 'error' | 'request' | 'notify' | 'audit';

/** `day`: yyyymmdd */
function pathOf({ config, role, index }: Whose, kind: Kind, day: number): string {
  const { logDir } = config;
  return logDir === standardOutput ? logDir : join(logDir, `${kind}-${role}-${index}-${day}.log`);
}

/** Tells the kinds apart on the standard output. */
const kindIn = ({ config }: Whose, kind: Kind): LogFields =>
  config.logDir === standardOutput ? { kind } : {};

export function openLog(options: LogOptions): OpenLog {
  const { config, index, title, echo, now = wallNow, closeMs = telemetryLimits.logCloseMs } = options;
  const calendar = createCalendar(config.timezone);
  const appenderOf = (kind: Kind) =>
    new LineAppender({
      pathOf: (day) => pathOf(options, kind, day),
      calendar,
      now,
      // Nothing here keeps the lines of the standard output.
      bytesMaxPerDay: config.logDir === standardOutput ? 0 : config['log.bytesMaxPerDay'],
      closeMs,
      onFull: (bytesMax) => full(kind, bytesMax),
      onRecovered: (lines, reason) => notice('log: lines were lost', { kind, lines, reason }),
    });
  const appenders = {
    notice: appenderOf('notice'),
    error: appenderOf('error'),
    request: appenderOf('request'),
    notify: appenderOf('notify'),
    audit: appenderOf('audit'),
  };
  const noticeLogOf = (kind: 'notice' | 'error') => {
    const head = { ...kindIn(options, kind), process: title, pid: process.pid };
    return new NoticeLog(appenders[kind], config['log.level'], head, now);
  };
  const notices = noticeLogOf('notice');
  const errors = noticeLogOf('error');

  const say = (message: string, fields: LogFields) =>
    echo?.(formatReadable(new Date(now()).toISOString(), title, message, fields));
  const notice = (message: string, fields: LogFields = {}) => {
    notices.write('info', message, fields);
    if (config['log.level'] !== 'error') say(message, fields);
  };
  /** Each kind has its own limit: a flood of one does not silence the others. */
  const full = (kind: Kind, bytesMax: number) => {
    const message = 'log: a file reached its daily limit; later lines of today are dropped';
    const fields = { kind, option: 'log.bytesMaxPerDay', bytesMax };
    if (kind === 'error') notice(message, fields);
    else {
      errors.write('error', message, fields);
      say(message, fields);
    }
  };
  const headOfKind = (kind: Kind) => sharedHead({ ...kindIn(options, kind), process: title }, now);
  const auditHead = headOfKind('audit');
  const requestHead = headOfKind('request');
  const ofCalls = (
    kind: 'request' | 'notify',
    headNow: () => string,
    isError: (fields: LogFields) => boolean,
  ) => {
    const wanted = config[`log.${kind}`];
    return (fields: LogFields) => {
      if (wanted === 'all' || (wanted === 'errors' && isError(fields)))
        appenders[kind].write(formatLine(fields, headNow()));
    };
  };

  return {
    notice,
    error: (message, error, fields = {}) => {
      const why = errorFields(error);
      // An unreachable server concerns every process: the first process of each kind logs an error, the
      // others a notice.
      if (index > 0 && error instanceof Error && isUnreachable(error)) {
        notice(message, { ...why, ...fields });
        return;
      }
      errors.write('error', message, { ...why, ...fields });
      say(message, { ...(why['reason'] === undefined ? {} : { reason: why['reason'] }), ...fields });
    },
    debug: (message, fields = {}) => notices.write('debug', message, fields),
    request: ofCalls('request', requestHead, ({ status }) => typeof status === 'number' && status >= 400),
    requestText: (members) => {
      if (config['log.request'] === 'all') appenders.request.write(`{${requestHead()},${members}}\n`);
    },
    notify: ofCalls('notify', headOfKind('notify'), ({ outcome }) => outcome === 'failed'),
    audit: (fields) => appenders.audit.write(formatLine(fields, auditHead())),
    reopen: () => {
      for (const appender of Object.values(appenders)) appender.reopen();
    },
    // Notices last: the other logs can still report lost lines there.
    close: async () => {
      const { request, notify, audit } = appenders;
      await Promise.all([request.close(), notify.close(), audit.close(), errors.close()]);
      await notices.close();
    },
    dropped: () => Object.values(appenders).reduce((sum, appender) => sum + appender.dropped, 0),
  };
}

/** The first members of a line. Many lines of calls have the same time. */
function sharedHead(members: LogFields, now: () => number): () => string {
  let knownAt = Number.NaN;
  let head = '';
  return () => {
    const at = now();
    if (at !== knownAt) head = headOf({ time: new Date(at).toISOString(), ...members });
    knownAt = at;
    return head;
  };
}

function errorFields(error: unknown): LogFields {
  if (error === undefined) return {};
  if (!(error instanceof Error)) return { reason: messageOf(error) };
  const { code } = error as NodeJS.ErrnoException;
  const stack = isOutage(error) ? {} : { stack: error.stack };
  return { reason: wordsOf(error), ...(code === undefined ? {} : { code }), ...stack };
}

/** Errors of Redis, MySQL, the store and their connections. Their reason suffices: the stack shows only the
 *  caller. */
const outages = new Set([
  'StoreError',
  'DqError',
  'ReplyError',
  'SetUpError',
  'HopError',
  'MysqlError',
  'MaxRetriesPerRequestError',
]);

/** Codes of StoreError and MysqlError. */
const unreachable = new Set([
  'store_away',
  'redis_away',
  'no_answer',
  'redis_no_answer',
  'unreachable',
  'lost',
  'timeout',
]);
const socketCodes =
  /^(ECONN(REFUSED|RESET|ABORTED)|EHOST(UNREACH|DOWN)|ENET(UNREACH|DOWN)|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|PROTOCOL_CONNECTION_LOST)$/;
const clientTexts =
  /^(Connection is closed\.|Command timed out|(Stream|Cluster) isn't (writeable|ready) and)/;

/** A connection refused, reset, closed or timed out. Where an error has a cause, the cause decides. */
function isUnreachable(error: Error): boolean {
  const { name, message, code, cause, failure, isAnswer } = error as NodeJS.ErrnoException & {
    readonly failure?: string | { readonly code: string };
    readonly isAnswer?: boolean;
  };
  if (socketCodes.test(code ?? '') || clientTexts.test(message)) return true;
  if (name === 'MaxRetriesPerRequestError') return true;
  if (cause instanceof Error) return isUnreachable(cause);
  // The server itself answered.
  if (isAnswer === true) return false;
  return unreachable.has(typeof failure === 'object' ? failure.code : (failure ?? ''));
}

function isOutage({ name, message, code, cause }: NodeJS.ErrnoException): boolean {
  if (outages.has(name) || message === 'Connection is closed.') return true;
  if (/^(ECONN|EHOST|ENET|ENOTFOUND|EAI_|ETIMEDOUT|EPIPE)/.test(code ?? '')) return true;
  return cause instanceof Error && isOutage(cause);
}

type NoticeLevel = 'error' | 'info' | 'debug';
const levels: Readonly<Record<NoticeLevel, number>> = { error: 0, info: 1, debug: 2 };

/** A `notice` or `error` log, through winston, which filters levels and calls the format. LineAppender writes
 *  the file. Bundled, winston adds 16 ms to the start of a process. */
class NoticeLog {
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

/** Writes the reason of a crash to the error log of the process at once, because the crash discards gathered
 *  lines. The crash itself is unchanged: Node prints the reason and ends the process. From now on, for
 *  uncaught exceptions and unhandled rejections. `where` is called at the crash: a reload can change it. */
export function logCrashes(where: () => Whose): void {
  process.on('uncaughtExceptionMonitor', (error) => {
    try {
      const whose = where();
      const { config, title } = whose;
      const now = wallNow();
      const day = createCalendar(config.timezone).dayOf(now);
      const line = formatLine({
        time: new Date(now).toISOString(),
        level: 'error',
        ...kindIn(whose, 'error'),
        process: title,
        pid: process.pid,
        message: 'crashed',
        ...errorFields(error),
      });
      if (config.logDir === standardOutput) writeSync(1, line);
      else {
        mkdirSync(config.logDir, { recursive: true, mode: 0o750 });
        appendFileSync(pathOf(whose, 'error', day), line, { mode: 0o640 });
      }
    } catch {
      // The disk rejects the line; stderr may accept it.
    }
  });
}

/** A log whose settings change while its users keep it, because the master outlives reloads. Earlier lines go
 *  to the previous log, which closes after they are written. */
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
