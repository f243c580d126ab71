// Runs surveys in dq-store: piece by piece between the groups, with rests. Owns the queue of surveys.
// Invariant: a survey holds nothing between two pieces, so a handover or a write may come between them.

import type { FoundJob } from '../../../core/job.ts';
import { horizonEndsMs } from '../../../core/survey.ts';
import type { DeadGroups, Horizon, Scan, Surveys } from '../../../ports/job-store.ts';
import type { MethodsOf, VerbsWith } from '../../../ports/store-verbs.ts';
import { storeLimits } from '../../limits.ts';
import type { Place } from '../../pages.ts';
import { DeadGrouping, SurveyPace, SurveyQueue } from '../../surveys.ts';
import type { Engine } from '../engine/engine.ts';
import { statesOf } from '../engine/survey.ts';
import { dead, delayed, ready } from '../file/schema.ts';

type Method = MethodsOf<'surveys', VerbsWith<{ kind: 'survey' }>>;
/** A call of the socket. */
export type SurveyCall = {
  readonly [M in Method]: { readonly method: M; readonly args: Parameters<Surveys[M]> };
}[Method];

export class SurveyService {
  readonly #engine: () => Engine;
  readonly #queue = new SurveyQueue();

  /** `engine`: the open store, between transactions; throws StoreError while it is not served */
  constructor(engine: () => Engine) {
    this.#engine = engine;
  }

  /** Rejects with StoreError. */
  run(call: SurveyCall): Promise<Scan | Horizon | DeadGroups> {
    return this.#queue.run<Scan | Horizon | DeadGroups>(() => {
      if (call.method === 'scan') return this.#scan(...call.args);
      return call.method === 'horizon' ? this.#horizon(...call.args) : this.#deadGroups(...call.args);
    });
  }

  async #scan(...[filter, limit, cursor, budgetMs]: Parameters<Surveys['scan']>): Promise<Scan> {
    const pace = new SurveyPace(budgetMs);
    const items: FoundJob[] = [];
    let [jobs, nextCursor] = [0, cursor];
    for (;;) {
      const piece = this.#engine().survey.scan(filter, limit - items.length, nextCursor);
      items.push(...piece.items);
      jobs += piece.examined;
      nextCursor = piece.cursor;
      if (nextCursor === null || items.length >= limit || pace.isOver) break;
      await pace.rest();
    }
    const { survey } = this.#engine();
    // Bodies are examined whatever their job's topic and state; ids only in their topics.
    const isById = filter.idPrefix !== undefined;
    const of = survey.countOf(isById ? survey.numbersOf(filter.topics) : null, statesOf(undefined));
    return { items, nextCursor, scanned: { jobs, of } };
  }

  /** Only delayed jobs are due in the future, so the rest of the waiting ones is overdue: the tallies replace
   *  counting them. */
  async #horizon(...[topics]: Parameters<Surveys['horizon']>): Promise<Horizon> {
    const pace = new SurveyPace();
    const now = this.#engine().readClock();
    const numbers = this.#engine().survey.numbersOf(topics);
    // The engine counts up to an end without it.
    const ends = [...horizonEndsMs.map((ms) => now + ms + 1), Number.MAX_SAFE_INTEGER];
    const counts = ends.map(() => 0);
    for (const topic of numbers ?? [null])
      for (const [i, end] of ends.entries()) {
        if (i === 0) continue;
        let place: Place | null = { at: ends[i - 1] ?? 0, version: -1 };
        while (place !== null) {
          const { count, place: next } = this.#engine().survey.due(topic, place, end);
          counts[i] = (counts[i] ?? 0) + count;
          place = next;
          await pace.restOrGiveUp();
        }
      }
    const waiting = this.#engine().survey.countOf(numbers, [delayed, ready]);
    counts[0] = Math.max(0, waiting - counts.reduce((sum, count) => sum + count, 0));
    return { counts };
  }

  async #deadGroups(...[topics, selection = {}]: Parameters<Surveys['deadGroups']>): Promise<DeadGroups> {
    const pace = new SurveyPace();
    const now = this.#engine().readClock();
    const names = topics === null ? null : new Set(topics);
    const numbers = this.#engine().survey.numbersOf(topics);
    // An index of one topic, or the index of all.
    const topic = numbers?.length === 1 ? (numbers[0] ?? null) : null;
    const grouping = new DeadGrouping(selection);
    let place: Place | null = numbers?.length === 0 ? null : grouping.start;
    let seen = 0;
    for (let left: number = storeLimits.groupedDeadMax; place !== null && left > 0; ) {
      const { letters, place: next } = this.#engine().survey.deadBefore(topic, place);
      for (const letter of letters) {
        if (names !== null && !names.has(letter.topic)) continue;
        grouping.add(letter, now);
        seen += 1;
      }
      left -= letters.length;
      place = next === null || grouping.isPast(next.at) ? null : next;
      await pace.restOrGiveUp();
    }
    // Those after `until` were not seen.
    const whole = this.#engine().survey.countOf(numbers, [dead]);
    return grouping.result(place === null || seen >= whole);
  }
}
