// Which registry this is: drawn once for each, and written into the mark of every Redis whose jobs belong to its topics. Drawn here
// and not by a statement of the schema: what a server draws for itself, a replica may draw differently.

import { randomBytes } from 'node:crypto';
import type { Kysely } from 'kysely';
import { DqError } from '../../../core/errors.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

/** Makes one where there is none. Repeated, or asked by two processes at once, it answers the same. Rejects with a DqError for one
 *  that somebody broke by hand. */
export async function openRegistryId(
  { db, lock }: Pick<RegistryEngine, 'db' | 'lock'>,
  what: string,
): Promise<string> {
  const id =
    (await findRegistryId(db)) ??
    (await db.transaction().execute(async (trx) => {
      await lock(trx);
      const found = await findRegistryId(trx);
      if (found !== null) return found;
      const made = randomBytes(8).toString('hex');
      await trx.insertInto('registry_id').values({ only: 1, id: made }).execute();
      return made;
    }));
  if (/^[0-9a-f]{16}$/.test(id)) return id;
  throw new DqError(
    'unavailable',
    `${what} has a broken id: 16 hexadecimal digits are expected in registry_id`,
  );
}

/** null = none was drawn yet. */
export async function findRegistryId(db: Kysely<RegistrySchema>): Promise<string | null> {
  return (await db.selectFrom('registry_id').select('id').executeTakeFirst())?.id ?? null;
}
