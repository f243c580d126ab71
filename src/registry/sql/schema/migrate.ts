// Brings a schema up to date in numbered steps, each with its row in table `migration`, in one transaction
// where DDL allows it. Leaves an unrecognised schema unchanged: a newer one, a foreign one, one with changed
// steps.

import { createHash } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import { DqError } from '../../../core/errors.ts';

interface Migration {
  /** 1, 2, 3 … without gaps */
  readonly number: number;
  readonly name: string;
  /** Never edit a released step: its checksum is stored in every installed registry. */
  readonly statements: readonly string[];
}

export interface MigrationSchema {
  readonly migration: { number: number; name: string; checksum: string; applied_at: number };
}

/** Everything that one kind of database needs. */
export interface Schema {
  /** creates table `migration` if it is missing */
  readonly createTable: string;
  readonly migrations: readonly Migration[];
  /** Frame of the script for the database's shell, and its expression for epoch ms. */
  readonly script: {
    readonly begin: string;
    readonly end: string;
    readonly insert: string;
    readonly now: string;
  };
}

function checksumOf({ statements }: Migration): string {
  return createHash('sha256').update(statements.join(';\n')).digest('hex');
}

/** Read only. Returns the number of the last applied step; 0: empty database. Throws DqError for an
 *  unrecognised schema; `what` names it: "registry /var/lib/dq/registry.db". */
export async function checkSchema<S extends MigrationSchema>(
  db: Kysely<S>,
  { migrations }: Schema,
  what: string,
): Promise<number> {
  const tables = await db.introspection.getTables();
  if (!tables.some(({ name }) => name === 'migration')) {
    if (tables.length === 0) return 0;
    throw rejected(`${what} is not a dq schema: it has tables (${tables[0]?.name} …) but no table migration`);
  }
  const table = db as unknown as Kysely<MigrationSchema>;
  const applied = await table.selectFrom('migration').selectAll().orderBy('number').execute();
  for (const row of applied) {
    const known = migrations.find(({ number }) => number === row.number);
    if (known === undefined)
      throw rejected(
        `${what} was written by a newer dq: it has schema ${applied.at(-1)?.number}, this version knows ${migrations.length}; start the newer dq`,
      );
    if (row.checksum !== checksumOf(known))
      throw rejected(
        `${what}: step ${row.number} (${row.name}) differs from this version's: use the dq that wrote it; its version number may be the same`,
      );
  }
  return applied.at(-1)?.number ?? 0;
}

/** Applies missing steps. Several processes may call it at once: each step checks the table under its lock.
 *  Where DDL ends a transaction, the caller serializes, and an interrupted step runs again: its statements
 *  must allow that. */
export async function migrate<S extends MigrationSchema>(
  db: Kysely<S>,
  { createTable, migrations }: Schema,
  now: () => number,
): Promise<void> {
  const table = db as unknown as Kysely<MigrationSchema>;
  for (const step of migrations)
    await table.transaction().execute(async (trx) => {
      await sql.raw(createTable).execute(trx);
      const row = await trx
        .selectFrom('migration')
        .select('number')
        .where('number', '=', step.number)
        .executeTakeFirst();
      if (row !== undefined) return;
      for (const statement of step.statements) await sql.raw(statement).execute(trx);
      await trx
        .insertInto('migration')
        .values({ number: step.number, name: step.name, checksum: checksumOf(step), applied_at: now() })
        .execute();
    });
}

/** The schema as a script for the database's shell; checkSchema recognises its result. */
export function renderSchema(title: string, { createTable, migrations, script }: Schema): string {
  const steps = migrations.map((step) =>
    [
      `-- ${step.number}: ${step.name}`,
      ...step.statements.map((statement) => `${statement};`),
      `${script.insert} INTO migration (number, name, checksum, applied_at)\n  VALUES (${step.number}, '${step.name}', '${checksumOf(step)}', ${script.now});`,
    ].join('\n'),
  );
  return [`-- ${title}`, script.begin, `${createTable};`, '', steps.join('\n\n'), script.end, ''].join('\n');
}

function rejected(sentence: string): DqError {
  return new DqError('unavailable', sentence);
}
