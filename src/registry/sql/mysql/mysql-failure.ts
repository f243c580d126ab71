// Converts MySQL errors into failures without statements and values, which must not reach a log. Owns the
// meaning of each failure: surely not applied, or unknown; and whether to repeat.

import { StoreError, valueFailures } from '../../../ports/store-error.ts';
import { random } from '../../../runtime/time.ts';
import { sqlLimits } from '../limits.ts';
import { CommitError } from '../registry-engine.ts';

/** mariadb.com/kb/en/mariadb-error-codes, the codes shared with MySQL. Their texts hold names and addresses
 *  only. */
const known: Readonly<Record<number, string>> = {
  1020: 'locked',
  1021: 'full',
  1040: 'too_many_connections',
  1041: 'out_of_memory',
  1044: 'access_denied',
  1045: 'access_denied',
  // Galera: a node without its cluster.
  1047: 'not_ready',
  1049: 'no_database',
  1053: 'lost',
  1054: 'bad_schema',
  1114: 'full',
  1129: 'access_denied',
  1130: 'access_denied',
  1142: 'access_denied',
  1143: 'access_denied',
  1146: 'no_table',
  1193: 'bad_schema',
  1203: 'too_many_connections',
  1205: 'locked',
  1213: 'locked',
  1226: 'too_many_connections',
  1227: 'access_denied',
  1290: 'read_only',
  1317: 'timeout',
  1698: 'access_denied',
  1792: 'read_only',
  1820: 'access_denied',
  1836: 'read_only',
  1862: 'access_denied',
  1969: 'timeout',
  1927: 'lost',
  3024: 'timeout',
  3032: 'not_ready',
  3118: 'access_denied',
  3169: 'lost',
  3572: 'locked',
  4031: 'lost',
  4151: 'access_denied',
};

/** Proxies and managed servers send the words of others under codes of their own. */
const texts: readonly (readonly [RegExp, string])[] = [
  [/\bread[ _-]?only\b/i, 'read_only'],
  [
    /\bnot serving\b|\bno (healthy|available) (backend|server|upstream|host)|\breaching hostgroup\b/i,
    'not_ready',
  ],
  [/\bmax_connections\b|\btoo many connections\b/i, 'too_many_connections'],
];

/** of the library and of its sockets */
const knownCodes: Readonly<Record<string, string>> = {
  PROTOCOL_CONNECTION_LOST: 'lost',
  ECONNRESET: 'lost',
  EPIPE: 'lost',
  ECONNREFUSED: 'unreachable',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ENOTFOUND: 'unreachable',
  EAI_AGAIN: 'unreachable',
  ETIMEDOUT: 'timeout',
  PROTOCOL_SEQUENCE_TIMEOUT: 'timeout',
};

/** After every other failure the connection is closed: the server may be a replica or a former master, and
 *  the address may lead to another one; or the server closes the connection itself, as on a packet that is
 *  too large. */
const keepingFailures: ReadonlySet<string> = new Set([
  ...valueFailures,
  'access_denied',
  'bad_schema',
  'busy',
  'full',
  'locked',
  'no_database',
  'no_table',
  'out_of_memory',
  'too_many_connections',
]);

/** Answers to a COMMIT after which nothing of the transaction is applied. Any other one leaves that open. */
const beforeCommit = new Set([...keepingFailures, 'not_ready', 'read_only']);

export class MysqlError extends Error {
  /** `locked`, `lost`, `timeout` …; `mysql_1064` for an unexpected error */
  readonly failure: string;
  /** the server sent it */
  readonly isAnswer: boolean;

  constructor(failure: string, message: string, isAnswer: boolean) {
    super(message);
    this.name = 'MysqlError';
    this.failure = failure;
    this.isAnswer = isAnswer;
  }

  /** whether the connection is unusable */
  get isFatal(): boolean {
    return !keepingFailures.has(this.failure);
  }
}

/** Converts an error of the library. */
export function mysqlError(error: unknown): MysqlError {
  const { errno, code, fatal, message, sqlMessage } = error as {
    readonly errno?: number;
    readonly code?: string;
    readonly fatal?: boolean;
    readonly message?: string;
    readonly sqlMessage?: string;
  };
  const named = typeof errno === 'number' ? known[errno] : undefined;
  if (named !== undefined) return new MysqlError(named, sqlMessage ?? code ?? named, true);
  const socket = knownCodes[code ?? ''];
  if (socket !== undefined) return new MysqlError(socket, message ?? socket, false);
  if (message === 'Queue limit reached.')
    return new MysqlError('busy', 'too many calls wait for MySQL', false);
  // For example: "Can't add new command when connection is in closed state".
  if (typeof errno !== 'number' || errno <= 0)
    return new MysqlError(fatal === true ? 'lost' : 'failed', code ?? 'the connection failed', false);
  const byText = texts.find(([text]) => text.test(sqlMessage ?? ''))?.[1];
  // Its text may repeat a part of the statement.
  if (byText !== undefined) return new MysqlError(byText, `MySQL answers ${code ?? errno}`, true);
  return new MysqlError(`mysql_${errno}`, `MySQL answers ${code ?? errno}`, true);
}

/** A rejected statement of the set-up of a connection: it holds no value. */
export function setUpError(error: unknown): MysqlError {
  const { failure, message, isAnswer } = mysqlError(error);
  const { sqlMessage } = error as { readonly sqlMessage?: string };
  return new MysqlError(failure, `the set-up of a connection: ${sqlMessage ?? message}`, isAnswer);
}

/** Returns errors that the database did not raise (bugs) unchanged. */
export function toMysqlStoreError(error: unknown): unknown {
  const cause = error instanceof CommitError ? error.cause : error;
  if (!(cause instanceof MysqlError)) return error;
  // A known rejection was not applied; a COMMIT without an answer may have been.
  const isRefused = cause.isAnswer && beforeCommit.has(cause.failure);
  const isUnknown = error instanceof CommitError && !isRefused;
  return new StoreError(
    { kind: isUnknown ? 'unknown' : 'not_stored', code: cause.failure },
    { cause, where: 'MySQL' },
  );
}

/** ms until the whole transaction may run again; null: it may not. Another one holds the lock, or the first
 *  connection was already dead, probably idle, and a new one may work. Neither has changed anything. */
export function pauseOf(error: unknown, isFirst: boolean): number | null {
  if (!(error instanceof MysqlError)) return null;
  if (error.failure === 'locked') return sqlLimits.registryBusyStepMs * (1 + random());
  return error.failure === 'lost' && isFirst ? 0 : null;
}
