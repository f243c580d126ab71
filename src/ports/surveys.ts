// The port of surveys: questions that examine many jobs, for people who look for some of them. Read only.
// The rules of jobs.ts hold here too.
// Invariant: a survey never delays a push by more than one step (about 1 ms): it works in bounded steps, and
// rests after each for three times its duration. One survey runs at a time, storeLimits.surveysWaitingMax
// wait; further ones reject with not_stored, code survey_busy.

import type { DeadSelection } from '../core/survey.ts';
import type { AttemptReason, BuryReason, FoundJob, JobKey, JobState } from '../core/job.ts';
import type { Page } from './jobs.ts';

/** At least one of idPrefix and body. */
export interface ScanFilter {
  /** absent: all topics */
  readonly topics?: readonly string[];
  readonly state?: JobState;
  /** its characters are the first ones of the id */
  readonly idPrefix?: string;
  /** base64 of 3 to 256 bytes that are part of the body */
  readonly body?: string;
  /** dueAt, epoch ms: since ≤ dueAt < until */
  readonly since?: number;
  readonly until?: number;
}

export interface Scan extends Page<FoundJob> {
  /** `jobs`: examined by this call · `of`: about how many the whole scan examines at most */
  readonly scanned: { readonly jobs: number; readonly of: number };
}

export interface Horizon {
  /** delayed and ready jobs, by class of core/survey.ts; ready ones are overdue */
  readonly counts: readonly number[];
  /** as in Page: parts whose jobs are not counted */
  readonly missing?: readonly string[];
}

/** Dead letters with the same topic, the same reason of their death, and the same reason and status of the
 *  last attempt since their last requeue. */
export interface DeadGroup {
  readonly topic: string;
  readonly buryReason: BuryReason;
  /** null: no attempt is stored */
  readonly lastReason: AttemptReason | null;
  readonly status: number | null;
  readonly count: number;
  /** deadAt of the oldest and of the newest, epoch ms */
  readonly firstAt: number;
  readonly lastAt: number;
  /** deaths of the last 12 hours by hour, the oldest hour first */
  readonly hours: readonly number[];
}

export interface DeadGroups {
  /** largest first */
  readonly groups: readonly DeadGroup[];
  /** dead letters in them */
  readonly examined: number;
  /** false: older dead letters, or small groups, are not included */
  readonly complete: boolean;
  readonly missing?: readonly string[];
}

export interface Surveys {
  /** Ready jobs that reserve takes before this one, of its topic, priority and partition; at most
   *  storeLimits.positionMax. null: no ready job has this key. Bounded, so it does not wait for surveys. */
  position(key: JobKey): Promise<number | null>;
  /** Live and dead jobs, in no particular order. Ends after budgetMs with what it found; a page can be empty
   *  while nextCursor is set. A store that cannot end within a step returns up to one step of jobs above
   *  `limit`. A job that is stored during the whole scan is in one of its pages, or in several. */
  scan(filter: ScanFilter, limit: number, cursor: string | null, budgetMs: number): Promise<Scan>;
  /** null: all topics. Counts of different moments: jobs that move meanwhile can be missing or twice. */
  horizon(topics: readonly string[] | null): Promise<Horizon>;
  /** Examines the newest storeLimits.groupedDeadMax dead letters of each shard that died before `until`, and
   *  groups those of the selection. */
  deadGroups(topics: readonly string[] | null, selection?: DeadSelection): Promise<DeadGroups>;
}
