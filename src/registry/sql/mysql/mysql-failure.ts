// Converts MySQL errors into failures without statements and values, which must not reach a log. Owns the
// meaning of each failure: surely not applied, or unknown; and whether to repeat.

import { StoreError } from '../../../ports/store-error.ts';
import { CommitError } from '../registry-engine.ts';

/** mariadb.com/kb/en/mariadb-error-codes, the codes shared with MySQL. Their texts hold names and addresses
 *  only. */
const known: Readonly<Record<number, string>> = {
  1021: 'full',
  1040: 'too_many_connections',
  1041: 'out_of_memory',
  1044: 'access_denied',
  1045: 'access_denied',
  1049: 'no_database',
  1053: 'lost',
  1114: 'full',
  1129: 'access_denied',
  1130: 'access_denied',
  1142: 'access_denied',
  1146: 'no_table',
  1203: 'too_many_connections',
  1205: 'locked',
  1213: 'locked',
  1226: 'too_many_connections',
  1290: 'read_only',
  1698: 'access_denied',
  1792: 'read_only',
  1836: 'read_only',
  1969: 'timeout',
  1927: 'lost',
  3024: 'timeout',
  4031: 'lost',
};

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

/** After one of these the server may be another one: a replica, or a former master; or it closes the
 *  connection, as on a packet that is too large. */
const fatalFailures = new Set(['read_only', 'lost', 'timeout', 'unreachable', 'mysql_1153']);

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
    return fatalFailures.has(this.failure);
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
  // Its text may repeat a part of the statement.
  return new MysqlError(`mysql_${errno}`, `MySQL answers ${code ?? errno}`, true);
}

/** Returns errors that the database did not raise (bugs) unchanged. */
export function toMysqlStoreError(error: unknown): unknown {
  const cause = error instanceof CommitError ? error.cause : error;
  if (!(cause instanceof MysqlError)) return error;
  // A rejection was not applied; a COMMIT without an answer may have been.
  const isRefused = cause.isAnswer && cause.failure !== 'lost';
  const isUnknown = error instanceof CommitError && !isRefused;
  return new StoreError(
    { kind: isUnknown ? 'unknown' : 'not_stored', code: cause.failure },
    { cause, where: 'MySQL' },
  );
}

/** `wait`: another transaction holds the lock; run the whole transaction again. `once`: the connection was
 *  already dead, probably idle; a new one may work. Neither has changed anything. */
export function repetitionOf(error: unknown): 'wait' | 'once' | null {
  if (!(error instanceof MysqlError)) return null;
  return error.failure === 'locked' ? 'wait' : error.failure === 'lost' ? 'once' : null;
}
