// Identifies the registry by a random id, which the ownership marker of each of its Redis servers repeats.
// Drawn here, not by a schema statement: a replica might draw another value.

import type { Kysely } from 'kysely';
import { DqError } from '../../../core/errors.ts';
import { randomBytes } from '../../../runtime/time.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

/** Creates a missing id. Idempotent, also in two processes at once. Rejects with a DqError for an invalid
 *  id. */
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
  throw new DqError('unavailable', `${what} has an invalid id: registry_id must hold 16 hexadecimal digits`);
}

/** null: no id yet. */
export async function findRegistryId(db: Kysely<RegistrySchema>): Promise<string | null> {
  return (await db.selectFrom('registry_id').select('id').executeTakeFirst())?.id ?? null;
}
