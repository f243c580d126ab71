// Records of operations: bulk work on jobs that dq does on the server. An operation is a row of the registry,
// so that it survives its process, a reload and a closed browser. Plain JSON, because it passes the socket of
// the embedded registry.

import type { JobState, Moment, Version } from './job.ts';
import type { DeadMarks } from './survey.ts';

/** requeue, purge: dead letters · cancel: live jobs · run: delayed jobs · reschedule: delayed or ready
 *  jobs · clear: jobs in any state · restore: jobs that the journal has and the store lacks */
export const operationKinds = [
  'requeue',
  'purge',
  'cancel',
  'run',
  'reschedule',
  'clear',
  'restore',
] as const;
export type OperationKind = (typeof operationKinds)[number];

/** What a restore does with jobs whose due time has passed. fire: they are due at once · spread: within
 *  limits.restoreSpreadMs, at random · skip: they end as purged */
export const overdueChoices = ['fire', 'spread', 'skip'] as const;
export type OverdueChoice = (typeof overdueChoices)[number];

/** stopped: by an operator · failed: by a defect; moved jobs stay moved */
export const operationStates = ['not_started', 'running', 'stopped', 'finished', 'failed'] as const;
type OperationState = (typeof operationStates)[number];

/** All members that are present must match. */
export interface OperationFilter extends DeadMarks {
  readonly topic?: string;
  /** number of ids that were named; the ids are in OperationWork */
  readonly idCount?: number;
  readonly idPrefix?: string;
  /** cancel: any live state · reschedule: delayed (default) or ready */
  readonly state?: JobState;
  /** epoch ms, since ≤ time < until: of death for requeue and purge, else the due time */
  readonly since?: number;
  readonly until?: number;
}

const filterMembers: Readonly<Record<keyof OperationFilter, true>> = {
  topic: true,
  idCount: true,
  idPrefix: true,
  state: true,
  since: true,
  until: true,
  deadReason: true,
  lastReason: true,
  status: true,
};

/** A member that another build has stored: without it the filter would match more jobs. undefined: none. */
export const unknownMember = (filter: OperationFilter): string | undefined =>
  Object.keys(filter).find((name) => !Object.hasOwn(filterMembers, name));

export interface OperationFailure {
  readonly topic: string;
  readonly id: string;
  /** a code */
  readonly error: string;
}

/** What readers see. Times are epoch ms of the storage clock. */
export interface OperationRecord {
  readonly id: string;
  readonly kind: OperationKind;
  readonly filter: OperationFilter;
  /** globs of the caller: jobs of other topics do not match */
  readonly topics: readonly string[];
  /** the jobs are moved evenly over this time (ms); null: at once */
  readonly spreadMs: number | null;
  /** jobs per second; null: no limit of its own */
  readonly rate: number | null;
  /** reschedule: the new due time */
  readonly at: number | null;
  /** of a restore */
  readonly overdue?: OverdueChoice;
  /** only counts */
  readonly dryRun: boolean;
  /** for people: name of the token or session */
  readonly actor: string;
  readonly state: OperationState;
  readonly createdAt: number;
  /** The request: jobs that died, or got their version, later do not match. So a job that dies again is not
   *  requeued in a loop. No time tells that: numbers run ahead of a clock that was set back. Empty for a
   *  restore, whose jobs are not in the store. */
  readonly moment: Moment;
  /** the storage clock when its work began */
  readonly startedAt: number | null;
  /** when the first job could be moved: the start, or the end of the count before it */
  readonly movingAt: number | null;
  readonly updatedAt: number;
  readonly endedAt: number | null;
  /** null: counted on the way. In the end done + skipped + failed. */
  readonly matched: number | null;
  readonly done: number;
  /** matched, then moved by others */
  readonly skipped: number;
  readonly failed: number;
  /** the first limits.operationFailuresKept */
  readonly failures: readonly OperationFailure[];
  /** why the work waits, or failed; null: it does not */
  readonly problem: string | null;
}

export type StepKey = readonly [topic: string, id: string, version: Version];

/** What its process needs to go on. */
export interface OperationWork {
  /** named ids that were not listed yet; null: the filter names none */
  readonly ids: readonly string[] | null;
  /** of named ids: a job with another version does not match; absent: every version matches */
  readonly versions?: Readonly<Record<string, Version>>;
  /** of the list of matching jobs; null: its start */
  readonly cursor: string | null;
  /** the last page was listed */
  readonly isListed: boolean;
  /** counts first, moves later */
  readonly isCounting: boolean;
  /** Listed jobs without a stored result. They are stored before the first of them is moved: a successor
   *  finds the moved ones by their versions. */
  readonly step: readonly StepKey[];
}

/** The right to work on an operation, for a limited time. */
export interface OperationLease {
  readonly record: OperationRecord;
  readonly work: OperationWork;
  /** rises with each claim; a write with an older one changes nothing */
  readonly token: number;
  /** its process released it: every result of its work is stored */
  readonly wasReleased: boolean;
}

export interface OperationCheckpoint {
  readonly record: OperationRecord;
  readonly work: OperationWork;
  /** end of the lease, epoch ms; null: releases it */
  readonly leaseUntil: number | null;
  /** no process has to work on it again */
  readonly isClosed: boolean;
}

export function isOpen({ state }: Pick<OperationRecord, 'state'>): boolean {
  return state === 'not_started' || state === 'running';
}

/** matched jobs with a result */
export function processedOf({ done, skipped, failed }: OperationRecord): number {
  return done + skipped + failed;
}
