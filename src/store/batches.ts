// Splits long lists of items into calls of bounded size, in order.

import { limits } from '../core/limits.ts';
import type { DeadFilter, PushJob } from '../ports/job-store.ts';

export function inBatches<T>(items: readonly T[], max: number): readonly (readonly T[])[] {
  const batches: (readonly T[])[] = [];
  for (let at = 0; at < items.length; at += max) batches.push(items.slice(at, at + max));
  return batches;
}

/** The filter of one step of bulk work. */
export interface StepFilter extends DeadFilter {
  /** the last version drawn before the first step of the call; absent in that step */
  readonly versionMax?: number | undefined;
}

/** Bounded in items and in bytes of their bodies; a larger item gets its own batch. */
export function batchesBySize<T>(
  items: readonly T[],
  bytesOf: (item: T) => number,
): readonly (readonly T[])[] {
  const batches: T[][] = [];
  let bytes = Infinity;
  for (const item of items) {
    bytes += bytesOf(item);
    const last = batches.at(-1);
    if (last !== undefined && last.length < limits.pushBatchMax && bytes <= limits.pushBatchBytesMax)
      last.push(item);
    else {
      batches.push([item]);
      bytes = bytesOf(item);
    }
  }
  return batches;
}

export const pushBatches = (jobs: readonly PushJob[]): readonly (readonly PushJob[])[] =>
  batchesBySize(jobs, ({ body }) => body.length);
