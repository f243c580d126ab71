// The port of alerts: one entry per buried job, mailed by dq-upkeep. The rules of jobs.ts hold here too.

import type { AlertState, AttemptRecord, BuryReason, JobKey, SettledAlert, Version } from '../core/job.ts';
import type { Page } from './jobs.ts';

/** An entry is removed with its dead letter, but not before its alert is sent or has no recipient. */
export interface AlertEntry extends JobKey {
  readonly version: Version;
  readonly deadAt: number;
  readonly reason: BuryReason;
  /** of the buried job */
  readonly failures: number;
  /** the last one since the last requeue; null without one */
  readonly attempt: AttemptRecord | null;
  /** claimed: only until the claim expires */
  readonly state: AlertState;
}

export interface AlertPage extends Page<AlertEntry> {
  /** all entries; absent from a store of the previous generation */
  readonly total?: number;
}

export interface AlertOutbox {
  /** Topics with an owed entry and no mail within windowMs, longest wait first. */
  due(windowMs: number): Promise<readonly string[]>;
  /** Claims owed entries of the topic, oldest first, for claimMs: no other caller gets them, then they are
   *  owed again. Ignores the window, because a mailer that sends in parts claims in parts. */
  claim(topic: string, claimMs: number, max: number): Promise<readonly AlertEntry[]>;
  /** Settles entries by version; removes those whose dead letter is gone. `owed` ends a claim at once. An
   *  entry in state sent or `nobody` stays so: a late call of another mailer does not make it owed again.
   *  `sent` also begins the window of the topics; the topic stores it, because an entry goes with its dead
   *  letter. */
  settle(versions: readonly Version[], as: SettledAlert): Promise<void>;
  /** State of the entry of this version of a job; null: it has none. */
  stateOf(job: JobKey & { readonly version: Version }): Promise<AlertEntry['state'] | null>;
  /** Newest death first. */
  list(limit: number, cursor: string | null): Promise<AlertPage>;
}
