// The record of an import on disk, with which a second run continues: a JSON object per line, fsynced. The
// keys of a batch are in the file before its push, and its end after it.
// Invariant: a job of a batch without an end may be in dq. Only dq knows, and the import asks it.

import {
  closeSync,
  existsSync,
  fdatasyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { Exit } from '../exit.ts';

export interface JobRef {
  readonly topic: string;
  readonly id: string;
  readonly digest: string;
}

/** What an import reads and where it writes: the file of another import is rejected. */
export interface ImportIdentity {
  readonly source: string;
  readonly places: string;
  readonly dq: string;
}

type Line = ImportIdentity | BatchLine | EndLine | { readonly held: readonly string[] };
interface BatchLine {
  readonly batch: number;
  /** topic, id, digest */
  readonly jobs: readonly (readonly [string, string, string])[];
}
interface EndLine {
  readonly end: number;
  /** positions of jobs that dq rejected, and of those that may be stored */
  readonly rejected: readonly number[];
  readonly unknown: readonly number[];
}

export class ImportState {
  readonly #path: string;
  #file: number | null;
  #next = 1;
  readonly #imported = new Map<string, string>();
  readonly #uncertain = new Map<string, string>();
  #held: readonly string[] = [];

  /** `isWritten`: a dry run only reads. */
  constructor(path: string, identity: ImportIdentity, isWritten: boolean) {
    this.#path = path;
    const whole = this.#read(identity);
    this.#file = isWritten ? openDurably(path, whole) : null;
    if (isWritten && whole === 0) this.#append(identity);
  }

  /** Digest of the push of this id that is in dq, or was; undefined: none is. */
  imported(key: Pick<JobRef, 'topic' | 'id'>): string | undefined {
    return this.#imported.get(keyOf(key));
  }

  /** Digest of the push of this id that may be in dq. */
  uncertain(key: Pick<JobRef, 'topic' | 'id'>): string | undefined {
    return this.#uncertain.get(keyOf(key));
  }

  /** Topics that accept jobs only for the import; they go offline after it. */
  get held(): readonly string[] {
    return this.#held;
  }

  hold(topics: readonly string[]): void {
    this.#held = topics;
    this.#append({ held: topics });
  }

  /** Before the push. Returns the number of the batch. */
  begin(jobs: readonly JobRef[]): number {
    const batch = this.#next++;
    this.#append({ batch, jobs: jobs.map(({ topic, id, digest }) => [topic, id, digest] as const) });
    return batch;
  }

  /** After the push. */
  end(batch: number, jobs: readonly JobRef[], rejected: readonly number[], unknown: readonly number[]): void {
    this.#append({ end: batch, rejected, unknown });
    this.#note(jobs, rejected, unknown);
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #note(jobs: readonly JobRef[], rejected: readonly number[], unknown: readonly number[]): void {
    const [no, maybe] = [new Set(rejected), new Set(unknown)];
    jobs.forEach((job, n) => {
      this.#uncertain.delete(keyOf(job));
      if (maybe.has(n)) this.#uncertain.set(keyOf(job), job.digest);
      else if (!no.has(n)) this.#imported.set(keyOf(job), job.digest);
    });
  }

  /** Returns the length of its whole lines: a kill can leave a part of one. */
  #read(identity: ImportIdentity): number {
    if (!existsSync(this.#path)) return 0;
    const bytes = readFileSync(this.#path);
    const end = bytes.lastIndexOf(0x0a) + 1;
    if (end === 0) return 0;
    const open = new Map<number, readonly JobRef[]>();
    const lines = bytes.toString('utf8', 0, end).trimEnd().split('\n');
    lines.forEach((text, n) => {
      const line = this.#parse(text);
      if (n === 0) this.#check(line, identity);
      else if ('batch' in line) {
        const jobs = line.jobs.map(([topic, id, digest]) => ({ topic, id, digest }));
        open.set(line.batch, jobs);
        this.#next = line.batch + 1;
      } else if ('end' in line) {
        this.#note(open.get(line.end) ?? [], line.rejected, line.unknown);
        open.delete(line.end);
      } else if ('held' in line) this.#held = line.held;
    });
    for (const job of [...open.values()].flat()) this.#uncertain.set(keyOf(job), job.digest);
    return end;
  }

  #parse(text: string): Line {
    try {
      return JSON.parse(text) as Line;
    } catch (cause) {
      throw new Exit('usage', `--state: ${this.#path} is not the state of an import`, { cause });
    }
  }

  #check(line: Line, identity: ImportIdentity): void {
    for (const name of ['source', 'places', 'dq'] as const) {
      const was = name in line ? (line as ImportIdentity)[name] : undefined;
      if (was !== identity[name])
        throw new Exit(
          'usage',
          `--state: ${this.#path} belongs to another import (${name}: ${was}, now ${identity[name]}); give another file`,
        );
    }
  }

  #append(line: Line): void {
    if (this.#file === null) throw new Error('state of a dry run is never written');
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
    fdatasyncSync(this.#file);
  }
}

function keyOf({ topic, id }: Pick<JobRef, 'topic' | 'id'>): string {
  return `${topic}\0${id}`;
}

/** Cuts it to `length`; its name is on disk too. */
function openDurably(path: string, length: number): number {
  const file = openSync(path, 'a', 0o600);
  ftruncateSync(file, length);
  const directory = openSync(dirname(path), 'r');
  fdatasyncSync(directory);
  closeSync(directory);
  return file;
}
