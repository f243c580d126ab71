// Holds at most two connections to one MySQL server; every use ends by a deadline. Owns session settings and
// the conversion of values, so that a row reads as in SQLite. Invariant: a connection with an outstanding
// answer is never reused, but destroyed: its answer would be read as the next one's.

import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import type { MysqlPool, MysqlPoolConnection } from 'kysely';
import { createPool, format, type Pool, type PoolConnection, type TypeCastField } from 'mysql2';
import { limits } from '../../../core/limits.ts';
import type { MysqlServer } from '../../../core/url/server-url.ts';
import { DialedStream } from '../../../runtime/dial.ts';
import { clearTimeout, monotonicNow, setTimeout } from '../../../runtime/time.ts';
import { sqlLimits } from '../limits.ts';
import { MysqlError, mysqlError, setUpError } from './mysql-failure.ts';

/** Overrides server settings meant for interactive use: too long texts are rejected, not cut; transactions do
 *  not chain; updates without a key and results of any length are allowed. REPEATABLE READ: a change is read
 *  from one state. wait_timeout frees the locks of a frozen process. Lock and statement limits (MariaDB and
 *  MySQL syntax, each in a comment that the other skips): abandoned statements must not occupy the server's
 *  connections. UTC: in other zones an hour comes twice. */
const sessionOf = (statementS: number) => [
  // A server with skip-character-set-client-handshake ignores what the client asked for when it connected.
  'SET NAMES utf8mb4',
  `SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
    time_zone = '+00:00', completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615,
    innodb_lock_wait_timeout = ${sqlLimits.mysqlLockWaitS}, lock_wait_timeout = ${sqlLimits.mysqlLockWaitS},
    wait_timeout = ${sqlLimits.mysqlIdleS}`,
  `SET SESSION autocommit = 1 /*M!100100 , max_statement_time = ${statementS} */
    /*!50708 , max_execution_time = ${statementS * 1_000} */`,
  'SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ',
];

export class MysqlConnections {
  readonly #pool: Pool;
  readonly #open = new Set<PoolConnection>();
  /** of connections whose set-up was rejected, for their first users */
  readonly #rejected = new WeakMap<PoolConnection, MysqlError>();

  /** Connects on first use. `statementS`: how long the server works on one statement. `bytes`: columns of
   *  bytes are read as buffers, not as text. `most`: open connections. */
  constructor(
    { host, port, user, password, database, tls }: MysqlServer,
    statementS: number = sqlLimits.mysqlStatementS,
    {
      bytes = false,
      most = sqlLimits.mysqlConnections,
    }: { readonly bytes?: boolean; readonly most?: number } = {},
  ) {
    this.#pool = createPool({
      host,
      port,
      user,
      password,
      database,
      // A stream over a socket costs some time, which an address needs not take.
      ...(isIP(host) === 0
        ? { stream: () => new DialedStream({ host, port, timeoutMs: limits.mysqlCallMs }) }
        : {}),
      ...(tls === 'off' ? {} : { ssl: { rejectUnauthorized: tls === 'verified' } }),
      charset: 'utf8mb4',
      // Statements of the journal are long and have no placeholders: the library would search them.
      queryFormat: (sql: string, values: Parameters<typeof format>[1]) =>
        Array.isArray(values) && values.length === 0 ? sql : format(sql, values, false, 'Z'),
      timezone: 'Z',
      supportBigNumbers: true,
      bigNumberStrings: true,
      typeCast: bytes ? castToBytes : typeCast,
      connectionLimit: most,
      maxIdle: 1,
      idleTimeout: sqlLimits.mysqlIdleS * 500,
      queueLimit: sqlLimits.mysqlQueueMax,
      connectTimeout: limits.mysqlCallMs,
      enableKeepAlive: true,
      multipleStatements: false,
      // A reset would undo the session settings.
      resetOnRelease: false,
    });
    this.#pool.on('connection', (connection) => {
      this.#open.add(connection);
      // The connection emits no event when it is destroyed; its socket does.
      streamOf(connection).once('close', () => this.#open.delete(connection));
      connection.on('error', () => {
        // The pool has dropped it, and its user has received the error.
      });
      // These run before the statements of its first user.
      for (const statement of sessionOf(statementS))
        connection.query(statement, (error) => {
          if (error === null) return;
          if (!this.#rejected.has(connection)) this.#rejected.set(connection, setUpError(error));
          hangUp(connection);
        });
    });
  }

  /** Number of open connections. */
  get open(): number {
    return this.#open.size;
  }

  /** The pool for Kysely. `callMs`: from the request for a connection to the last answer on it. */
  within(callMs: number): MysqlPool {
    return {
      getConnection: (callback) => this.#acquire(monotonicNow() + callMs, callback),
      // Others may share the connections.
      end: (callback) => callback(undefined),
    };
  }

  /** Closes the connections; destroys them if the server does not answer. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      const late = setTimeout(() => {
        for (const connection of this.#open) hangUp(connection);
        resolve();
      }, sqlLimits.mysqlGoodbyeMs);
      // An error here also means closed.
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
    }, endAt - monotonicNow());
    this.#pool.getConnection((error, connection) => {
      clearTimeout(timer);
      if (isLate) connection?.release();
      else if (error !== null) callback(mysqlError(error), none);
      else callback(null, new PooledConnection(connection, endAt, () => this.#rejected.get(connection)));
    });
  }
}

/** A connection during one call. */
class PooledConnection implements MysqlPoolConnection {
  readonly #connection: PoolConnection;
  readonly #endAt: number;
  readonly #rejection: () => MysqlError | undefined;
  #isDead = false;

  /** `rejection`: of the connection's set-up */
  constructor(connection: PoolConnection, endAt: number, rejection: () => MysqlError | undefined) {
    this.#connection = connection;
    this.#endAt = endAt;
    this.#rejection = rejection;
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
    if (callback === undefined) throw new Error('the registry does not stream');
    const broken = parameters.findIndex((value) => !isPlain(value));
    if (broken >= 0) throw new TypeError(`parameter ${broken} is ${typeof parameters[broken]}`);
    const leftMs = this.#endAt - monotonicNow();
    if (this.#isDead || leftMs <= 0) {
      this.#destroy();
      callback(timedOut(), null);
      return;
    }
    // The library's timeout leaves the connection in use: we destroy it at our deadline.
    const timer = setTimeout(() => {
      this.#destroy();
      callback(timedOut(), null);
    }, leftMs);
    const options = { sql, values: [...parameters], timeout: Math.ceil(leftMs) };
    this.#connection.query(options, (error, result) => {
      clearTimeout(timer);
      if (this.#isDead) return;
      const rejection = this.#rejection();
      const failure = error === null ? null : (rejection ?? mysqlError(error));
      if (failure?.isFatal === true || rejection !== undefined) this.#destroy();
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

/** The library's destroy() waits for the server to close the connection: a frozen one never does. */
function hangUp(connection: PoolConnection): void {
  connection.destroy();
  streamOf(connection).destroy();
}

function timedOut(): MysqlError {
  return new MysqlError('timeout', 'MySQL did not answer in time', false);
}

/** The library would expand an object into SQL. */
function isPlain(value: unknown): boolean {
  return (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'number' ||
    typeof value === 'bigint' ||
    Buffer.isBuffer(value)
  );
}

/** BIGINT becomes a number, and an error beyond 2^53; bytes become text. */
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

/** The same, but bytes stay bytes. The driver reads columns of the binary character set as buffers. */
function castToBytes(field: TypeCastField, next: () => unknown): unknown {
  return field.type === 'LONGLONG' ? typeCast(field, next) : next();
}
