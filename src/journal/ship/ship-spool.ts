// Ships the spool of a daemon that will not start again, and segments that were set aside, with the code of
// the recorder.
// Invariant: a healing may have missed these changes, so work for the restorers of other instances follows
// them. It covers all that the directory holds, shipped before or not: a run that dies is repeated.

import type { Change } from '../../core/job-change.ts';
import type { JournalDb, ShippedRange } from '../../ports/journal.ts';
import {
  type FoundStream,
  type SpooledStreams,
  type StreamPosition,
  streamStart,
} from '../../ports/spool.ts';
import { wallNow } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { journalLimits } from '../limits.ts';
import { Recorder } from './recorder.ts';

interface ShipOptions {
  readonly journal: JournalDb;
  readonly spool: SpooledStreams;
  readonly host: string;
  readonly log: Log;
  /** of the journal, ms */
  readonly retentionMs: number;
}

export interface Shipment {
  readonly streams: number;
  readonly segments: number;
  /** that MySQL did not have, or that were shipped again */
  readonly changes: number;
}

/** No process writes to the spool. Rejects with StoreError or the system's error. */
export async function shipSpool(options: ShipOptions): Promise<Shipment> {
  const { journal, spool, host, log, retentionMs } = options;
  const streams = await spool.streams();
  const ranges = new Ranges();
  for (const stream of streams) for await (const changes of changesOf(spool, stream)) ranges.take(changes);
  let shipped = 0;
  for (const instance of new Set(streams.map((stream) => stream.instance))) {
    await new Recorder({
      journal: {
        ship: async (batch) => {
          const outcome = await journal.ship(batch);
          if (outcome.kind === 'shipped') shipped += batch.changes.length;
          return outcome;
        },
        // It does not live: nothing has to wait for it.
        seen: async () => 0,
        instances: () => journal.instances(),
        positions: (of) => journal.positions(of),
        beginShipped: (ranges) => journal.beginShipped(ranges),
        raiseSince: (to) => journal.raiseSince(to),
        // The files stay: a position without them would be lost, and all would be shipped again.
        forgetStreams: async () => {},
      },
      spool,
      log,
      instance,
      host,
      retentionMs,
      spoolBytes: Number.POSITIVE_INFINITY,
      titleOf: () => null,
      onWentBack: () => {},
      // What follows covers them all.
      looker: { report: async () => new Map(), lateOf: () => [], shipped: () => {} },
    }).shipAll();
    // Healings that wait for it go on with its changes.
    await journal.giveUp(0, instance);
  }
  await ranges.announce(journal);
  return { streams: streams.length, segments: segmentsOf(streams).length, changes: shipped };
}

/** `spool`: of late/. Its segments are removed. Their stream has gone on, so its position stays. */
export async function shipLate({
  journal,
  spool,
  host,
}: Pick<ShipOptions, 'journal' | 'spool' | 'host'>): Promise<Shipment> {
  const streams = await spool.streams();
  const ranges = new Ranges();
  let shipped = 0;
  for (const stream of streams) {
    const { instance, incarnation } = stream;
    const positions = await journal.positions(instance);
    let at: StreamPosition = positions.find((one) => one.incarnation === incarnation) ?? streamStart;
    for await (const changes of changesOf(spool, stream)) {
      ranges.take(changes);
      const batch = { instance, incarnation, changes, process: '', host, marks: new Map() };
      for (;;) {
        const { segment, offset } = at;
        const here = { segment, offset };
        const outcome = await journal.ship({ ...batch, from: here, next: here });
        if (outcome.kind === 'shipped') break;
        if (outcome.kind === 'rejected') throw new Error(`MySQL rejects changes of late/: ${outcome.code}`);
        at = outcome.at;
      }
      shipped += changes.length;
    }
  }
  await ranges.announce(journal);
  const segments = segmentsOf(streams);
  await spool.clean(segments, 0, wallNow());
  return { streams: streams.length, segments: segments.length, changes: shipped };
}

const segmentsOf = (streams: readonly FoundStream[]) => streams.flatMap(({ segments }) => segments);

/** All changes of a dead stream, in batches. */
async function* changesOf(spool: SpooledStreams, stream: FoundStream): AsyncGenerator<readonly Change[]> {
  let from = streamStart;
  for (;;) {
    const { changes, next, state } = await spool.read(stream, from, false, journalLimits.journalBatch);
    if (changes.length > 0) yield changes;
    if (state !== 'more') return;
    from = next;
  }
}

/** What the shipped changes cover, by place. */
class Ranges {
  readonly #byPlace = new Map<string, ShippedRange>();

  take(changes: readonly Change[]): void {
    for (const { isOwn, place, number } of changes) {
      if (!isOwn) continue;
      const { lowest, highest } = this.#byPlace.get(place) ?? { lowest: number, highest: number };
      const range = { place, lowest: Math.min(lowest, number), highest: Math.max(highest, number) };
      this.#byPlace.set(place, range);
    }
  }

  /** Has the restorers compare them with the store. */
  announce(journal: Pick<JournalDb, 'beginShipped'>): Promise<void> {
    return journal.beginShipped([...this.#byPlace.values()]);
  }
}
