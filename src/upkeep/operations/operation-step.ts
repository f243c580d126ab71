// What the parts of an operation have in common: listed jobs, the result of a step, and which jobs an
// operation covers.

import type { JobKey } from '../../core/job.ts';
import type { OperationFailure, OperationRecord, OperationWork, StepKey } from '../../core/operation.ts';
import { reaches, reachesEveryTopic } from '../../core/token.ts';

export interface Moved {
  readonly done: number;
  readonly skipped: number;
  readonly failures: readonly OperationFailure[];
  /** whether they moved is unknown, or the store did not do it */
  readonly unsure: readonly StepKey[];
}

/** The record of an operation whose start has a time. */
export type Started = OperationRecord & { readonly startedAt: number };
export type Listed = Pick<OperationWork, 'ids' | 'cursor' | 'isListed' | 'step'>;

/** The filter that stores apply themselves. */
export function storedFilter({ filter: { topic, since, until } }: OperationRecord) {
  return {
    ...(topic === undefined ? {} : { topic }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

/** The other part of the filter, and the topics of the caller. */
export function isCovered({ topics, filter }: OperationRecord, { topic, id }: JobKey): boolean {
  const rights = { scopes: [], topics };
  const isTopic = reachesEveryTopic(rights) || reaches(rights, topic);
  return isTopic && (filter.idPrefix === undefined || id.startsWith(filter.idPrefix));
}
