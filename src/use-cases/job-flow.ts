// Builds the flow of a job: all that happened to its id, oldest first. The journal knows the changes; the
// store knows the newest ones before the journal has them, and, without a journal, all that is known.

import {
  type AttemptRecord,
  attemptsBeforeRequeue,
  type EndedJob,
  type FlowEvent,
  type JobSnapshot,
  lastAttemptOf,
  type Version,
} from '../core/job.ts';
import { instantOf, type JobRow } from '../core/job-change.ts';
import type { LoggedChange } from '../ports/journal.ts';

export interface FlowEntry {
  /** epoch ms */
  readonly at: number;
  /** null: unknown */
  readonly version: Version | null;
  readonly event: FlowEvent;
  /** after the change, epoch ms; null: unknown */
  readonly dueAt: number | null;
  /** what made the change, and where; null: unknown */
  readonly process: string | null;
  readonly host: string | null;
  /** `<shard id>:<bucket>`; null: unknown */
  readonly place: string | null;
  readonly attempt: AttemptRecord | null;
}

/** ms: the journal and the store may name instants of one change that differ by so much */
const sameMs = 1_000;
const unknown = { dueAt: null, process: null, host: null, place: null, attempt: null };

/** `job`: live, dead or ended, as the store has it; `row`: of the journal, used when there is nothing
 *  else. */
export function jobFlow(
  logged: readonly LoggedChange[],
  job: JobSnapshot | EndedJob | null,
  row: JobRow | null,
): readonly FlowEntry[] {
  const known = logged.map(loggedEntry);
  const own = job === null ? [] : storedEntries(job);
  const missing = own.filter((entry) => !known.some((other) => isSame(entry, other)));
  const all = [...known, ...missing];
  return (all.length === 0 && row !== null ? rowEntries(row) : all).sort((a, b) => a.at - b.at);
}

function loggedEntry({ number, attempt, ...change }: LoggedChange): FlowEntry {
  const parsed = attempt === null ? null : (JSON.parse(attempt) as AttemptRecord);
  const { version, event, dueAt, process, host, place } = change;
  return {
    at: instantOf(number),
    version,
    event,
    dueAt,
    host,
    place,
    attempt: parsed,
    process: process === '' ? null : process,
  };
}

function isSame(a: FlowEntry, b: FlowEntry): boolean {
  if (a.attempt !== null && b.attempt !== null)
    return a.attempt.startedAt === b.attempt.startedAt && a.attempt.attempt === b.attempt.attempt;
  return a.event === b.event && Math.abs(a.at - b.at) <= sameMs;
}

/** What a store says about a job: its push, its attempts and its end. */
function storedEntries(job: JobSnapshot | EndedJob): FlowEntry[] {
  const { origin, acceptedAt, attempts, failures } = job;
  const earlier = attemptsBeforeRequeue(attempts, failures);
  // Attempts before the last run, reschedule or requeue had another version.
  const version = job.version === origin ? origin : null;
  const entries: FlowEntry[] = [{ ...unknown, at: acceptedAt, version: origin, event: 'accepted' }];
  for (const [n, attempt] of attempts.entries()) {
    const { notifier: process, host, startedAt, durationMs, nextDelayMs } = attempt;
    const at = startedAt + Math.round(durationMs);
    // A job is requeued after its death: by an attempt that none was to follow, or by another cause.
    const event = n === earlier - 1 && nextDelayMs === undefined ? 'dead' : 'retried';
    entries.push({ ...unknown, at, version, event, process, host, attempt });
  }
  const end = endOf(job);
  if (end === null) return entries;
  const last = entries.at(-1);
  const isEnding =
    end.event === 'dead'
      ? lastAttemptOf(job)?.outcome === 'failed' && end.reason !== 'poison'
      : last?.attempt?.outcome === 'delivered';
  const ending = { at: end.at, version: job.version, event: end.event, dueAt: job.dueAt };
  if (isEnding && last !== undefined) entries.splice(-1, 1, { ...last, ...ending });
  else entries.push({ ...unknown, ...ending });
  return entries;
}

function endOf(job: JobSnapshot | EndedJob) {
  if ('endedAt' in job) return { at: job.endedAt, event: job.state, reason: null };
  return job.deadAt === null ? null : { at: job.deadAt, event: 'dead' as const, reason: job.deadReason };
}

/** The log of an old job may be removed, and its row is kept. */
function rowEntries(row: JobRow): FlowEntry[] {
  const { version, origin, state, dueAt, orderAt, place, pushed } = row;
  const entries: FlowEntry[] = [];
  if (pushed !== null)
    entries.push({ ...unknown, at: pushed.acceptedAt, version: origin, event: 'accepted', place });
  if (state !== 'waiting' && state !== 'none')
    entries.push({ ...unknown, at: orderAt, version, event: state, dueAt, place });
  return entries;
}
