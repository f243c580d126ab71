// Writes the jobs of the store to the journal: those from before the journal was switched on, and those that
// MySQL lost. Shard by shard, daily, and after MySQL went back.
// Invariant: a job found has its version as its number, so it is never above a known change. Its position
// survives its process, and a job that is written twice changes nothing.

import type { Change } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import type { WalkedJob } from '../../ports/healing.ts';
import type { Partition } from '../../ports/job-store.ts';
import { noCounts, type RestoreWork } from '../../ports/journal.ts';
import { Agent } from '../../runtime/loop.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { journalLimits } from '../limits.ts';
import type { RecorderState } from '../ship/recorder.ts';
import { type Looker, shardOf } from './looker.ts';
import { type HealingParts, unlessEnded, WorkEnded } from './put-outcomes.ts';

interface SurveyorOptions extends Omit<HealingParts, 'retentionMs' | 'refresh'> {
  readonly looker: Pick<Looker, 'notes' | 'partitions' | 'hasSeenAll'>;
  readonly recorder: () => RecorderState;
  /** limit of the spool */
  readonly spoolBytes: number;
  /** for tests: another value of journalLimits */
  readonly turnMs?: number;
}

interface Cursor {
  readonly place: string;
  /** of the walk */
  readonly at: string | null;
}

export class Surveyor extends Agent {
  readonly #options: SurveyorOptions;
  /** MySQL went back: all shards at once */
  #isForced = false;

  constructor(options: SurveyorOptions) {
    super({
      log: options.log,
      failure: 'surveyor: cannot write the jobs of the store to the journal',
      end: 'surveyor: writes the jobs of the store to the journal again',
      step: () => this.#round(),
    });
    this.#options = options;
  }

  /** Surveys all shards from the start. */
  again(): void {
    this.#isForced = true;
    this.wake();
  }

  async #round(): Promise<number> {
    const { looker, journal, instance, turnMs = journalLimits.surveyTurnMs } = this.#options;
    if (!looker.hasSeenAll) return journalLimits.lookEveryMs;
    const isForced = this.#isForced;
    for (const shard of new Set([...looker.partitions.keys()].map(shardOf)))
      await journal.beginSurvey(
        shard,
        isForced ? 0 : journalLimits.surveyEveryMs,
        journalLimits.surveyAgainMs,
      );
    if (isForced) this.#isForced = false;
    const work = await journal.claimRestore(instance, journalLimits.restoreClaimMs, 'survey');
    if (work === null) return turnMs;
    await unlessEnded(this.#survey(work));
    return 0;
  }

  async #survey(work: RestoreWork): Promise<void> {
    const { journal, healing, record, instance, log } = this.#options;
    const places = this.#placesOf(work.about);
    if (places.length === 0) {
      await journal.endRestore(work, instance, 'failed');
      return;
    }
    const { place = '', at: from = null } = JSON.parse(work.cursor ?? '{}') as Partial<Cursor>;
    const first = Math.max(
      0,
      places.findIndex(([name]) => name === place),
    );
    let { done } = work.counts;
    let savedAt = Number.NEGATIVE_INFINITY;
    /** Saves the position now and then, and waits while it must. */
    const goOn = async (cursor: Cursor): Promise<void> => {
      for (;;) {
        if (this.#mustEnd || monotonicNow() - savedAt >= journalLimits.surveySaveMs) {
          const now = { ...work, cursor: JSON.stringify(cursor), counts: { ...noCounts, done } };
          if (!(await this.#save(now)) || this.#mustEnd) throw new WorkEnded();
          savedAt = monotonicNow();
        }
        if (!this.#mustWait(work.about)) return;
        await sleep(journalLimits.restoreWaitMs);
      }
    };
    for (const [n, [name, partition]] of places.slice(first).entries()) {
      let at = n === 0 ? from : null;
      do {
        const cursor = { place: name, at };
        await goOn(cursor);
        at = await healing.walk(partition, at, async (jobs) => {
          const began = monotonicNow();
          // From before the journal: MySQL may not take a larger one.
          const some = jobs.filter(({ body }) => body.length <= limits.journalBodyBytesMax);
          await record(some.flatMap(changesOf));
          done += jobs.length;
          await sleep(within(costOf(jobs) - (monotonicNow() - began)));
          await goOn(cursor);
        });
      } while (at !== null);
    }
    const counts = { ...noCounts, done };
    if (await journal.endRestore({ ...work, counts }, instance, 'done'))
      log.notice('surveyor: all jobs of the shard are in the journal', { shard: work.about, jobs: done });
  }

  get #mustEnd(): boolean {
    return this.isDraining || this.#isForced;
  }

  /** A shard that lost changes may hold jobs that have ended; and the journal has to keep up. */
  #mustWait(shard: string): boolean {
    const { looker, recorder, spoolBytes } = this.#options;
    const state = recorder();
    if (this.#mustEnd) return false;
    return (
      looker.notes.some(({ place }) => shardOf(place) === shard) ||
      state.lagMs > journalLimits.surveyLagMs ||
      state.spoolBytes > spoolBytes / 2
    );
  }

  #placesOf(shard: string): readonly (readonly [string, Partition])[] {
    const bucketOf = (place: string) => Number(place.split(':')[1]);
    return [...this.#options.looker.partitions]
      .filter(([place]) => shardOf(place) === shard)
      .sort(([a], [b]) => bucketOf(a) - bucketOf(b));
  }

  #save(work: RestoreWork): Promise<boolean> {
    const { journal, instance } = this.#options;
    // The next worker goes on at once.
    return journal.saveRestore(work, instance, this.#mustEnd ? 0 : journalLimits.restoreClaimMs);
  }
}

/** ms that these jobs take at the limits per second */
function costOf(jobs: readonly WalkedJob[]): number {
  const bytes = jobs.reduce((sum, { body }) => sum + body.length, 0);
  const { surveyJobsPerSecond, surveyBytesPerSecond } = journalLimits;
  return 1_000 * Math.max(jobs.length / surveyJobsPerSecond, bytes / surveyBytesPerSecond);
}

export function changesOf({ death, ...job }: WalkedJob): readonly Change[] {
  const found = { ...job, number: job.version, isOwn: false };
  if (death === null) return [{ ...found, kind: 'accepted' }];
  const { topic, id, number, place, version, origin, dueAt, failures } = found;
  const key = { topic, id, number, place, version, origin, dueAt, failures, isOwn: false };
  const told: readonly Change[] = death.isTold ? [{ ...key, kind: 'alert' }] : [];
  // Of two rows with one number the later time counts: the death.
  return [
    { ...found, dueAt: Math.min(dueAt, death.at - 1), kind: 'accepted' },
    { ...key, kind: 'restored', deadAt: death.at, reason: death.reason },
    ...told,
  ];
}

const within = (ms: number): number => Math.min(Math.max(ms, 0), limits.loopSleepMsMax);
