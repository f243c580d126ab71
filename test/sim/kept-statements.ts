// A database that prepares each statement once. Each dq-store of a world prepares a hundred of them over the
// same database, which is a third of what a world costs.
// Invariant: a statement belongs to no process: it reads and writes what the database holds now.

import type { Database, Statement } from '../../src/runtime/database.ts';

export function keepStatements(db: Database): void {
  const prepare = db.prepare.bind(db);
  const known = new Map<string, Statement>();
  const prepareOnce: Database['prepare'] = (sql, options) => {
    const name = options === undefined ? sql : `${JSON.stringify(options)} ${sql}`;
    const statement = known.get(name) ?? prepare(sql, options);
    known.set(name, statement);
    return statement;
  };
  Object.defineProperty(db, 'prepare', { value: prepareOnce });
}
