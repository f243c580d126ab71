// SQLite errors have a code however a statement was run, although the library gives some of them none.

import { describe, expect, it } from 'vitest';
import { openDatabase, sqliteCode, sqliteCodes } from '../../src/runtime/database.ts';

function errorOf(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error('it did not fail');
}

/** A database that may not grow any more, and a statement that makes it grow. */
function full() {
  const db = openDatabase(':memory:');
  db.exec('CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB); PRAGMA max_page_count = 2');
  return db.prepare('INSERT INTO t(b) VALUES (zeroblob(100000)) RETURNING a');
}

describe('sqliteCode', () => {
  it.each(['run', 'get', 'all', 'iterate'] as const)('says that %s met a full disk', (method) => {
    const statement = full();
    const error = errorOf(() => (method === 'iterate' ? [...statement.iterate()] : statement[method]()));
    expect(sqliteCode(error)).toBe(sqliteCodes.full);
  });

  it('returns null for errors of others', () => {
    expect(sqliteCode(new Error('database or disk is full'))).toBeNull();
    expect(sqliteCode('database or disk is full')).toBeNull();
  });
});
