// Writes the changes of one process to its stream: one write, and one fdatasync, at a time. Changes that
// arrive meanwhile form the next group.
// Invariants: a change is answered as synced after the fdatasync that covers it. A file whose write or
// fdatasync failed is never written or synced again, because the kernel may have dropped its pages: the
// changes since its last successful fdatasync go once more into a new segment.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Change } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import type { Spool, StreamName } from '../../ports/spool.ts';
import { StoreError } from '../../ports/store-error.ts';
import { FailureLog } from '../../runtime/failure-log.ts';
import { clearTimeout, monotonicNow, setTimeout, sleep, type Timer } from '../../runtime/time.ts';
import { orAfter, within } from '../../runtime/timeout.ts';
import type { Log } from '../../telemetry/log.ts';
import { type Metrics, noMetrics } from '../../telemetry/metrics.ts';
import { spoolLimits } from '../limits.ts';
import { closedBytes, recordBytesMax, withoutAttempt, writeChange, writeClosed } from './record.ts';
import {
  fileNameOf,
  headerBytes,
  newSalt,
  realFiles,
  type SegmentFile,
  type SegmentFiles,
} from './segment.ts';

export interface SpoolWriterOptions {
  readonly directory: string;
  readonly stream: StreamName;
  /** limit of all segments in the directory */
  readonly bytesMax: number;
  /** bytes of all segments in the directory */
  readonly sizes: () => Promise<number>;
  readonly log: Log;
  /** Called with a number of changes that are recorded nowhere, because the spool is full or fails. */
  readonly onDropped: (changes: number) => void;
  /** of each write and fdatasync; absent: they are not counted */
  readonly metrics?: Metrics;
  readonly files?: SegmentFiles;
  /** for tests: other values of spoolLimits and limits.redisCallMs */
  readonly segmentBytes?: number;
  readonly againMs?: number;
  readonly syncMs?: number;
  readonly answerMs?: number;
}

/** Changes of one call. */
interface Batch {
  readonly changes: readonly Change[];
  readonly bytes: number;
  readonly waitsForSync: boolean;
  readonly resolve: () => void;
  readonly reject: (error: StoreError) => void;
}

/** An open segment. */
interface Segment {
  readonly number: number;
  readonly salt: Buffer;
  readonly file: SegmentFile;
  /** end of its records */
  at: number;
}

export class SpoolWriter implements Spool {
  readonly #options: SpoolWriterOptions;
  readonly #files: SegmentFiles;
  readonly #segmentBytes: number;
  readonly #metrics: Metrics;
  readonly #failures: FailureLog;
  #waiting: Batch[] = [];
  #waitingBytes = 0;
  #current: Segment | null = null;
  #next: Promise<Segment | null> | null = null;
  /** of #next */
  #nextBytes = 0;
  #made = 0;
  /** written to #current since its last fdatasync */
  #unsynced: Change[] = [];
  #unsyncedBytes = 0;
  #syncTimer: Timer | null = null;
  #isSyncDue = false;
  #running: Promise<void> | null = null;
  #closing = false;
  /** after a failure while it closes */
  #hasGivenUp = false;
  /** ends a pause */
  readonly #stop = new AbortController();
  /** bytes of all segments at the last look, and those made here since then */
  #bytes = 0;
  #looking: Promise<void> | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(options: SpoolWriterOptions) {
    this.#options = options;
    this.#files = options.files ?? realFiles();
    this.#metrics = options.metrics ?? noMetrics;
    this.#segmentBytes = options.segmentBytes ?? spoolLimits.segmentBytes;
    this.#failures = new FailureLog(options.log, {
      failure: 'spool: cannot write; pushes are rejected until it can',
      end: 'spool: writes again',
    });
  }

  /** Makes the first segment: a push would wait for it. Resolves also when that fails. */
  async start(): Promise<void> {
    await this.#look();
    await this.#makeNext();
  }

  admits(bytes: number): boolean {
    if (this.#closing || this.#failures.isFailing) return false;
    if (monotonicNow() - this.#lookedAt >= spoolLimits.sizesMs) void this.#look();
    return this.#hasSpace(bytes);
  }

  get rejectReason(): string | null {
    if (this.#failures.isFailing) return 'cannot be written; the error log has the reason';
    return this.#closing || this.admits(spoolLimits.pushBytesMax)
      ? null
      : 'is full: see journal.spoolBytes, and whether MySQL takes the journal';
  }

  async write(changes: readonly Change[], until: 'written' | 'synced'): Promise<void> {
    if (changes.length === 0) return;
    if (this.#closing) throw spoolFailed();
    const wanted = bytesOf(changes);
    const isShort = !this.#hasSpace(wanted);
    const kept = isShort ? changes.map(withoutAttempt) : changes;
    const bytes = isShort ? bytesOf(kept) : wanted;
    const waitsForSync = until === 'synced';
    if (this.#failures.isFailing && this.#waitingBytes + bytes > spoolLimits.waitingBytes) {
      this.#options.onDropped(changes.length);
      throw spoolFailed();
    }
    const answer = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ changes: kept, bytes, waitsForSync, resolve, reject });
    });
    this.#waitingBytes += bytes;
    this.#wake();
    const ms = this.#options.answerMs ?? limits.redisCallMs;
    await within(ms, answer, () => {
      // It counts as failing until the disk answers. The answer decides whether the file is used further.
      this.#failures.failed(new Error(`no answer from the disk within ${ms} ms`));
      return spoolFailed();
    });
  }

  /** Ends after twice the limit of an answer at the latest: a disk may hang. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    this.#isSyncDue = true;
    this.#wake();
    this.#stop.abort();
    const answerMs = this.#options.answerMs ?? limits.redisCallMs;
    await orAfter(answerMs, this.#idle(), undefined);
    const left = this.#waiting.reduce((sum, { changes }) => sum + changes.length, 0);
    if (left > 0) this.#options.onDropped(left);
    if (this.#running !== null) return;
    const end = this.#endStream().catch((error: unknown) =>
      this.#options.log.error('spool: cannot end the stream', error),
    );
    await orAfter(answerMs, end, undefined);
  }

  async #idle(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  /** Within the limit, without the tenth of the ends. */
  #hasSpace(bytes: number): boolean {
    const { bytesMax } = this.#options;
    if (this.#bytes > bytesMax) return false;
    const wanted = this.#waitingBytes + bytes + closedBytes;
    const left = this.#current === null ? 0 : this.#current.file.bytes - this.#current.at;
    return (
      wanted <= left ||
      wanted <= this.#nextBytes ||
      this.#bytes + Math.max(this.#segmentBytes, wanted) <= bytesMax
    );
  }

  #wake(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
      // A call may have come after the last look of the loop.
      if (this.#hasWork() && !this.#hasGivenUp) this.#wake();
    });
  }

  #hasWork(): boolean {
    return this.#waiting.length > 0 || (this.#isSyncDue && this.#unsynced.length > 0);
  }

  async #run(): Promise<void> {
    while (this.#hasWork() && !this.#hasGivenUp) {
      try {
        const first = this.#waiting[0];
        if (first !== undefined) await this.#writeGroup(await this.#segmentFor(first.bytes));
        else await this.#sync();
        this.#failures.succeeded();
      } catch (error) {
        const isRepeated = this.#failures.isFailing;
        this.#failures.failed(error);
        // After the first failure a new file may take everything at once.
        if (!isRepeated) continue;
        this.#rejectWaiting();
        if (this.#closing) this.#hasGivenUp = true;
        else await this.#pause();
      }
    }
  }

  /** The segment that has so many bytes left. Rejects when none can be made. */
  async #segmentFor(bytes: number): Promise<Segment> {
    const wanted = bytes + closedBytes;
    if (this.#current !== null) {
      const { at, file } = this.#current;
      if (at + wanted <= file.bytes) return this.#current;
      await this.#sync();
      this.#current = null;
      await file.close();
    }
    const prepared = await this.#next;
    this.#next = null;
    this.#nextBytes = 0;
    if (prepared !== null && headerBytes + wanted <= prepared.file.bytes) this.#current = prepared;
    else {
      if (prepared !== null) await this.#remove(prepared);
      await this.#look();
      // Ends may use a part beyond the limit; pushes were asked about (admits).
      const { bytesMax } = this.#options;
      const more = Math.max(
        bytesMax * spoolLimits.endsPart,
        spoolLimits.endsSegmentsMin * this.#segmentBytes,
      );
      this.#current = await this.#make(Math.max(this.#segmentBytes, headerBytes + wanted), bytesMax + more);
    }
    return this.#current;
  }

  async #writeGroup(segment: Segment): Promise<void> {
    const group: Batch[] = [];
    let bytes = 0;
    for (const batch of this.#waiting) {
      const end = segment.at + bytes + batch.bytes + closedBytes;
      const isTooMuch = bytes + batch.bytes > spoolLimits.groupBytes || end > segment.file.bytes;
      if (isTooMuch && group.length > 0) break;
      group.push(batch);
      bytes += batch.bytes;
    }
    this.#waiting.splice(0, group.length);
    this.#waitingBytes -= bytes;
    const records = pack(segment, group, bytes);
    const isSynced =
      this.#unsyncedBytes + bytes > spoolLimits.groupBytes || group.some(({ waitsForSync }) => waitsForSync);
    const { file, at } = segment;
    await this.#step(segment, group, () =>
      isSynced ? this.#timed(file.writeSynced(records, at)) : file.write(records, at),
    );
    segment.at += records.length;
    for (const { changes } of group)
      for (const { kind } of changes) this.#metrics.count('dq_journal_changes_total', 1, kind);
    if (isSynced) this.#synced();
    else {
      for (const { changes } of group) this.#unsynced.push(...changes);
      this.#unsyncedBytes += bytes;
      this.#syncLater();
    }
    for (const batch of group) batch.resolve();
    this.#prepare(segment);
  }

  async #sync(): Promise<void> {
    this.#isSyncDue = false;
    const segment = this.#current;
    if (this.#unsynced.length === 0 || segment === null) return;
    await this.#step(segment, [], () => this.#timed(segment.file.sync()));
    this.#synced();
  }

  #synced(): void {
    this.#isSyncDue = false;
    this.#unsynced = [];
    this.#unsyncedBytes = 0;
  }

  /** A failure abandons the segment. `group`: batches that are not in #unsynced yet */
  async #step(segment: Segment, group: readonly Batch[], work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#abandon(segment, group);
      throw error;
    }
  }

  async #timed(sync: Promise<void>): Promise<void> {
    const began = monotonicNow();
    await sync;
    this.#metrics.observe('dq_journal_sync_seconds', (monotonicNow() - began) / 1_000);
  }

  #syncLater(): void {
    this.#syncTimer ??= setTimeout(() => {
      this.#syncTimer = null;
      this.#isSyncDue = true;
      this.#wake();
    }, this.#options.syncMs ?? spoolLimits.syncMs).unref();
  }

  /** Its unsynced changes, and those of the group, are written again, before all others. Callers that wait
   *  for the disk learn that the result is unknown; the others wait for the second write. */
  #abandon(segment: Segment, group: readonly Batch[]): void {
    this.#current = null;
    void segment.file.close().catch(() => undefined);
    const changes = [...new Set([...this.#unsynced, ...group.flatMap((batch) => batch.changes)])];
    this.#unsynced = [];
    this.#unsyncedBytes = 0;
    for (const { waitsForSync, reject } of group) if (waitsForSync) reject(spoolFailed());
    const bytes = bytesOf(changes);
    const resolve = () => {
      for (const batch of group) batch.resolve();
    };
    this.#waiting.unshift({ changes, bytes, waitsForSync: false, resolve, reject: () => {} });
    this.#waitingBytes += bytes;
  }

  /** While no file can be written, no caller waits for the disk; the changes stay. */
  #rejectWaiting(): void {
    for (const { waitsForSync, reject } of this.#waiting) if (waitsForSync) reject(spoolFailed());
  }

  #prepare(segment: Segment): void {
    if (this.#next !== null || segment.at < segment.file.bytes / 2) return;
    void this.#makeNext();
  }

  /** On a failure the group that needs it makes one, and reports the failure. */
  async #makeNext(): Promise<void> {
    this.#next = this.#make(this.#segmentBytes, this.#options.bytesMax).catch(() => null);
    this.#nextBytes = this.#segmentBytes;
    if ((await this.#next) === null) this.#nextBytes = 0;
  }

  async #make(bytes: number, bytesMax: number): Promise<Segment> {
    if (this.#bytes + bytes > bytesMax) throw new StoreError({ kind: 'not_stored', code: 'spool_full' });
    const { directory, stream } = this.#options;
    this.#made += 1;
    this.#bytes += bytes;
    const header = { ...stream, segment: this.#made, salt: newSalt() };
    try {
      const file = await this.#files.make(directory, header, bytes);
      return { number: header.segment, salt: header.salt, file, at: headerBytes };
    } catch (error) {
      this.#bytes -= bytes;
      throw error;
    }
  }

  async #remove({ file, number }: Segment): Promise<void> {
    const { directory, stream } = this.#options;
    await file.close().catch(() => undefined);
    await rm(join(directory, fileNameOf({ ...stream, segment: number })), { force: true });
    this.#bytes -= file.bytes;
  }

  #look(): Promise<void> {
    this.#lookedAt = monotonicNow();
    this.#looking ??= this.#options
      .sizes()
      .then((bytes) => {
        this.#bytes = bytes;
      })
      .catch(() => undefined)
      .finally(() => {
        this.#looking = null;
      });
    return this.#looking;
  }

  async #pause(): Promise<void> {
    const { signal } = this.#stop;
    await sleep(this.#options.againMs ?? spoolLimits.againMs, { signal }).catch(() => undefined);
  }

  async #endStream(): Promise<void> {
    if (this.#syncTimer !== null) clearTimeout(this.#syncTimer);
    const prepared = await this.#next;
    if (prepared !== null) await this.#remove(prepared);
    const segment = this.#current;
    if (segment === null) return;
    this.#current = null;
    const bytes = Buffer.alloc(closedBytes);
    writeClosed(bytes, 0, segment.salt);
    await segment.file.write(bytes, segment.at);
    await segment.file.sync();
    await segment.file.close();
  }
}

const bytesOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, change) => sum + recordBytesMax(change), 0);

function pack(segment: Segment, group: readonly Batch[], bytesMax: number): Buffer {
  const bytes = Buffer.allocUnsafe(bytesMax);
  let at = 0;
  for (const { changes } of group)
    for (const change of changes) at = writeChange(bytes, at, segment.salt, change);
  return bytes.subarray(0, at);
}

const spoolFailed = (): StoreError => new StoreError({ kind: 'unknown', code: 'spool_failed' });
