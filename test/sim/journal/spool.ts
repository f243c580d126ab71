// The spool of one instance of a world, in memory: it survives the processes that write it. A record that a
// dead process had not written is missing.
// Left out: segments, torn tails and full disks (test/unit/spool*.test.ts).

import type { JournalSeams } from '../../../src/compose/journal.ts';
import type { Change } from '../../../src/core/job-change.ts';
import type { FoundStream, Spool, SpooledStreams, StreamName, StreamPart } from '../../../src/ports/spool.ts';
import type { Loop } from '../loop.ts';
import type { Process } from '../process.ts';
import type { JournalLaws } from './laws.ts';
import type { SimMysql } from './mysql.ts';

interface Stream extends StreamName {
  readonly changes: Change[];
  hasEnded: boolean;
}

export interface SimSpoolOptions {
  readonly loop: Loop;
  readonly laws: JournalLaws;
  readonly instance: number;
  /** A write takes at most so long, and its fdatasync. */
  readonly writeMs: number;
  readonly syncMs: number;
}

const firstSegment = 1;
/** Few, so that a spool has more. */
const readMax = 8;

export class SimSpool implements SpooledStreams {
  readonly #options: SimSpoolOptions;
  /** by incarnation */
  readonly #streams = new Map<number, Stream>();
  #shipped = 0;

  constructor(options: SimSpoolOptions) {
    this.#options = options;
  }

  /** MySQL has all records. */
  isShipped(mysql: SimMysql): boolean {
    for (const { instance, incarnation, changes } of this.#streams.values())
      if (mysql.shippedOf(instance, incarnation) < changes.length) return false;
    return true;
  }

  writerOf(process: Process): JournalSeams['writer'] {
    const { loop, laws, instance, writeMs, syncMs } = this.#options;
    const { incarnation, dice } = process;
    let stream: Stream | null = null;
    // Nothing overtakes.
    let lastAt = 0;
    const later = (ms: number, act: () => void) => {
      lastAt = Math.max(lastAt, loop.at + ms);
      loop.schedule(process, lastAt, 'spool', act);
    };
    const write: Spool['write'] = (changes, until) =>
      new Promise((resolve) => {
        later(dice.next() * writeMs, () => {
          stream ??= { instance, incarnation, changes: [], hasEnded: false };
          this.#streams.set(incarnation, stream);
          for (const change of changes) {
            stream.changes.push(copyOf(change));
            laws.recorded(instance, change);
          }
          loop.trace.number(changes.length);
          if (until === 'written') resolve();
        });
        if (until === 'synced') later(dice.next() * syncMs, resolve);
      });
    return {
      write,
      admits: () => true,
      rejectReason: null,
      start: async () => {},
      close: () =>
        new Promise((resolve) => {
          later(dice.next() * syncMs, () => {
            if (stream !== null) stream.hasEnded = true;
            resolve();
          });
        }),
    };
  }

  async streams(): Promise<readonly FoundStream[]> {
    return [...this.#streams.values()].map(({ instance, incarnation, changes }) => ({
      instance,
      incarnation,
      segments: [{ instance, incarnation, segment: firstSegment, bytes: changes.length, writtenAt: 0 }],
    }));
  }

  async read(
    { incarnation }: StreamName,
    from: { readonly offset: number },
    isLiving: boolean,
    limits: { readonly changes: number },
  ): Promise<StreamPart> {
    const stream = this.#streams.get(incarnation);
    if (stream === undefined) throw new Error(`the spool has no stream ${incarnation}`);
    const most = Math.min(limits.changes, readMax);
    const changes = stream.changes.slice(from.offset, from.offset + most);
    const offset = from.offset + changes.length;
    const hasMore = offset < stream.changes.length;
    const state = hasMore ? 'more' : isLiving && !stream.hasEnded ? 'waiting' : 'ended';
    return { changes, next: { segment: firstSegment, offset }, state, isTorn: false, damaged: [] };
  }

  async shippedNumber(): Promise<number> {
    return this.#shipped;
  }

  async noteShipped(number: number): Promise<void> {
    this.#shipped = number;
  }

  takeDropped = async () => false;
  forgetDropped = async () => {};
  setAsideCounts = async () => ({ late: 0, damaged: 0 });
  unreadable = async () => [];
  bytes = async () => 0;
  keepDamaged = async () => {};
  setAside = async () => {};
  clean = async () => 0;
}

const copyOf = (change: Change): Change =>
  change.kind === 'accepted' ? { ...change, body: Buffer.from(change.body) } : { ...change };
