// Splits pushes into calls of bounded size, and bulk work into steps. Keeps items that cannot be encoded
// away from the others of a call.

import type { Moment } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import type { AckItem, DeadFilter } from '../ports/job-store.ts';
import type { StoreFailure } from '../ports/store-error.ts';

/** Of an item that cannot be encoded: a number is out of bounds, which the intake should have rejected. */
const badItem: StoreFailure = { kind: 'not_stored', code: 'bad_item' };

/** Sends a call with the items that can be encoded. The others fail alone: a call holds items of many
 *  callers. `send` encodes all its items before it sends anything, so it may be repeated without the bad
 *  ones. */
export async function withoutBadItems<I, O>(
  items: readonly I[],
  encode: (item: I) => unknown,
  send: (items: readonly I[]) => Promise<readonly O[]>,
): Promise<readonly (O | StoreFailure)[]> {
  try {
    return await send(items);
  } catch (error) {
    const bad = new Set(items.filter((item) => !succeeds(() => encode(item))));
    if (bad.size === 0) throw error;
    const good = items.filter((item) => !bad.has(item));
    const answers = good.length === 0 ? [] : await send(good);
    return items.map((item) => (bad.has(item) ? badItem : (answers[good.indexOf(item)] as O)));
  }
}

function succeeds(act: () => unknown): boolean {
  try {
    act();
    return true;
  } catch {
    return false; // the caller reports the item
  }
}

/** The filter of one step of bulk work in one partition. */
export interface StepFilter extends Omit<DeadFilter, 'before'> {
  /** Deaths draw a number: only lower ones match. In later steps of a call without
   *  such a bound it is the next number at its first step. */
  readonly below?: number | undefined;
}

/** The number of a partition in a moment; undefined: every number is lower. */
export function numberOf(moment: Moment | undefined, partition: string): number | undefined {
  return moment === undefined ? undefined : (moment[partition] ?? 0);
}

/** The step of a filter in one partition. */
export function stepOf({ before, ...filter }: DeadFilter, partition: string): StepFilter {
  return before === undefined ? filter : { ...filter, below: numberOf(before, partition) };
}

/** Bounded in items and in bytes of their bodies; a larger item gets its own batch. */
export function batchesBySize<T>(
  items: readonly T[],
  bytesOf: (item: T) => number,
  most: number = limits.pushBatchMax,
): readonly (readonly T[])[] {
  const batches: T[][] = [];
  let bytes = Infinity;
  for (const item of items) {
    bytes += bytesOf(item);
    const last = batches.at(-1);
    if (last !== undefined && last.length < most && bytes <= limits.pushBatchBytesMax) last.push(item);
    else {
      batches.push([item]);
      bytes = bytesOf(item);
    }
  }
  return batches;
}

export const pushBatches = <J extends { readonly body: Buffer }>(
  jobs: readonly J[],
): readonly (readonly J[])[] => batchesBySize(jobs, ({ body }) => body.length);

/** Of acks and buries, whose outcome jobs have bodies. */
export const endBatches = <I extends Pick<AckItem, 'outcome'>>(
  items: readonly I[],
  most: number = limits.finishBatchMax,
): readonly (readonly I[])[] =>
  batchesBySize(items, ({ outcome }) => (outcome === undefined ? 0 : outcome.job.body.length), most);
