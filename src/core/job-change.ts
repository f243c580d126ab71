// The records of the journal: one per change of a job. They hold the outcome that the store decided, never
// the request.
// Invariant: rows are ordered by (version, ended, number), so they may arrive twice, late, in any order and
// from any host; no record names the one that it replaces.

import type { AttemptRecord, BuryReason, EndState, JobKey, Priority, Version } from './job.ts';

/** What a store knows about a job that it changed. */
export interface Changed {
  /** Drawn for this change from the counter of versions (core/job.ts); the number of a push is its version.
   *  Numbers rise over all changes of a bucket. */
  readonly number: Version;
  /** Where the job is stored: `<shard id>:<bucket>`; '' in the embedded store. */
  readonly place: string;
  /** of the job after the change; of an ended job its last one */
  readonly version: Version;
  readonly origin: Version;
  /** epoch ms by the storage clock */
  readonly dueAt: number;
  /** failed attempts after the change */
  readonly failures: number;
}

/** A job of a call, and its change. */
export type ChangedJob = JobKey & Changed;

/** The part of a job that a push or an edit brings, and that no later version of its origin alters. */
export interface PushedParts {
  /** epoch ms */
  readonly acceptedAt: number;
  readonly priority: Priority;
  readonly contentType: string | null;
  /** options of the job (core/extension.ts); null without one */
  readonly extension: Buffer | null;
  readonly body: Buffer;
}

interface Common extends ChangedJob {
  /** Whether the store drew the number for this process in this call. Others were found: of a push that kept
   *  the live job, or of a survey. */
  readonly isOwn: boolean;
}

export type Change =
  | (Common & PushedParts & { readonly kind: 'accepted' })
  /** run, reschedule, requeue: a new version of the same origin */
  | (Common & { readonly kind: 'moved'; readonly by: 'run' | 'reschedule' | 'requeue' })
  /** attempt null: none counts */
  | (Common & { readonly kind: 'retried'; readonly attempt: AttemptRecord | null })
  /** number / 1000 is the time of death (ms) */
  | (Common & {
      readonly kind: 'dead';
      readonly reason: BuryReason;
      /** null: poison, or left out because the spool is nearly full */
      readonly attempt: AttemptRecord | null;
    })
  /** Cancel (also as done) and purge refer to the id, whatever its version: their version is their number. */
  | (Common & { readonly kind: 'ended'; readonly end: EndState; readonly attempt: AttemptRecord | null })
  /** The alert of this version was settled as sent or `nobody`. Not a change of the job: number = version. */
  | (Common & { readonly kind: 'alert' })
  /** put back from the journal; waiting: deadAt and reason are null */
  | (Common & {
      readonly kind: 'restored';
      readonly deadAt: number | null;
      readonly reason: BuryReason | null;
    });

export type ChangeKind = Change['kind'];

/** The instant of a number, epoch ms: numbers are µs of the storage clock, or just above. */
export const instantOf = (number: Version): number => Math.floor(number / 1_000);
