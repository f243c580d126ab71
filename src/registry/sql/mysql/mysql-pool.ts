// Connections to one MySQL server: two at most, and every use of one ends by a deadline. Owns the settings of a session and the
// translation of values, so that a row reads as SQLite gives it. Invariant: a connection whose answer is outstanding is never
// given to anybody else, but destroyed: what was asked may still be done, and its answer would be taken for the next one's.

import type { Duplex } from 'node:stream';
import type { MysqlPool, MysqlPoolConnection } from 'kysely';
import { createPool, type Pool, type PoolConnection, type TypeCastField } from 'mysql2';
import { limits } from '../../../core/limits.ts';
import type { MysqlServer } from '../../../core/url/mysql-url.ts';
import { sqlLimits } from '../limits.ts';
import { MysqlError, mysqlError } from './mysql-failure.ts';

/** strict: a text that is too long is refused, never cut. No transaction that goes on by itself, no change refused because it names
 *  no key, no answer cut short: some servers are set up so for people. The read of a whole change must be of one moment, whatever the
 *  server's default. wait_timeout: what a process that stands still has locked is given back. The limits of locks and statements
 *  (of either server, each in a comment that the other one skips): a question that nobody waits for any more must not hold a
 *  connection of the server, or they pile up there. */
const sessionOf = (statementS: number) => [
  `SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
    completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615,
    innodb_lock_wait_timeout = ${sqlLimits.mysqlLockWaitS}, lock_wait_timeout = ${sqlLimits.mysqlLockWaitS},
    wait_timeout = ${sqlLimits.mysqlIdleS}`,
  `SET SESSION autocommit = 1 /*M!100100 , max_statement_time = ${statementS} */
    /*!50708 , max_execution_time = ${statementS * 1_000} */`,
  'SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ',
];

export class MysqlConnections {
  readonly #pool: Pool;
  readonly #open = new Set<PoolConnection>();

  /** Connects when it is first used. `statementS`: how long the server works on one statement. */
  constructor(
    { host, port, user, password, database, tls }: MysqlServer,
    statementS: number = sqlLimits.mysqlStatementS,
  ) {
    this.#pool = createPool({
      ...{ host, port, user, password, database },
      ...(tls === 'off' ? {} : { ssl: { rejectUnauthorized: tls === 'verified' } }),
      charset: 'utf8mb4',
      timezone: 'Z',
      supportBigNumbers: true,
      bigNumberStrings: true,
      typeCast,
      connectionLimit: sqlLimits.mysqlConnections,
      maxIdle: 1,
      idleTimeout: sqlLimits.mysqlIdleS * 500,
      queueLimit: sqlLimits.mysqlQueueMax,
      connectTimeout: limits.mysqlCallMs,
      enableKeepAlive: true,
      multipleStatements: false,
      // It would undo the settings of the session.
      resetOnRelease: false,
    });
    this.#pool.on('connection', (connection) => {
      this.#open.add(connection);
      // The connection itself tells nobody when it is destroyed, by us or by the pool; its socket always does.
      streamOf(connection).once('close', () => this.#open.delete(connection));
      connection.on('error', () => {
        // The pool has dropped it; whoever was using it has been told.
      });
      // In front of whatever its first user asks.
      for (const statement of sessionOf(statementS))
        connection.query(statement, (error) => {
          if (error !== null) hangUp(connection);
        });
    });
  }

  /** Connections that have been made and not ended. */
  get open(): number {
    return this.#open.size;
  }

  /** The pool as Kysely takes it. `callMs`: from asking for a connection to the last answer on it. */
  within(callMs: number): MysqlPool {
    return {
      getConnection: (callback) => this.#acquire(performance.now() + callMs, callback),
      // Several may share the connections.
      end: (callback) => callback(undefined),
    };
  }

  /** Says goodbye, and hangs up on a server that does not hear it. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      const late = setTimeout(() => {
        for (const connection of this.#open) hangUp(connection);
        resolve();
      }, sqlLimits.mysqlGoodbyeMs);
      // What fails at the end has ended too.
      this.#pool.end(() => {
        clearTimeout(late);
        resolve();
      });
    });
  }

  #acquire(endAt: number, callback: (error: unknown, connection: MysqlPoolConnection) => void): void {
    let isLate = false;
    const none = undefined as unknown as MysqlPoolConnection;
    const timer = setTimeout(() => {
      isLate = true;
      callback(timedOut(), none);
    }, endAt - performance.now());
    this.#pool.getConnection((error, connection) => {
      clearTimeout(timer);
      if (isLate) connection?.release();
      else if (error !== null) callback(mysqlError(error), none);
      else callback(null, new PooledConnection(connection, endAt));
    });
  }
}

/** A connection in the hands of one call. */
class PooledConnection implements MysqlPoolConnection {
  readonly #connection: PoolConnection;
  readonly #endAt: number;
  #isDead = false;

  constructor(connection: PoolConnection, endAt: number) {
    this.#connection = connection;
    this.#endAt = endAt;
  }

  query(sql: string, parameters: readonly unknown[]): never;
  query(
    sql: string,
    parameters: readonly unknown[],
    callback: (error: unknown, result: unknown) => void,
  ): void;
  query(
    sql: string,
    parameters: readonly unknown[],
    callback?: (error: unknown, result: unknown) => void,
  ): void {
    if (callback === undefined) throw new Error('the registry streams nothing');
    const broken = parameters.findIndex((value) => !isPlain(value));
    if (broken >= 0) throw new TypeError(`parameter ${broken} is ${typeof parameters[broken]}`);
    const leftMs = this.#endAt - performance.now();
    if (this.#isDead || leftMs <= 0) {
      this.#destroy();
      callback(timedOut(), null);
      return;
    }
    // The library's own timeout answers and leaves the connection in use: the deadline is ours, and it hangs up.
    const timer = setTimeout(() => {
      this.#destroy();
      callback(timedOut(), null);
    }, leftMs);
    const options = { sql, values: [...parameters], timeout: Math.ceil(leftMs) };
    this.#connection.query(options, (error, result) => {
      clearTimeout(timer);
      if (this.#isDead) return;
      const failure = error === null ? null : mysqlError(error);
      if (failure?.isFatal === true) this.#destroy();
      callback(failure, result);
    });
  }

  release(): void {
    if (!this.#isDead) this.#connection.release();
  }

  #destroy(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    hangUp(this.#connection);
  }
}

function streamOf(connection: PoolConnection): Duplex {
  return (connection as unknown as { readonly stream: Duplex }).stream;
}

/** destroy() of the library says goodbye and waits for the other side to hang up: one that stands still never does. */
function hangUp(connection: PoolConnection): void {
  connection.destroy();
  streamOf(connection).destroy();
}

function timedOut(): MysqlError {
  return new MysqlError('timeout', 'MySQL did not answer in time', false);
}

/** The library would unfold an object into SQL of its own. */
function isPlain(value: unknown): boolean {
  return (
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  );
}

/** BIGINT is a number here, and one that is none any more is an error instead of nearly right; bytes are text. */
function typeCast(field: TypeCastField, next: () => unknown): unknown {
  switch (field.type) {
    case 'LONGLONG': {
      const text = field.string();
      if (text === null) return null;
      const n = Number(text);
      if (!Number.isSafeInteger(n)) throw new RangeError(`${field.name} is beyond 2^53`);
      return n;
    }
    case 'VAR_STRING':
    case 'VARCHAR':
    case 'STRING':
    case 'BLOB':
    case 'LONG_BLOB':
    case 'MEDIUM_BLOB':
      return field.string('utf8');
    default:
      return next();
  }
}
