// The records of the journal: one per change of a job, and the row of a job, which says what all its changes
// together say about it. Changes hold the outcome that the store decided, never the request.
// Invariants: rows are ordered by (version, ended, number), so changes may arrive twice, late, in any order
// and from any host; no change names the one that it replaces. mergeRows is commutative, associative and
// idempotent, because each part of a row is the maximum of its own order. All rows of one origin have the
// same pushed parts. job-upsert.ts writes the same rule as an upsert.

import { pushedExtension } from './extension.ts';
import {
  type AttemptRecord,
  type DeadReason,
  type EndState,
  endStates,
  type JobKey,
  type Priority,
  type Version,
} from './job.ts';

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
      readonly reason: DeadReason;
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
      readonly reason: DeadReason | null;
    });

export type ChangeKind = Change['kind'];

/** The instant of a number, epoch ms: numbers are µs of the storage clock, or just above. */
export const instantOf = (number: Version): number => Math.floor(number / 1_000);

/** waiting: delayed, ready or reserved. `none`: only an alert is known. */
export type RowState = 'waiting' | 'dead' | EndState | 'none';

export interface JobRow extends JobKey, Standing {
  readonly origin: Version;
  readonly dueAt: number;
  readonly reason: DeadReason | null;
  readonly place: string;
  /** the highest origin that ended: no body of it, or of an older one, is kept */
  readonly endedOrigin: Version;
  /** newest version whose alert was settled as sent or `nobody`; 0 = none */
  readonly alertTold: Version;
  /** the origin that `pushed` belongs to; 0 = no push is known */
  readonly bodyOrigin: Version;
  /** null: no push is known, or the job that was pushed has ended */
  readonly pushed: PushedParts | null;
}

/** What decides between two rows of an id. */
interface Standing {
  readonly state: RowState;
  readonly version: Version;
  readonly number: Version;
  readonly failures: number;
  /** epoch ms: the due time of a waiting job, else the time of its death or end */
  readonly orderAt: number;
}

const ended: ReadonlySet<RowState> = new Set(endStates);

export const isEnded = ({ state }: Pick<JobRow, 'state'>): boolean => ended.has(state);

/** Below 0: a is lower; 0: both are the same change. A found change has the number of its version: of several
 *  such reads the latest has the most failures, or the latest time. */
function compareStanding(a: Standing, b: Standing): number {
  return (
    a.version - b.version ||
    Number(isEnded(a)) - Number(isEnded(b)) ||
    a.number - b.number ||
    a.failures - b.failures ||
    a.orderAt - b.orderAt
  );
}

/** of a job of which only an alert is known */
const nothing = { version: 0, origin: 0, number: 0, dueAt: 0, failures: 0, place: '' } as const;

/** The row that one change makes. */
export function rowOf(change: Change): JobRow {
  const { topic, id, number, version, origin, dueAt, failures, place } = change;
  // Spreads took five times as long, and the recorder makes a row of each change.
  const row: { -readonly [Part in keyof JobRow]: JobRow[Part] } = {
    topic,
    id,
    version,
    origin,
    number,
    dueAt,
    failures,
    place,
    state: 'waiting',
    orderAt: dueAt,
    reason: null,
    endedOrigin: 0,
    alertTold: 0,
    bodyOrigin: 0,
    pushed: null,
  };
  switch (change.kind) {
    case 'accepted': {
      const { acceptedAt, priority, contentType, extension, body } = change;
      row.bodyOrigin = origin;
      // All rows of one origin are equal here, also one that was read after a snooze.
      row.pushed = { acceptedAt, priority, contentType, extension: pushedExtension(extension), body };
      return row;
    }
    case 'moved':
    case 'retried':
      return row;
    case 'dead':
      return { ...row, state: 'dead', orderAt: instantOf(number), reason: change.reason };
    case 'ended':
      row.state = change.end;
      row.orderAt = instantOf(number);
      row.endedOrigin = endedBy(change);
      return row;
    case 'restored':
      return change.deadAt === null
        ? row
        : { ...row, state: 'dead', orderAt: change.deadAt, reason: change.reason };
    case 'alert':
      return { ...row, ...nothing, state: 'none', orderAt: instantOf(version), alertTold: version };
  }
}

/** Cancel and purge end all earlier pushes of the id: their version is their number. Other ends are of one
 *  origin. */
function endedBy({ number, version, origin }: Change & { readonly kind: 'ended' }): Version {
  return version === number ? version : origin;
}

/** The rows of the jobs of these changes, by topic and id. */
export function rowsOf(changes: readonly Change[]): ReadonlyMap<string, JobRow> {
  const rows = new Map<string, JobRow>();
  for (const change of changes) {
    const name = `${change.topic}\0${change.id}`;
    const known = rows.get(name);
    rows.set(name, known === undefined ? rowOf(change) : mergeRows(known, rowOf(change)));
  }
  return rows;
}

/** The row of all changes in a and b, which are of one id. */
export function mergeRows(a: JobRow, b: JobRow): JobRow {
  const top = compareStanding(a, b) >= 0 ? a : b;
  const body = a.bodyOrigin >= b.bodyOrigin ? a : b;
  const endedOrigin = Math.max(a.endedOrigin, b.endedOrigin);
  return {
    ...top,
    endedOrigin,
    alertTold: Math.max(a.alertTold, b.alertTold),
    bodyOrigin: body.bodyOrigin,
    pushed: body.bodyOrigin > endedOrigin ? body.pushed : null,
  };
}

/** Whether the journal can put the job back; an ended row ended its own origin. When an older version
 *  of a job ended after a rollback, its origin was delivered: the job is not called again. */
export function isRestorable(row: JobRow): boolean {
  return row.origin > row.endedOrigin && row.bodyOrigin >= row.origin;
}
