// LineAppender appends lines to one file per day. It writes whole lines together, so that two processes can
// share the file.
// Invariant: never throws and never waits for the disk. It drops and counts lines that it cannot write, and
// lines beyond `bytesMaxPerDay`; `onRecovered` gets the number when writing works again, on the next day or
// at the end.
// Rejected: winston's file transports, which cost 4.8 µs a line and neither reopen a file nor recreate its
// directory.

import type { Calendar } from '../core/calendar.ts';
import { messageOf } from '../core/errors.ts';
import { clearTimeout, monotonicNow, setTimeout, type Timer } from '../runtime/time.ts';
import { orAfter } from '../runtime/timeout.ts';
import { telemetryLimits } from './limits.ts';
import { AppendError, type LogTarget, openLogTarget } from './log-file.ts';

interface LineAppenderOptions {
  /** of the file of a day, yyyymmdd; `-` = the standard output */
  readonly pathOf: (day: number) => string;
  readonly calendar: Calendar;
  readonly now: () => number;
  /** 0 = no limit. Lines in the file at the first opening of a day count, later lines of other processes do
   *  not. */
  readonly bytesMaxPerDay: number;
  /** how long close() waits for the disk */
  readonly closeMs: number;
  /** called when the limit of a day is reached; lines that it writes to this file are dropped */
  readonly onFull: (bytesMax: number) => void;
  readonly onRecovered: (lines: number, reason: string) => void;
}

const fullReason = 'log.bytesMaxPerDay was reached';

export class LineAppender {
  readonly #options: LineAppenderOptions;
  #lines: string[] = [];
  #chars = 0;
  #timer: Timer | null = null;
  #writing: Promise<void> | null = null;
  #closing: Promise<void> | null = null;
  #file: LogTarget | null = null;
  #checkedAt = 0;
  #stale = false;
  /** yyyymmdd of the last written lines, and the bytes of that day; null bytes = no file of that day is open
   *  yet */
  #day = 0;
  #bytesToday: number | null = null;
  /** the day whose limit is reached */
  #fullDay = 0;
  /** dropped lines that onRecovered has not reported yet */
  #missing = 0;
  #missingReason = '';
  #dropped = 0;

  constructor(options: LineAppenderOptions) {
    this.#options = options;
  }

  /** lines dropped since the start */
  get dropped(): number {
    return this.#dropped;
  }

  /** `line` ends with its line feed. */
  write(line: string): void {
    const refusal =
      this.#closing !== null
        ? 'the log was closed'
        : this.#chars + line.length > telemetryLimits.logBacklogCharsMax
          ? 'the disk is too slow'
          : this.#isFull()
            ? fullReason
            : null;
    if (refusal !== null) {
      this.#drop(1, refusal);
      return;
    }
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars >= telemetryLimits.logBatchCharsMax) this.#start();
    else this.#timer ??= setTimeout(() => this.#start(), telemetryLimits.logFlushMs);
  }

  /** Closes the file at once; the next line opens the current file at its path. */
  reopen(): void {
    this.#stale = true;
    this.#start();
  }

  /** Resolves when every line is written, or after closeMs. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    // After the deadline the appender still writes and closes its file, but the caller does not wait.
    await orAfter(this.#options.closeMs, this.#finish(), undefined);
  }

  async #finish(): Promise<void> {
    this.#start();
    while (this.#writing !== null) await this.#writing;
    // No later write does it.
    this.#reportMissing();
    await this.#release();
  }

  #start(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
      // Lines that arrived after the last check.
      if (this.#lines.length > 0 || this.#stale) this.#start();
    });
  }

  /** One write at a time: lines stay in order, and a stuck disk blocks one thread of libuv's pool, not
   *  all. */
  async #writeAll(): Promise<void> {
    if (this.#stale) await this.#release();
    while (this.#lines.length > 0) {
      const lines = this.#lines;
      this.#lines = [];
      this.#chars = 0;
      await this.#writeBatch(lines);
    }
  }

  async #writeBatch(lines: readonly string[]): Promise<void> {
    try {
      const file = await this.#current();
      const bytes = this.#withinLimit(file.mend, lines);
      if (bytes.length === 0) return;
      this.#bytesToday = (this.#bytesToday ?? 0) + bytes.length;
      await file.append(bytes);
      // Reports dropped lines of a full day on the next day.
      if (this.#fullDay !== this.#day) this.#reportMissing();
    } catch (error) {
      this.#stale = true;
      if (error instanceof AppendError)
        this.#drop(Math.min(error.unwritten, lines.length), messageOf(error.cause));
      else this.#drop(lines.length, messageOf(error));
    }
  }

  /** Drops the lines beyond the day's limit; returns the others. */
  #withinLimit(mend: string, lines: readonly string[]): Buffer {
    const { bytesMaxPerDay, onFull } = this.#options;
    const whole = Buffer.from(mend + lines.join(''));
    // After a dropped line, a shorter one would hide the gap.
    const isFull = this.#fullDay === this.#day;
    const left = isFull ? 0 : bytesMaxPerDay - (this.#bytesToday ?? 0);
    if (bytesMaxPerDay === 0 || whole.length <= left) return whole;
    const lengths = lines.map((line) => Buffer.byteLength(line));
    let kept = 0;
    let end = mend.length;
    while (end + (lengths[kept] ?? 0) <= left) end += lengths[kept++] ?? 0;
    this.#fullDay = this.#day;
    this.#drop(lines.length - kept, fullReason);
    if (!isFull) onFull(bytesMaxPerDay);
    return kept === 0 ? Buffer.alloc(0) : whole.subarray(0, end);
  }

  #isFull(): boolean {
    return this.#fullDay !== 0 && this.#fullDay === this.#options.calendar.dayOf(this.#options.now());
  }

  async #current(): Promise<LogTarget> {
    const day = this.#options.calendar.dayOf(this.#options.now());
    if (day !== this.#day) this.#bytesToday = null;
    this.#day = day;
    const path = this.#options.pathOf(day);
    if (this.#stale || this.#file?.path !== path || (await this.#hasMoved())) await this.#release();
    if (this.#file === null) {
      this.#file = await openLogTarget(path);
      // The lines of a file that was rotated since are counted already.
      this.#bytesToday ??= this.#file.sizeBefore;
      this.#checkedAt = monotonicNow();
    }
    return this.#file;
  }

  async #hasMoved(): Promise<boolean> {
    if (monotonicNow() - this.#checkedAt < telemetryLimits.logCheckMs) return false;
    this.#checkedAt = monotonicNow();
    return this.#file !== null && (await this.#file.hasMoved());
  }

  async #release(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    this.#stale = false;
    try {
      await file?.close();
    } catch {
      // Its lines are written or counted already.
    }
  }

  #drop(lines: number, reason: string): void {
    this.#dropped += lines;
    this.#missing += lines;
    this.#missingReason = reason;
  }

  #reportMissing(): void {
    if (this.#missing === 0) return;
    const lines = this.#missing;
    this.#missing = 0;
    this.#options.onRecovered(lines, this.#missingReason);
  }
}
