// Reads changes of topics in pages, ordered by (revision, name), topics and deletions together. Owns the page
// bounds. Revisions are drawn under a lock held until the commit, so a lower one never becomes visible after
// a higher one: a reader that continues from its place misses no change.

import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { firstWithin } from '../../../core/lists.ts';
import type { ChangePlace, TopicChanges } from '../../../ports/registry.ts';
import { sqlLimits } from '../limits.ts';
import type { Db } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { toRecord } from './topic-row.ts';

type TopicRow = RegistrySchema['topic'];
type Named = Pick<TopicRow, 'name' | 'revision'>;

export interface PageSize {
  readonly rows: number;
  readonly bytes: number;
}

/** Default from limits.ts; tests pass less. */
export function pageSize(size: Partial<PageSize> = {}): PageSize {
  const { rows = sqlLimits.registryPageRows, bytes = sqlLimits.registryPageBytes } = size;
  return { rows, bytes };
}

/** One page of stored rows. */
export interface TopicRows extends Pick<TopicChanges, 'deleted' | 'next'> {
  readonly topics: readonly TopicRow[];
}

export class TopicPages {
  readonly #size: PageSize;
  /** Rows per query: less than `rows` after pages that reached the byte limit. */
  #rows: number;

  constructor(size: PageSize) {
    this.#size = size;
    this.#rows = size.rows;
  }

  async read(trx: Db, after: ChangePlace): Promise<Omit<TopicChanges, 'revision'>> {
    const { topics, ...rest } = await this.rows(trx, after);
    return { topics: topics.map(toRecord), ...rest };
  }

  async rows(trx: Db, after: ChangePlace): Promise<TopicRows> {
    const max = this.#rows;
    const found = await topicsAfter(trx, after, max);
    const rows = this.#fitting(found);
    const isCut = rows.length < found.length || found.length === max;
    const gone = await deletionsAfter(trx, after, max);
    // Both lists end at the place that both have reached.
    const ends = [isCut ? rows.at(-1) : undefined, gone.length === max ? gone.at(-1) : undefined];
    const [end] = ends.filter((row) => row !== undefined).sort(inOrder);
    const isWithin = (row: Named) => end === undefined || inOrder(row, end) <= 0;
    return {
      topics: rows.filter(isWithin),
      deleted: gone.filter(isWithin),
      next: end === undefined ? null : { revision: end.revision, name: end.name },
    };
  }

  /** The rows that fit into a page, at least one. */
  #fitting(found: readonly TopicRow[]): readonly TopicRow[] {
    const bytesOf = ({ settings, secrets }: TopicRow) => settings.length + secrets.length;
    const rows = firstWithin(found, this.#size.bytes, bytesOf);
    const isWhole = rows.length === found.length;
    this.#rows = isWhole ? Math.min(this.#size.rows, 2 * this.#rows) : 2 * rows.length;
    return rows;
  }
}

function topicsAfter(trx: Db, place: ChangePlace, max: number): Promise<TopicRow[]> {
  const query = trx.selectFrom('topic').selectAll().where(isAfter(place));
  return query.orderBy('revision').orderBy('name').limit(max).execute();
}

function deletionsAfter(trx: Db, place: ChangePlace, max: number): Promise<Named[]> {
  const query = trx.selectFrom('topic_tombstone').selectAll().where(isAfter(place));
  return query.orderBy('revision').orderBy('name').limit(max).execute();
}

/** `revision >=` is a separate condition so that SQLite uses the index of revisions. */
function isAfter({ revision, name }: ChangePlace): RawBuilder<SqlBool> {
  return name === null
    ? sql`revision > ${revision}`
    : sql`revision >= ${revision} AND (revision > ${revision} OR name > ${name})`;
}

function inOrder(a: Named, b: Named): number {
  return a.revision - b.revision || (a.name < b.name ? -1 : Number(a.name > b.name));
}
