// Reads and writes the copy of a MySQL registry in the data directory, which a start uses while MySQL is
// unavailable, and follows the registry in it. Rows are as in MySQL: secrets and headers encrypted, tokens as
// digests. One line per page of topics, and a line that closes each state. Changes are appended: rewriting
// 100,000 topics per change would take seconds and 60 MB.
// Invariant: all lines up to the last closing line are one complete revision.

import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { ChangePlace } from '../../ports/registry.ts';
import { orIfMissing, syncPath } from '../../runtime/files.ts';
import { turn } from '../../runtime/time.ts';
import { sqlLimits } from './limits.ts';
import { type Db, findRegistryId, headOf } from './registry-engine.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';
import { readTokenRows, type TokenRow } from './tables/registry-tokens.ts';
import type { TopicPages, TopicRows } from './tables/topic-pages.ts';

type TopicRow = RegistrySchema['topic'];

export interface SnapshotHead {
  /** the registry that it copies; a copy of another registry is ignored */
  readonly of: string;
  readonly id: string;
  readonly keyCheck: string;
}

interface SnapshotState {
  readonly revision: number;
  readonly tokens: readonly TokenRow[];
  /** absent before the first list */
  readonly shards?: RegistrySchema['shard_list'] | undefined;
}

/** Everything except the topics, which are read only on demand. */
export type RegistrySnapshot = SnapshotHead & SnapshotState;

/** One page of changes. */
interface SnapshotPage {
  readonly topics: readonly TopicRow[];
  readonly deleted: readonly string[];
}

/** of the file; a copy of another format is ignored */
const format = 1;
const lineEnd = 10;

/** null: missing, or of another registry. Rejects for an unreadable copy. */
export async function readSnapshot(path: string, of: string): Promise<RegistrySnapshot | null> {
  const read = await readLines(path, of);
  if (read === null) return null;
  return { ...read.head, ...read.state };
}

/** The registry that a copy was made of, by the first bytes of the file. Throws for another file. */
export function placeInHead(first: string): string {
  const head = JSON.parse(first.slice(0, first.indexOf('\n'))) as SnapshotHead;
  return head.of;
}

/** The topics of the copy in order of (revision, name), and its revision. null: as readSnapshot. */
export async function readSnapshotTopics(
  path: string,
  of: string,
): Promise<{ readonly revision: number; readonly topics: readonly TopicRow[] } | null> {
  const read = await readLines(path, of);
  if (read === null) return null;
  const topics = new Map<string, TopicRow>();
  for (const line of read.pages) {
    const { topics: rows = [], deleted = [] } = JSON.parse(line.toString()) as Partial<SnapshotPage>;
    for (const row of rows) topics.set(row.name, row);
    for (const name of deleted) topics.delete(name);
    await turn();
  }
  const inOrder = [...topics.values()].sort((a, b) => a.revision - b.revision || (a.name < b.name ? -1 : 1));
  return { revision: read.state.revision, topics: inOrder };
}

async function readLines(
  path: string,
  of: string,
): Promise<{ head: SnapshotHead; state: SnapshotState; pages: readonly Buffer[] } | null> {
  const bytes = await orIfMissing(null, readFile(path));
  if (bytes === null) return null;
  const lines = linesOf(bytes);
  const head = JSON.parse(lines[0]?.toString() ?? '') as SnapshotHead & { readonly format: number };
  if (head.of !== of || head.format !== format) return null;
  const end = lines.findLastIndex((line) => line.subarray(0, closing.length).equals(closing));
  if (end < 0) throw new Error('the copy is incomplete');
  const state = JSON.parse((lines[end] as Buffer).toString()) as SnapshotState;
  const pages = lines.slice(1, end).filter((line) => !line.subarray(0, closing.length).equals(closing));
  return { head: { of, id: head.id, keyCheck: head.keyCheck }, state, pages };
}

const closing = Buffer.from('{"revision":');

/** Complete lines only. */
function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; ; ) {
    const end = bytes.indexOf(lineEnd, from);
    if (end < 0) return lines;
    lines.push(bytes.subarray(from, end));
    from = end + 1;
  }
}

/** Writes a whole copy first, then appends changes. After a failure it starts with a whole copy again. */
class SnapshotWriter {
  readonly #path: string;
  #file: FileHandle | null = null;
  /** The file has its final name. */
  #isInPlace = false;
  #wholeBytes = 0;
  #appendedBytes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Whether changes can be appended; otherwise a whole copy is needed. */
  async follows(): Promise<boolean> {
    if (this.#file === null || !this.#isInPlace) return false;
    if (this.#appendedBytes > Math.max(this.#wholeBytes, sqlLimits.snapshotAppendBytesMin)) return false;
    // The file may have been replaced or removed.
    const [mine, there] = await Promise.all([this.#file.stat(), stat(this.#path).catch(() => null)]);
    return there !== null && there.ino === mine.ino && there.dev === mine.dev;
  }

  /** Begins a whole copy beside the existing one. */
  async begin(head: SnapshotHead): Promise<void> {
    await this.close();
    this.#file = await open(this.#fresh, 'w', 0o600);
    this.#wholeBytes = 0;
    this.#appendedBytes = 0;
    await this.#write(`${JSON.stringify({ format, ...head })}\n`);
  }

  async add({ topics, deleted }: SnapshotPage): Promise<void> {
    if (topics.length === 0 && deleted.length === 0) return;
    await this.#write(`${JSON.stringify({ topics, deleted })}\n`);
  }

  /** Closes the state of the pages so far. On disk when it resolves. */
  async finish({ revision, tokens, shards }: SnapshotState): Promise<void> {
    await this.#write(`${JSON.stringify({ revision, tokens, shards })}\n`);
    const file = this.#opened();
    await file.datasync();
    if (this.#isInPlace) return;
    await rename(this.#fresh, this.#path);
    this.#isInPlace = true;
    await syncPath(dirname(this.#path));
  }

  /** Removes the unfinished file; keeps the published one. */
  async close(): Promise<void> {
    const wasInPlace = this.#isInPlace;
    const file = this.#file;
    this.#file = null;
    this.#isInPlace = false;
    if (file === null) return;
    await file.close();
    if (!wasInPlace) await rm(this.#fresh, { force: true });
  }

  get #fresh(): string {
    return `${this.#path}.${process.pid}.new`;
  }

  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    await this.#opened().writeFile(bytes);
    if (this.#isInPlace) this.#appendedBytes += bytes.length;
    else this.#wholeBytes += bytes.length;
  }

  #opened(): FileHandle {
    if (this.#file === null) throw new Error('the copy is not open');
    return this.#file;
  }
}

interface RegistryCopyOptions {
  readonly path: string;
  /** the registry that it copies */
  readonly of: string;
  readonly db: Db;
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
        const { revision, keyCheck } = await headOf(trx);
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
