// Reads and writes the copy of a MySQL registry in the data directory, which a start uses while MySQL is
// unavailable. Rows are as in MySQL: secrets and headers encrypted, tokens as digests. One line per page of
// topics, and a line that closes each state. Changes are appended: rewriting 100,000 topics per change would
// take seconds and 60 MB. Invariant: all lines up to the last
// closing line are one complete revision.

import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncPath } from '../../runtime/files.ts';
import { turn } from '../../runtime/time.ts';
import { sqlLimits } from './limits.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';
import type { TokenRow } from './tables/registry-tokens.ts';

type TopicRow = RegistrySchema['topic'];

export interface SnapshotHead {
  /** the registry that it copies; a copy of another registry is ignored */
  readonly of: string;
  readonly id: string;
  readonly keyCheck: string;
}

export interface SnapshotState {
  readonly revision: number;
  readonly tokens: readonly TokenRow[];
  /** absent before the first list */
  readonly shards?: RegistrySchema['shard_list'] | undefined;
}

/** Everything except the topics, which are read only on demand. */
export type RegistrySnapshot = SnapshotHead & SnapshotState;

/** One page of changes. */
export interface SnapshotPage {
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
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
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
export class SnapshotWriter {
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
