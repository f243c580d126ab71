// Keeps the copy of a registry in the data directory up to date: reads changes page by page and appends them.
// Owns what the copy contains; registry-snapshot.ts owns the file.

import type { Kysely } from 'kysely';
import type { ChangePlace } from '../../ports/registry.ts';
import { type SnapshotHead, type SnapshotState, SnapshotWriter } from './registry-snapshot.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';
import { findRegistryId } from './tables/registry-id.ts';
import { readTokenRows } from './tables/registry-tokens.ts';
import type { TopicPages, TopicRows } from './tables/topic-pages.ts';

export interface RegistryCopyOptions {
  readonly path: string;
  /** the registry that it copies */
  readonly of: string;
  readonly db: Kysely<RegistrySchema>;
  readonly pages: TopicPages;
  /** the shard list to keep, given the registry's */
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
  /** Changes up to `place` of the registry with this head are in the copy; null: no copy yet. */
  #reached: { readonly place: ChangePlace; readonly head: SnapshotHead } | null = null;

  constructor(options: RegistryCopyOptions) {
    this.#options = options;
    this.#writer = new SnapshotWriter(options.path);
  }

  /** Updates the copy; returns its revision, null: the registry is empty. Not for concurrent calls. After a
   *  failure the next call writes a whole copy. */
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
    const { shardsOf } = this.#options;
    let reached = from;
    for (;;) {
      const page = await this.#read(reached?.place ?? start);
      if (page === null) return null;
      const { head, rows, state } = page;
      if (reached !== null && (page.revision < reached.place.revision || !isSame(head, reached.head))) {
        // Another registry, or a restored one.
        reached = null;
        continue;
      }
      if (reached === null) await this.#writer.begin(head);
      await this.#writer.add({ topics: rows.topics, deleted: rows.deleted.map(({ name }) => name) });
      if (state !== null) {
        await this.#writer.finish({ ...state, shards: await shardsOf(head, state.shards) });
        this.#reached = { place: { revision: page.revision, name: null }, head };
        return page.revision;
      }
      reached = { place: rows.next ?? start, head };
    }
  }

  /** null: the registry has no key or no id, so no topic. */
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
        const id = await findRegistryId(trx);
        if (keyCheck === null || id === null) return null;
        const head = { of, id, keyCheck };
        const rows = await pages.rows(trx, after);
        if (rows.next !== null) return { head, revision, rows, state: null };
        const tokens = await readTokenRows(trx);
        const shards = await trx.selectFrom('shard_list').selectAll().executeTakeFirst();
        return { head, revision, rows, state: { revision, tokens, shards } };
      });
  }
}

function isSame(a: SnapshotHead, b: SnapshotHead): boolean {
  return a.id === b.id && a.keyCheck === b.keyCheck;
}
