// How a topic's headers are stored: encrypted, because header values carry credentials. Reads both forms; headers from before
// they were encrypted stay readable. Encrypts the plain ones of a whole registry. Knows the column `settings`, nothing else.

import type { Kysely } from 'kysely';
import type { Topic } from '../../../core/topic/topic.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import type { Sealer } from './encryption.ts';

type Db = Kysely<RegistrySchema>;
type Headers = Topic['headers'];

/** The one member of encrypted headers; its value is the encrypted JSON of all of them. No user can set a header `dq-…`, so
 *  the two forms cannot be confused. A dq from before reads it as one more header: it does not crash, it writes the member
 *  back unchanged, and its callbacks lack the topic's own headers. A column of its own would lose them at its first PATCH. */
const encryptedMember = 'dq-sealed';
/** Rows of one transaction: some 10 ms, and the other writers wait meanwhile. */
const rowsPerStep = 100;

export function toStoredHeaders(headers: Headers, topic: string, sealer: Sealer): Headers {
  if (Object.keys(headers).length === 0) return {};
  return { [encryptedMember]: sealer.seal(JSON.stringify(headers), ownerOf(topic)) };
}

/** Throws for headers that were encrypted with another key or for another topic. */
export function fromStoredHeaders(stored: Headers, topic: string, sealer: Sealer): Headers {
  const encrypted = stored[encryptedMember];
  return encrypted === undefined ? stored : (JSON.parse(sealer.unseal(encrypted, ownerOf(topic))) as Headers);
}

/** The text of `settings` with its headers encrypted; null = they are already, or the row is broken and stays as it is. */
export function encryptSettings(settings: string, topic: string, sealer: Sealer): string | null {
  try {
    const stored = JSON.parse(settings) as { headers?: Headers };
    const { headers = {} } = stored;
    if (Object.keys(headers).length === 0 || headers[encryptedMember] !== undefined) return null;
    // Members that this version does not know are kept: a newer dq may have written them.
    return JSON.stringify({ ...stored, headers: toStoredHeaders(headers, topic, sealer) });
  } catch {
    // The reader of the row says what is wrong with it.
    return null;
  }
}

/** Whether any row may hold headers in the clear. Quotes inside JSON texts are escaped, so the patterns match members only. */
export async function holdsPlainHeaders(db: Db): Promise<boolean> {
  return (await rowsWithPlainHeaders(db, '', 1)).length > 0;
}

/** Encrypts the plain headers of all rows; answers how many rows that were. Revisions stay: the topics are the same. Repeated,
 *  interrupted, or run by two processes at once, it does no harm. */
export async function encryptPlainHeaders({ db, lock }: RegistryEngine, sealer: Sealer): Promise<number> {
  let changed = 0;
  for (let after: string | null = ''; after !== null; ) {
    const from: string = after;
    after = await db.transaction().execute(async (trx) => {
      await lock(trx);
      const rows = await rowsWithPlainHeaders(trx, from, rowsPerStep);
      for (const { name, settings: stored } of rows) {
        const settings = encryptSettings(stored, name, sealer);
        if (settings === null) continue;
        await trx.updateTable('topic').set({ settings }).where('name', '=', name).execute();
        changed += 1;
      }
      return rows.length < rowsPerStep ? null : (rows.at(-1)?.name ?? null);
    });
  }
  return changed;
}

function rowsWithPlainHeaders(db: Db, after: string, limit: number) {
  return db
    .selectFrom('topic')
    .select(['name', 'settings'])
    .where('name', '>', after)
    .where('settings', 'like', '%"headers":{"%')
    .where('settings', 'not like', `%"headers":{"${encryptedMember}":%`)
    .orderBy('name')
    .limit(limit)
    .execute();
}

/** What the text is bound to. No topic name has a slash. */
function ownerOf(topic: string): string {
  return `${topic}/headers`;
}
