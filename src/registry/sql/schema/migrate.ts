// Brings a schema to the state that this code knows, one numbered step after the other, each with its row in the ledger in
// one transaction (where the database's DDL allows it). Never changes anything in a schema that it does not recognise:
// a newer one, one of somebody else's, one whose steps were changed after they had been applied.

import { createHash } from 'node:crypto';
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import { DqError } from '../../../core/errors.ts';

export interface Migration {
  /** 1, 2, 3 … without gaps */
  readonly number: number;
  readonly name: string;
  /** Never edited once released: the checksum in the ledgers of the world would be another. */
  readonly statements: readonly string[];
}

export interface LedgerSchema {
  readonly migration: { number: number; name: string; checksum: string; applied_at: number };
}

/** All that is needed to bring one kind of database up to date. */
export interface Schema {
  /** makes the table `migration`, where it is not there yet */
  readonly ledger: string;
  readonly migrations: readonly Migration[];
  /** What stands around the script for the database's own shell, and how it says epoch ms. */
  readonly script: {
    readonly begin: string;
    readonly end: string;
    readonly insert: string;
    readonly now: string;
  };
}

export function checksumOf({ statements }: Migration): string {
  return createHash('sha256').update(statements.join(';\n')).digest('hex');
}

/** Writes nothing. Answers the number of the last step applied; 0 for an empty database. Throws DqError when the schema is not
 *  one to work with; `what` names it: "registry /var/lib/dq/registry.db". */
export async function checkSchema<S extends LedgerSchema>(
  db: Kysely<S>,
  { migrations }: Schema,
  what: string,
): Promise<number> {
  const tables = await db.introspection.getTables();
  if (!tables.some(({ name }) => name === 'migration')) {
    if (tables.length === 0) return 0;
    throw refused(`${what} is no dq schema: it has tables (${tables[0]?.name} …) but no ledger`);
  }
  const ledger = db as unknown as Kysely<LedgerSchema>;
  const applied = await ledger.selectFrom('migration').selectAll().orderBy('number').execute();
  for (const row of applied) {
    const known = migrations.find(({ number }) => number === row.number);
    if (known === undefined)
      throw refused(
        `${what} was written by a newer dq: it has schema ${applied.at(-1)?.number}, this version knows ${migrations.length}; start the newer dq`,
      );
    if (row.checksum !== checksumOf(known))
      throw refused(`${what}: step ${row.number} (${row.name}) is another than the one this version knows`);
  }
  return applied.at(-1)?.number ?? 0;
}

/** Applies what is missing. Several processes may do it at once: each step asks the ledger again under its lock. Where DDL
 *  ends a transaction, the caller lets one at a time do it, and a step that was cut off is run again whole: its statements
 *  must allow that. */
export async function migrate<S extends LedgerSchema>(
  db: Kysely<S>,
  { ledger: ledgerStatement, migrations }: Schema,
  now: () => number,
): Promise<void> {
  const ledger = db as unknown as Kysely<LedgerSchema>;
  for (const step of migrations)
    await ledger.transaction().execute(async (trx) => {
      await sql.raw(ledgerStatement).execute(trx);
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

/** The schema as a script for the database's own shell; a database made by it is recognised by checkSchema. */
export function renderSchema(title: string, { ledger, migrations, script }: Schema): string {
  const steps = migrations.map((step) =>
    [
      `-- ${step.number}: ${step.name}`,
      ...step.statements.map((statement) => `${statement};`),
      `${script.insert} INTO migration (number, name, checksum, applied_at)\n  VALUES (${step.number}, '${step.name}', '${checksumOf(step)}', ${script.now});`,
    ].join('\n'),
  );
  return [`-- ${title}`, script.begin, `${ledger};`, '', steps.join('\n\n'), script.end, ''].join('\n');
}

function refused(sentence: string): DqError {
  return new DqError('unavailable', sentence);
}
