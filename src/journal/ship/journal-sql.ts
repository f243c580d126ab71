// Runs the statements of the journal on MySQL: bytes stay bytes, and a transaction reads what others have
// committed. Owns the conversion of failures; journal-db.ts owns the statements.

import type { MysqlPoolConnection } from 'kysely';
import type { MysqlServer } from '../../core/url/server-url.ts';
import { sqlLimits } from '../../registry/sql/limits.ts';
import { mysqlError, toMysqlStoreError } from '../../registry/sql/mysql/mysql-failure.ts';
import { MysqlConnections } from '../../registry/sql/mysql/mysql-pool.ts';
import { CommitError } from '../../registry/sql/registry-engine.ts';
import type { SqlValue } from './job-upsert.ts';

export type Query = <Row>(sql: string, values?: readonly SqlValue[]) => Promise<readonly Row[]>;

export class JournalSql {
  readonly #connections: MysqlConnections;

  /** Connects on first use. `most`: open connections. */
  constructor(server: MysqlServer, most?: number) {
    const options = { bytes: true, ...(most === undefined ? {} : { most }) };
    this.#connections = new MysqlConnections(server, sqlLimits.journalCallMs / 1_000, options);
  }

  close(): Promise<void> {
    return this.#connections.close();
  }

  /** Reads, or one statement. Rejects with StoreError. */
  async run<T>(work: (query: Query) => Promise<T>): Promise<T> {
    const connection = await this.#connection();
    try {
      return await work(queryOn(connection));
    } catch (error) {
      throw toMysqlStoreError(error);
    } finally {
      connection.release();
    }
  }

  /** The rows of one statement. Rejects with StoreError. */
  rows<Row>(sql: string, values?: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.run((query) => query<Row>(sql, values));
  }

  /** The number of rows that one statement changes. Rejects with StoreError. */
  change(sql: string, values: readonly SqlValue[]): Promise<number> {
    return this.run((query) => changedBy(query, sql, values));
  }

  /** Rejects with StoreError: not_stored, or unknown after a failed COMMIT. */
  async transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.run(async (query) => {
      await query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED');
      await query('BEGIN');
      let result: T;
      try {
        result = await work(query);
      } catch (error) {
        // A failed ROLLBACK closes the connection, which ends the transaction.
        await query('ROLLBACK').catch(() => undefined);
        throw error;
      }
      try {
        await query('COMMIT');
      } catch (error) {
        throw new CommitError(error);
      }
      return result;
    });
  }

  #connection(): Promise<MysqlPoolConnection> {
    return new Promise((resolve, reject) => {
      this.#connections
        .within(sqlLimits.journalCallMs)
        .getConnection((error, connection) =>
          error ? reject(toMysqlStoreError(mysqlError(error))) : resolve(connection),
        );
    });
  }
}

export async function changedBy(query: Query, sql: string, values: readonly SqlValue[]): Promise<number> {
  const result = (await query(sql, values)) as unknown as { readonly affectedRows: number };
  return result.affectedRows;
}

function queryOn(connection: MysqlPoolConnection): Query {
  return (sql, values = []) =>
    new Promise((resolve, reject) => {
      connection.query(sql, [...values], (error: unknown, result: unknown) =>
        error ? reject(error) : resolve(result as never),
      );
    });
}
