// Encrypts a topic's stored headers, because header values carry credentials. Reads encrypted and plain ones,
// and encrypts the plain ones of a whole registry. Knows only the column `settings`.

import type { Kysely } from 'kysely';
import type { Topic } from '../../../core/topic/topic.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import type { SecretCipher } from './encryption.ts';

type Db = Kysely<RegistrySchema>;
type Headers = Topic['headers'];

/** The only member of encrypted headers; its value is the encrypted JSON of all headers. Users cannot set
 *  `dq-…` headers, so the two forms are distinct. An earlier dq reads it as a header: it writes the member
 *  back unchanged, and its callbacks lack the topic's headers. A separate column would lose them at the first
 *  PATCH. */
const encryptedMember = 'dq-sealed';
/** Rows per transaction: about 10 ms, in which other writers wait. */
const rowsPerStep = 100;

export function toStoredHeaders(headers: Headers, topic: string, cipher: SecretCipher): Headers {
  if (Object.keys(headers).length === 0) return {};
  return { [encryptedMember]: cipher.encrypt(JSON.stringify(headers), ownerOf(topic)) };
}

/** Throws for headers encrypted with another key or for another topic. */
export function fromStoredHeaders(stored: Headers, topic: string, cipher: SecretCipher): Headers {
  const encrypted = stored[encryptedMember];
  return encrypted === undefined
    ? stored
    : (JSON.parse(cipher.decrypt(encrypted, ownerOf(topic))) as Headers);
}

/** `settings` with encrypted headers; null: already encrypted, or the row is damaged and stays unchanged. */
export function encryptSettings(settings: string, topic: string, cipher: SecretCipher): string | null {
  try {
    const stored = JSON.parse(settings) as { headers?: Headers };
    const { headers = {} } = stored;
    if (Object.keys(headers).length === 0 || headers[encryptedMember] !== undefined) return null;
    // Keep unknown members: a newer dq may have written them.
    return JSON.stringify({ ...stored, headers: toStoredHeaders(headers, topic, cipher) });
  } catch {
    // The reader of the row reports the damage.
    return null;
  }
}

/** Whether any row may hold plain headers. JSON texts escape inner quotes, so the patterns match only
 *  members. */
export async function holdsPlainHeaders(db: Db): Promise<boolean> {
  return (await rowsWithPlainHeaders(db, '', 1)).length > 0;
}

/** Encrypts the plain headers of all rows; returns the number of changed rows. Revisions stay. Idempotent,
 *  also when interrupted or in two processes at once. */
export async function encryptPlainHeaders(
  { db, lock }: RegistryEngine,
  cipher: SecretCipher,
): Promise<number> {
  let changed = 0;
  for (let after: string | null = ''; after !== null; ) {
    const from: string = after;
    after = await db.transaction().execute(async (trx) => {
      await lock(trx);
      const rows = await rowsWithPlainHeaders(trx, from, rowsPerStep);
      for (const { name, settings: stored } of rows) {
        const settings = encryptSettings(stored, name, cipher);
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

/** Owner of the encrypted text. No topic name has a slash. */
function ownerOf(topic: string): string {
  return `${topic}/headers`;
}
