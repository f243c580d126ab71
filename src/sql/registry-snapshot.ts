// What the registry in MySQL held when it was last read, as a file in the data directory: what a start goes on with while MySQL
// is away. Rows as they are there, so secrets are sealed in it and tokens are digests; headers are encrypted in it also where
// they are not in MySQL yet. Invariant: a file of this name is a whole copy of one moment.

import { readFile } from 'node:fs/promises';
import type { Kysely } from 'kysely';
import { writeDurably } from '../durable-file.ts';
import { findRegistryId } from './registry-id.ts';
import type { RegistrySchema } from './registry-schema.ts';
import type { Sealer } from './sealer.ts';
import { encryptSettings } from './stored-headers.ts';

export interface RegistrySnapshot {
  /** which registry it is a copy of; another one's is none */
  readonly of: string;
  readonly revision: number;
  /** none in copies of before registries had one */
  readonly id?: string | undefined;
  readonly keyCheck: string;
  readonly topics: readonly RegistrySchema['topic'][];
  readonly tokens: readonly RegistrySchema['token'][];
  /** none before the first list, and in copies of before there were shards */
  readonly shards?: RegistrySchema['shard_list'] | undefined;
}

/** of the file's text; another number is a copy that this version cannot read */
const format = 1;

/** All of one moment. null = nothing was ever sealed in this registry. */
export function readRows(db: Kysely<RegistrySchema>, of: string): Promise<RegistrySnapshot | null> {
  return db
    .transaction()
    .setAccessMode('read only')
    .execute(async (trx) => {
      const { revision, key_check: keyCheck } = await trx
        .selectFrom('registry')
        .select(['revision', 'key_check'])
        .executeTakeFirstOrThrow();
      if (keyCheck === null) return null;
      const topics = await trx.selectFrom('topic').selectAll().orderBy('revision').orderBy('name').execute();
      const tokens = await trx.selectFrom('token').selectAll().orderBy('name').execute();
      const shards = await trx.selectFrom('shard_list').selectAll().executeTakeFirst();
      const id = (await findRegistryId(trx)) ?? undefined;
      return { of, id, revision, keyCheck, topics, tokens, shards };
    });
}

/** null = there is none, or none of this registry. Rejects for one that cannot be read. */
export async function readSnapshot(path: string, of: string): Promise<RegistrySnapshot | null> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const read = JSON.parse(text) as RegistrySnapshot & { readonly format: unknown };
  if (read.format !== format || read.of !== of) return null;
  // Copies from before had no order.
  const topics = [...read.topics].sort((a, b) => a.revision - b.revision || (a.name < b.name ? -1 : 1));
  return { ...read, topics };
}

/** On the disk when it resolves. */
export async function writeSnapshot(path: string, snapshot: RegistrySnapshot, sealer: Sealer): Promise<void> {
  const topics = snapshot.topics.map((row) => {
    const settings = encryptSettings(row.settings, row.name, sealer);
    return settings === null ? row : { ...row, settings };
  });
  await writeDurably(path, `${JSON.stringify({ format, ...snapshot, topics })}\n`);
}
