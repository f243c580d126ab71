// Errors of MySQL, managed servers and proxies, from a server that sends them: what each means for the caller
// and for the connection.
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreError } from '../../src/ports/store-error.ts';
import { toMysqlStoreError } from '../../src/registry/sql/mysql/mysql-failure.ts';
import { MysqlConnections } from '../../src/registry/sql/mysql/mysql-pool.ts';
import { CommitError } from '../../src/registry/sql/registry-engine.ts';
import { startScriptedMysql } from '../support/scripted-mysql.ts';

async function startServer(errorOf: Parameters<typeof startScriptedMysql>[0]) {
  const server = await startScriptedMysql(errorOf);
  const where = { host: '127.0.0.1', port: server.port, user: 'u', password: '', database: 'd' };
  const pool = new MysqlConnections({ ...where, tls: 'off' });
  onTestFinished(() => pool.close());
  const query = (statement: string): Promise<unknown> =>
    new Promise((resolve, reject) => {
      pool.within(30_000).getConnection((failed, connection) => {
        if (failed) return reject(failed);
        connection.query(statement, [], (error: unknown, result: unknown) => {
          connection.release();
          if (error === null) resolve(result);
          else reject(error);
        });
      });
    });
  return { ...server, query };
}

const failureOf = (error: unknown) =>
  error instanceof StoreError ? error.failure : expect.fail(`not an error of MySQL: ${error}`);

describe('errors of MySQL', () => {
  it.each([
    [1205, 'Lock wait timeout exceeded', 'locked', 'not_stored', 'kept'],
    [1366, "Incorrect string value: '\\xF0\\x9F' for column 'title'", 'mysql_1366', 'not_stored', 'kept'],
    [1146, "Table 'd.topic' doesn't exist", 'no_table', 'not_stored', 'kept'],
    [
      1227,
      'Access denied; you need (at least one of) the SUPER privilege(s)',
      'access_denied',
      'not_stored',
      'kept',
    ],
    [1290, 'The MySQL server is running with the --super-read-only option', 'read_only', 'not_stored', 'new'],
    [1047, 'WSREP has not yet prepared node for application use', 'not_ready', 'not_stored', 'new'],
    [3032, 'The server is currently in offline mode', 'not_ready', 'not_stored', 'new'],
    // Proxies, in words of their own
    [1105, 'ERR 1290: instance is READ ONLY now', 'read_only', 'not_stored', 'new'],
    [
      1105,
      'primary is not serving, there is a reparent operation in progress',
      'not_ready',
      'not_stored',
      'new',
    ],
    [9001, 'Max connect timeout reached while reaching hostgroup 10', 'not_ready', 'not_stored', 'new'],
    [1105, 'something that no table has', 'mysql_1105', 'unknown', 'new'],
    [1180, 'Got error 149 during COMMIT', 'mysql_1180', 'unknown', 'new'],
  ])('%i %s: %s; of a COMMIT: %s; the connection: %s', async (errno, message, failure, ofCommit, next) => {
    const { query, connections } = await startServer((statement) =>
      statement === 'wrong' ? { errno, message } : null,
    );
    await query('right');
    const error = await query('wrong').then(
      () => expect.fail('no error'),
      (thrown: unknown) => thrown,
    );
    expect(failureOf(toMysqlStoreError(error))).toEqual({ kind: 'not_stored', code: failure });
    expect(failureOf(toMysqlStoreError(new CommitError(error)))).toEqual({ kind: ofCommit, code: failure });
    await query('right');
    expect(connections()).toBe(next === 'kept' ? 1 : 2);
  });

  it('a rejected set-up: the server’s words, and no statement after it', async () => {
    const { query, statements } = await startServer((statement) =>
      statement.includes('time_zone')
        ? { errno: 1193, message: "Unknown system variable 'time_zone'" }
        : null,
    );
    await expect(query('right')).rejects.toThrow(
      "the set-up of a connection: Unknown system variable 'time_zone'",
    );
    expect(statements).not.toContain('right');
  });
});
