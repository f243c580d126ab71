// Keeps the copy of a registry in the data directory up to date: reads what changed since the last time, page by page, and appends
// it. Owns what of the registry is in the copy; the file is registry-snapshot.ts.

import type { Kysely } from 'kysely';
import type { ChangePlace } from '../../ports/registry.ts';
import type { Sealer } from './keys/encryption.ts';
import { encryptSettings } from './keys/stored-headers.ts';
import { type SnapshotHead, type SnapshotState, SnapshotWriter } from './registry-snapshot.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';
import { findRegistryId } from './tables/registry-id.ts';
import type { TopicPages, TopicRows } from './tables/topic-pages.ts';

export interface RegistryCopyOptions {
  readonly path: string;
  /** which registry it is a copy of */
  readonly of: string;
  readonly db: Kysely<RegistrySchema>;
  readonly pages: TopicPages;
  readonly sealerOf: (head: SnapshotHead) => Sealer;
  /** the list of shards to be kept, where the registry has this one */
  readonly shardsOf: (
    head: SnapshotHead,
    shards: SnapshotState['shards'],
  ) => Promise<SnapshotState['shards']>;
}

interface Page {
  readonly head: SnapshotHead;
  readonly revision: number;
  readonly rows: TopicRows;
  /** with the last page */
  readonly state: SnapshotState | null;
}

const start: ChangePlace = { revision: 0, name: null };

export class RegistryCopy {
  readonly #options: RegistryCopyOptions;
  readonly #writer: SnapshotWriter;
  /** Everything up to here is in the copy, which is of the registry with this head; null = there is no copy yet. */
  #reached: { readonly place: ChangePlace; readonly head: SnapshotHead } | null = null;

  constructor(options: RegistryCopyOptions) {
    this.#options = options;
    this.#writer = new SnapshotWriter(options.path);
  }

  /** Brings the copy up to date. Answers the revision that it is of; null = the registry holds nothing yet. Called once at a time.
   *  After a failure the next call writes a whole copy. */
  async follow(): Promise<number | null> {
    const before = this.#reached;
    this.#reached = null;
    try {
      return await this.#follow((await this.#writer.follows()) ? before : null);
    } catch (error) {
      await this.close().catch(() => undefined);
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }

  async #follow(
    from: { readonly place: ChangePlace; readonly head: SnapshotHead } | null,
  ): Promise<number | null> {
    const { sealerOf, shardsOf } = this.#options;
    let reached = from;
    for (;;) {
      const page = await this.#read(reached?.place ?? start);
      if (page === null) return null;
      const { head, rows, state } = page;
      if (reached !== null && (page.revision < reached.place.revision || !isSame(head, reached.head))) {
        // Another registry, or one that was put back from a backup.
        reached = null;
        continue;
      }
      if (reached === null) await this.#writer.begin(head);
      const sealer = sealerOf(head);
      const topics = rows.topics.map((row) => {
        const settings = encryptSettings(row.settings, row.name, sealer);
        return settings === null ? row : { ...row, settings };
      });
      await this.#writer.add({ topics, deleted: rows.deleted.map(({ name }) => name) });
      if (state !== null) {
        await this.#writer.finish({ ...state, shards: await shardsOf(head, state.shards) });
        this.#reached = { place: { revision: page.revision, name: null }, head };
        return page.revision;
      }
      reached = { place: rows.next ?? start, head };
    }
  }

  /** null = nothing was ever encrypted in this registry. */
  #read(after: ChangePlace): Promise<Page | null> {
    const { db, of, pages } = this.#options;
    return db
      .transaction()
      .setAccessMode('read only')
      .execute(async (trx) => {
        const { revision, key_check: keyCheck } = await trx
          .selectFrom('registry')
          .select(['revision', 'key_check'])
          .executeTakeFirstOrThrow();
        if (keyCheck === null) return null;
        const head = { of, id: (await findRegistryId(trx)) ?? undefined, keyCheck };
        const rows = await pages.rows(trx, after);
        if (rows.next !== null) return { head, revision, rows, state: null };
        const tokens = await trx.selectFrom('token').selectAll().orderBy('name').execute();
        const shards = await trx.selectFrom('shard_list').selectAll().executeTakeFirst();
        return { head, revision, rows, state: { revision, tokens, shards } };
      });
  }
}

function isSame(a: SnapshotHead, b: SnapshotHead): boolean {
  return a.id === b.id && a.keyCheck === b.keyCheck;
}
