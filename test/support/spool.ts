// Changes for tests of the journal, and a process that writes a spool until it is killed. The same file is
// both ends: forked, it writes; imported, it starts and kills such processes.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { AttemptRecord } from '../../src/core/job.ts';
import type { Change, ChangeKind } from '../../src/core/job-change.ts';
import {
  fileNameOf,
  realFiles,
  type SegmentFile,
  type SegmentFiles,
} from '../../src/journal/record/segment.ts';
import { SpoolWriter, type SpoolWriterOptions } from '../../src/journal/record/spool-writer.ts';
import { SpoolDirectory } from '../../src/journal/ship/spool-directory.ts';
import { StreamReader } from '../../src/journal/ship/stream-reader.ts';
import type { StreamPart } from '../../src/ports/spool.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { testDirectory } from './directory.ts';

export const stream = { instance: 0x1234abcd, incarnation: 17 };
export const changeKinds: readonly ChangeKind[] = [
  ...(['accepted', 'moved', 'retried', 'dead', 'ended', 'alert', 'restored'] as const),
];

const attempt: AttemptRecord = {
  ...{ attempt: 1, startedAt: 5, durationMs: 7, outcome: 'failed', reason: 'status', status: 503 },
  ...{ replyExcerpt: 'späť', notifier: 'dq-notifier-0', host: 'h' },
} as const;

/** A change whose members follow from its number. */
export function changeOf(number: number, kind: ChangeKind = 'accepted', body = `body ${number}`): Change {
  const common = {
    ...{ topic: `topic.${number % 3}`, id: `id-${number}`, place: `shard:${number % 2}` },
    ...{ number, version: number, origin: number, dueAt: number * 2, failures: number % 5 },
    isOwn: number % 4 !== 0,
  };
  const other = number % 2 === 0;
  switch (kind) {
    case 'accepted':
      return {
        ...{ ...common, kind, acceptedAt: number + 3, priority: other ? 'high' : 'low' },
        contentType: other ? 'text/plain; x=é' : null,
        extension: other ? Buffer.from([1, 4, 0, 0, 0, 9]) : null,
        body: Buffer.from(body),
      };
    case 'moved':
      return { ...common, kind, by: other ? 'requeue' : 'reschedule' };
    case 'retried':
      return { ...common, kind, attempt };
    case 'dead':
      return { ...common, kind, reason: other ? 'poison' : 'gone', attempt: other ? null : attempt };
    case 'ended':
      return { ...common, kind, end: other ? 'cancelled' : 'done', attempt: other ? null : attempt };
    case 'alert':
      return { ...common, kind };
    case 'restored':
      return { ...common, kind, deadAt: other ? null : 77, reason: other ? null : 'no_retry' };
  }
}

/** An empty directory of a spool that the test closes and removes. */
export function spoolDirectory(): SpoolDirectory {
  const directory = new SpoolDirectory(testDirectory());
  onTestFinished(() => directory.close());
  return directory;
}

export async function writerIn(
  directory: SpoolDirectory,
  more: Partial<SpoolWriterOptions> = {},
): Promise<SpoolWriter> {
  const writer = new SpoolWriter({
    ...{ directory: directory.path, stream, bytesMax: 2 ** 30, log: silentLog },
    segmentBytes: 64 * 1024,
    sizes: () => directory.bytes(),
    onDropped: () => {},
    // Otherwise a pause of this process would count as a failure of its disk.
    answerMs: 30_000,
    ...more,
  });
  await writer.start();
  return writer;
}

/** Everything that can be read of the only stream, in parts of at most `changes`. */
export async function readAll(
  directory: SpoolDirectory,
  { isLiving = false, changes = 100 } = {},
): Promise<StreamPart> {
  const reader = new StreamReader(directory.path, stream);
  const all: Change[] = [];
  const damaged: number[] = [];
  let isTorn = false;
  let from = { segment: 0, offset: 0 };
  try {
    for (;;) {
      const part = await reader.read(from, isLiving, { changes, bytes: 2 ** 20 });
      all.push(...part.changes);
      damaged.push(...part.damaged);
      isTorn ||= part.isTorn;
      from = part.next;
      if (part.state !== 'more') return { ...part, changes: all, isTorn, damaged };
    }
  } finally {
    await reader.close();
  }
}

/** What happens before and after an operation such as `sync 1`; a promise that stays open stops it there. */
export interface Interference {
  readonly before?: (operation: string) => Promise<void> | undefined;
  readonly after?: (operation: string) => Promise<void> | undefined;
}

/** Operations on files, each noted before it begins. `atPowerCut`: the content of each segment after its
 *  last fdatasync, by the name of its file. */
export function watchedFiles({ before, after }: Interference = {}): {
  readonly files: SegmentFiles;
  readonly operations: string[];
  readonly atPowerCut: ReadonlyMap<string, Buffer>;
  /** for a writer that is stopped and cannot do it */
  readonly closeAll: () => Promise<void>;
} {
  const operations: string[] = [];
  const atPowerCut = new Map<string, Buffer>();
  const open = new Set<SegmentFile>();
  let isStopped = false;
  const closeAll = async () => {
    isStopped = true;
    for (const file of open) await file.close();
  };
  async function watch<T>(operation: string, work: () => Promise<T>): Promise<T> {
    operations.push(operation);
    await before?.(operation);
    const result = await work();
    await after?.(operation);
    return result;
  }
  const files: SegmentFiles = {
    async make(directory, header, bytes) {
      const name = fileNameOf(header);
      const save = () => atPowerCut.set(name, readFileSync(join(directory, name)));
      const file = await watch(`make ${header.segment}`, async () => {
        const made = await realFiles().make(directory, header, bytes);
        if (isStopped) await made.close();
        else open.add(made);
        save();
        return made;
      });
      const watched: SegmentFile = {
        bytes,
        write: (records, at) => watch(`write ${header.segment}`, () => file.write(records, at)),
        sync: () =>
          watch(`sync ${header.segment}`, async () => {
            await file.sync();
            save();
          }),
        async writeSynced(records, at) {
          await watched.write(records, at);
          await watched.sync();
        },
        close: () => {
          open.delete(file);
          return file.close();
        },
      };
      return watched;
    },
  };
  return { files, operations, atPowerCut, closeAll };
}

/** A process that writes numbered changes, one call after the other from several callers, and reports each
 *  number after its answer. It dies by kill(), or by itself. */
export class WriterProcess {
  readonly #child: ChildProcess;
  readonly answered: number[] = [];

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (number) => this.answered.push(number as number));
  }

  /** `death`: where it kills itself, such as `before sync 2`; '': nowhere */
  static async start(dataDir: string, segmentBytes: number, death: string): Promise<WriterProcess> {
    const child = fork(fileURLToPath(import.meta.url), [dataDir, String(segmentBytes), death], {
      execArgv: ['--import', 'tsx'],
    });
    const writer = new WriterProcess(child);
    await once(child, 'message');
    return writer;
  }

  /** Resolves with the signal that ended it. */
  async ended(): Promise<string | null> {
    if (this.#child.signalCode === null) await once(this.#child, 'exit');
    return this.#child.signalCode;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended();
  }
}

async function writeForEver(dataDir: string, segmentBytes: number, death: string): Promise<void> {
  const directory = new SpoolDirectory(dataDir);
  const die = () => process.kill(process.pid, 'SIGKILL');
  const { files } = watchedFiles({
    async before(operation) {
      if (death === `before ${operation}`) die();
      // While the operation is at work.
      if (death === `in ${operation}`) setImmediate(die);
    },
    async after(operation) {
      if (death === `after ${operation}`) die();
    },
  });
  const writer = await writerIn(directory, { files, segmentBytes });
  let number = 0;
  const caller = async () => {
    for (;;) {
      number += 1;
      const mine = number;
      await writer.write([changeOf(mine, 'accepted', 'x'.repeat(mine % 700))], 'synced');
      process.send?.(mine);
    }
  };
  await Promise.all(Array.from({ length: 8 }, caller));
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await writeForEver(process.argv[2] ?? '', Number(process.argv[3]), process.argv[4] ?? '');
