// The record of an import on disk, with which a second run continues: a JSON object per line, fsynced. The
// jobs of a batch are in the file before its push, and its end after it.
// Invariants: a job of a batch without an end may be in dq; only dq knows, and the import asks it. One
// process at a time writes the file: the kernel releases its lock when it ends, however it ends.

import {
  closeSync,
  existsSync,
  fdatasyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { messageOf } from '../../core/errors.ts';
import { type DirectoryLock, takeLock } from '../../master/data/data-directory.ts';
import { syncPathNow } from '../../runtime/files.ts';
import { Exit } from '../exit.ts';

export interface JobKey {
  readonly topic: string;
  readonly id: string;
}

/** One push of a job. */
export interface JobPush extends JobKey {
  readonly digest: string;
  /** as the push says it: with the id it names this push in dq, live or ended */
  readonly sentAt: number;
}

/** What dq has, or had, of one id by this import. */
export interface Past {
  /** of all pushes that dq accepted */
  readonly digests: readonly string[];
  /** the latest of them */
  readonly sentAt: number;
}

/** What an import reads and where it writes: the file of another import is rejected. */
export interface ImportIdentity {
  readonly source: string;
  readonly places: string;
  readonly dq: string;
}

type Line = ImportIdentity | ProcessLine | BatchLine | EndLine | { readonly held: readonly string[] };
/** of each run, for the message to another one */
interface ProcessLine {
  readonly process: number;
  readonly host: string;
}
interface BatchLine {
  /** topic, id, digest, sentAt */
  readonly push: readonly (readonly [string, string, string, number])[];
}
/** Of the batch before it. */
interface EndLine {
  /** positions of jobs that dq did not accept, and of those that may be stored */
  readonly left: readonly number[];
  readonly unknown: readonly number[];
}

export class ImportState {
  readonly #path: string;
  #lock: DirectoryLock | null;
  #file: number | null = null;
  #batch: readonly JobPush[] = [];
  readonly #past = new Map<string, Past>();
  readonly #uncertain = new Map<string, JobPush>();
  #held: readonly string[] = [];

  /** `isWritten`: a dry run only reads. */
  constructor(path: string, identity: ImportIdentity, isWritten: boolean) {
    this.#path = path;
    this.#lock = isWritten ? lockOf(path) : null;
    try {
      const whole = this.#read(identity);
      if (!isWritten) return;
      this.#file = openDurably(path, whole);
      if (whole === 0) this.#append(identity);
      this.#append({ process: process.pid, host: hostname() });
    } catch (error) {
      this.close();
      throw error instanceof Exit ? error : unusable(path, error);
    }
  }

  past(key: JobKey): Past | undefined {
    return this.#past.get(keyOf(key));
  }

  /** The push of this id that may be in dq. */
  uncertain(key: JobKey): JobPush | undefined {
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

  /** Before the push. */
  begin(jobs: readonly JobPush[]): void {
    const push = jobs.map(({ topic, id, digest, sentAt }) => [topic, id, digest, sentAt] as const);
    this.#append({ push });
    this.#begun(jobs);
  }

  /** After the push. */
  end(left: readonly number[] = [], unknown: readonly number[] = []): void {
    this.#append({ left, unknown });
    this.#ended(left, unknown);
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
    this.#lock?.release();
    this.#lock = null;
  }

  #begun(jobs: readonly JobPush[]): void {
    this.#batch = jobs;
    for (const job of jobs) this.#uncertain.set(keyOf(job), job);
  }

  #ended(left: readonly number[], unknown: readonly number[]): void {
    const [no, maybe] = [new Set(left), new Set(unknown)];
    this.#batch.forEach((job, n) => {
      if (maybe.has(n)) return;
      const key = keyOf(job);
      this.#uncertain.delete(key);
      if (no.has(n)) return;
      const { digests, sentAt } = this.#past.get(key) ?? { digests: [], sentAt: 0 };
      this.#past.set(key, { digests: [...digests, job.digest], sentAt: Math.max(sentAt, job.sentAt) });
    });
    this.#batch = [];
  }

  /** Returns the length of its whole lines: a kill can leave a part of one. */
  #read(identity: ImportIdentity): number {
    let n = 0;
    const end = eachLine(this.#path, (line) => {
      if (n++ === 0) this.#check(line, identity);
      else if ('push' in line)
        this.#begun(line.push.map(([topic, id, digest, sentAt]) => ({ topic, id, digest, sentAt })));
      else if ('left' in line) this.#ended(line.left, line.unknown);
      else if ('held' in line) this.#held = line.held;
      else if (!('process' in line))
        throw new Exit(
          'usage',
          `--state: ${this.#path} holds an import by another version of dq; finish it with that version`,
        );
    });
    this.#batch = [];
    return end;
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

  /** A part of a line may be the last thing in the file, so nothing follows a failure. */
  #append(line: Line): void {
    if (this.#file === null) throw new Exit('failed', `--state: ${this.#path} is not open for writing`);
    try {
      writeFileSync(this.#file, `${JSON.stringify(line)}\n`);
      fdatasyncSync(this.#file);
    } catch (error) {
      closeSync(this.#file);
      this.#file = null;
      throw unusable(this.#path, error);
    }
  }
}

function keyOf({ topic, id }: JobKey): string {
  return `${topic}\0${id}`;
}

/** Returns the length of the whole lines. */
function eachLine(path: string, use: (line: Line) => void): number {
  if (!existsSync(path)) return 0;
  const bytes = readFileSync(path);
  const end = bytes.lastIndexOf(0x0a) + 1;
  for (let from = 0; from < end; ) {
    const to = bytes.indexOf(0x0a, from);
    use(parse(path, bytes.toString('utf8', from, to)));
    from = to + 1;
  }
  return end;
}

function parse(path: string, text: string): Line {
  try {
    const line = JSON.parse(text) as Line;
    if (typeof line === 'object' && line !== null) return line;
  } catch {
    // The next line says it.
  }
  throw new Exit('usage', `--state: ${path} is not the state of an import`);
}

function lockOf(path: string): DirectoryLock {
  let lock: DirectoryLock | null;
  try {
    lock = takeLock(`${path}.lock`);
  } catch (error) {
    throw unusable(path, error);
  }
  if (lock !== null) return lock;
  let holder = 'another import';
  eachLine(path, (line) => {
    if ('process' in line) holder = `process ${line.process} on ${line.host}`;
  });
  throw new Exit(
    'failed',
    `--state: ${holder} uses ${path}; wait for its end, or end it and run the same command again`,
  );
}

function unusable(path: string, cause: unknown): Exit {
  return new Exit('failed', `--state: cannot use ${path}: ${messageOf(cause)}`, { cause });
}

/** Cuts it to `length`; its name is on disk too. */
function openDurably(path: string, length: number): number {
  const file = openSync(path, 'a', 0o600);
  ftruncateSync(file, length);
  syncPathNow(dirname(path));
  return file;
}
