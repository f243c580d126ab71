// Calls with items: sends each item to the places of its route, in bounded batches, and returns the outcomes
// in order. A failed batch is the failure of each of its items, and of no others. Also bulk work in bounded
// steps.

import type { JobKey } from '../../../core/job.ts';
import { inBatches } from '../../../core/lists.ts';
import type { OnChanged, Partition } from '../../../ports/job-store.ts';
import { isFailure, StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import { withoutBadItems } from '../../batches.ts';
import { redisLimits } from '../limits.ts';
import type { ScriptName } from '../scripts/scripts.ts';
import { type Arg, placingsMax, type Route, type Shards } from '../shard/shards.ts';
import { numberIn, readChangedJobs } from './changes.ts';

/** An item at one place of its route. */
export interface Placed<I> {
  readonly item: I;
  /** Only an existing job is changed: in an earlier place, and in each after one that has the last end. */
  readonly isEarlier: boolean;
  /** above every version that the job may have had in earlier places; 0 = no earlier place was visited */
  readonly above: number;
}

interface ItemCall<I, O extends object> {
  readonly script: ScriptName;
  /** of a batch; `place`: as Shards.placeOf */
  args(items: readonly Placed<I>[], place: string | null, partition: Partition): readonly Arg[];
  /** The outcomes of a batch. `above`: the job is not here; its versions here never exceeded that number.
   *  `place`: as Shards.placeOf. */
  read(
    reply: unknown,
    items: readonly I[],
    place: string | null,
  ): readonly (O | { readonly above: number })[];
  /** whether this outcome means that the job is not in this place */
  isElsewhere?(outcome: O): boolean;
  /** whether an outcome of isElsewhere counts nevertheless if no later place has the job */
  isFallback?(outcome: O): boolean;
  /** whether this outcome counts only if no later place has a live job */
  isOfNoLiveJob?(outcome: O): boolean;
  readonly batches?: (items: readonly I[]) => readonly (readonly I[])[];
  /** Called with an outcome while other items of the call are pending; never with a failure, which may still
   *  change. */
  readonly onEarly?: ((at: number, outcome: O) => void) | undefined;
  /** by the shard list when absent */
  readonly routeOf?: (item: I) => Route;
}

interface Visit<I, O extends object> extends Placed<I> {
  /** index in the call */
  readonly at: number;
  readonly route: Route;
  /** index of the place in the route: the earlier ones, then home */
  readonly step: number;
  /** failure, fallback or last end of an earlier place: the outcome if no other place has the job */
  readonly otherwise: O | StoreFailure | null;
}

export async function callItems<I extends JobKey, O extends object>(
  shards: Shards,
  items: readonly I[],
  call: ItemCall<I, O>,
): Promise<readonly (O | StoreFailure)[]> {
  const { whyUnknown } = shards;
  if (whyUnknown !== null) return items.map(() => whyUnknown);
  const outcomes = new Array<O | StoreFailure>(items.length);
  const routeOf = call.routeOf ?? ((item: I) => shards.routeOf(item));
  let open = items.map((item, at) => ({ item, at }));
  for (let attempt = 1; open.length > 0; attempt += 1) {
    const visits = open.map(({ item, at }) => {
      const route = routeOf(item);
      return { item, at, route, step: 0, isEarlier: route.earlier.length > 0, above: 0, otherwise: null };
    });
    await visitAll(shards, visits, call, outcomes);
    open = open.filter(({ at }) => isStaleOutcome(outcomes[at]));
    if (open.length === 0 || attempt === placingsMax) break;
    try {
      await shards.refresh();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      break; // their outcomes are stale_list: not applied
    }
  }
  return outcomes;
}

/** Sends the items of each place together; items that are not there go on to their next place. Fills in the
 *  outcomes. */
async function visitAll<I, O extends object>(
  shards: Shards,
  visits: readonly Visit<I, O>[],
  call: ItemCall<I, O>,
  outcomes: (O | StoreFailure)[],
): Promise<void> {
  const groups = new Map<Partition, Visit<I, O>[]>();
  for (const visit of visits) {
    const partition = placeOf(visit);
    if (partition === null) outcomes[visit.at] = noActiveShard;
    else if (groups.has(partition)) groups.get(partition)?.push(visit);
    else groups.set(partition, [visit]);
  }
  const sent = [...groups].flatMap(([partition, group]) =>
    batchesOf(group, call).map(async (batch) => {
      const onward: Visit<I, O>[] = [];
      const answers = await answersOf(shards, partition, batch, call);
      for (const [i, visit] of batch.entries()) {
        const answer = answers[i] as O | StoreFailure | { readonly above: number };
        const next = nextVisit(visit, answer, call);
        if (next === null) {
          outcomes[visit.at] = answer as O | StoreFailure;
          if (groups.size > 1 && !isFailure(answer)) call.onEarly?.(visit.at, answer as O);
        } else if (isVisit(next)) onward.push(next);
        else outcomes[visit.at] = next;
      }
      if (onward.length > 0) await visitAll(shards, onward, call, outcomes);
    }),
  );
  await Promise.all(sent);
}

/** Decides after a place's answer. null: the answer is the outcome. An outcome: that one. Else the next
 *  visit. */
function nextVisit<I, O extends object>(
  visit: Visit<I, O>,
  answer: O | StoreFailure | { readonly above: number },
  call: ItemCall<I, O>,
): Visit<I, O> | O | StoreFailure | null {
  const { route, step } = visit;
  const isLast = step === route.earlier.length || (step + 1 === route.earlier.length && route.home === null);
  const above = aboveOf(answer);
  // A push goes on to its home, which stores the job; without a home, visitAll rejects it with
  // no_active_shard.
  if (above !== null) {
    const next = { ...further(visit), above: Math.max(visit.above, above) };
    if (visit.otherwise === null) return next;
    return isLast ? visit.otherwise : { ...next, isEarlier: true };
  }
  if (!isLast && !isFailure(answer) && call.isOfNoLiveJob?.(answer as O) === true)
    return { ...further(visit), isEarlier: true, otherwise: answer as O };
  if (call.isElsewhere === undefined) return null;
  if (isFailure(answer)) {
    if (isStaleOutcome(answer)) return null;
    if (isLast) return visit.otherwise;
    return { ...further(visit), otherwise: visit.otherwise ?? answer };
  }
  const outcome = answer as O;
  if (!call.isElsewhere(outcome)) return null;
  const otherwise = visit.otherwise ?? (call.isFallback?.(outcome) === true ? outcome : null);
  return isLast ? otherwise : { ...further(visit), otherwise };
}

const isVisit = <I, O extends object>(next: Visit<I, O> | O | StoreFailure): next is Visit<I, O> =>
  'route' in next;

function further<I, O extends object>(visit: Visit<I, O>): Visit<I, O> {
  const step = visit.step + 1;
  return { ...visit, step, isEarlier: step < visit.route.earlier.length };
}

function placeOf<I, O extends object>({ route, step }: Visit<I, O>): Partition | null {
  return route.earlier[step] ?? route.home;
}

export const noActiveShard: StoreFailure = {
  kind: 'not_stored',
  code: 'no_active_shard',
  why: 'every shard drains, and a draining shard takes no new ids; end a drain or add a shard with `dq shard add`',
};

const aboveOf = (answer: object): number | null => ('above' in answer ? Number(answer.above) : null);

const isStaleOutcome = (outcome: object | undefined): boolean =>
  outcome !== undefined && isFailure(outcome) && outcome.code === 'stale_list';

/** Arguments of all items in turn, where none depends on the place. */
export const ofEach =
  <I>(argsOf: (item: I) => readonly Arg[]) =>
  (batch: readonly Placed<I>[]): readonly Arg[] =>
    batch.flatMap(({ item }) => argsOf(item));

const bySize = <T>(items: readonly T[]) => inBatches(items, redisLimits.batchMax);

/** In order. All visits of a group have the same list: it is sent once with the call. */
function batchesOf<I, O extends object>(
  visits: readonly Visit<I, O>[],
  { batches = bySize }: ItemCall<I, O>,
): readonly (readonly Visit<I, O>[])[] {
  let at = 0;
  return batches(visits.map(({ item }) => item)).map((batch) => {
    at += batch.length;
    return visits.slice(at - batch.length, at);
  });
}

async function answersOf<I, O extends object>(
  shards: Shards,
  partition: Partition,
  batch: readonly Visit<I, O>[],
  call: ItemCall<I, O>,
): Promise<readonly (O | StoreFailure | { readonly above: number })[]> {
  try {
    const place = shards.placeOf(partition);
    return await withoutBadItems(
      batch,
      (visit) => call.args([visit], place, partition),
      async (visits) => {
        const args = call.args(visits, place, partition);
        const reply = await shards.run(call.script, partition, args, visits[0]?.route.list);
        const items = visits.map(({ item }) => item);
        const outcomes = call.read(reply, items, place);
        if (place !== null) shards.received(partition, Math.max(0, ...outcomes.map(numberIn)));
        return outcomes;
      },
    );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return batch.map(() => error.failure);
  }
}

/** What a step of bulk work did; more: 0 or 1. */
export type DoneReply = readonly [done: number, more: number, ...rest: readonly unknown[]];

/** Runs one step of a script whose reply ends with the changed jobs, and reports these where changes are
 *  named for a journal. */
export async function bulkStep<R extends DoneReply>(
  shards: Shards,
  script: ScriptName,
  partition: Partition,
  args: readonly Arg[],
  onChanged: OnChanged | undefined,
): Promise<R> {
  const reply = (await shards.run(script, partition, args)) as readonly [...R, changed: readonly Buffer[]];
  const changed = reply.at(-1) as readonly Buffer[];
  const place = shards.placeOf(partition);
  if (place !== null && changed.length > 0) {
    const jobs = readChangedJobs(changed, place);
    shards.received(partition, Math.max(...jobs.map(({ number }) => number)));
    await onChanged?.(jobs);
  }
  return reply as unknown as R;
}

/** Runs one bounded step after the other, place by place, until `max` jobs are done or none is left. A place
 *  that fails does not stop the others; then the call rejects, with kind unknown if some jobs are done. */
export async function inSteps<P>(
  places: readonly P[],
  max: number,
  step: (place: P, max: number) => Promise<DoneReply>,
): Promise<{ readonly done: number; readonly more: boolean }> {
  let total = 0;
  let failed: StoreError | null = null;
  for (const place of places) {
    for (let more = true; more; ) {
      try {
        const [done, left] = await step(place, Math.min(max - total, redisLimits.stepMax));
        total += done;
        more = left > 0;
        if (more && total >= max) return { done: total, more: true };
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        failed ??= error;
        more = false;
      }
    }
  }
  if (failed !== null && total > 0)
    throw new StoreError({ kind: 'unknown', code: failed.failure.code }, { cause: failed });
  if (failed !== null) throw failed;
  return { done: total, more: false };
}
