// What those who compare rows with jobs have in common: their parts, and what the journal has to learn then.

import { endStates } from '../../core/job.ts';
import type { Change, JobRow } from '../../core/job-change.ts';
import type { Healing, PutOutcome } from '../../ports/healing.ts';
import type { JournalDb, RestoreCounts } from '../../ports/journal.ts';
import type { Log } from '../../telemetry/log.ts';

export interface HealingParts {
  readonly healing: Healing;
  readonly journal: JournalDb;
  readonly instance: number;
  readonly log: Log;
  /** of the journal, ms */
  readonly retentionMs: number;
  /** Reads the shard list again. */
  readonly refresh: () => Promise<void>;
  /** Writes changes to the spool. */
  readonly record: (changes: readonly Change[]) => Promise<void>;
}

export const sumOf = (a: RestoreCounts, b: RestoreCounts): RestoreCounts => ({
  done: a.done + b.done,
  put: a.put + b.put,
  removed: a.removed + b.removed,
  kept: a.kept + b.kept,
});

export function countsOf(outcomes: readonly PutOutcome[]): RestoreCounts {
  const count = (...kinds: readonly string[]) => outcomes.filter(({ kind }) => kinds.includes(kind)).length;
  return {
    // An older one is put next, and counted then.
    done: outcomes.length - count('older'),
    put: count('put'),
    removed: count('removed'),
    kept: count('kept', 'ended', 'found'),
  };
}

/** Empty: nothing. */
export function changeOf(row: JobRow, outcome: PutOutcome): readonly Change[] {
  const { topic, id, state, orderAt, reason, place } = row;
  if (outcome.kind === 'put' || outcome.kind === 'found') {
    const deadAt = state === 'dead' ? orderAt : null;
    return [{ kind: 'restored', topic, id, isOwn: true, deadAt, reason, ...outcome.change }];
  }
  if (outcome.kind === 'removed') {
    const { number } = outcome;
    const its = { version: row.version, origin: row.origin, dueAt: row.dueAt, failures: row.failures };
    const end = endStates.find((each) => each === state) ?? 'done';
    const where = { place: outcome.place };
    return [{ kind: 'ended', topic, id, isOwn: true, end, attempt: null, number, ...its, ...where }];
  }
  if (outcome.kind !== 'ended') return [];
  const { end, version, endedAt } = outcome;
  // The number of an ack is lost: the highest one of its ms is above all earlier changes of the version.
  const isOfId = end === 'cancelled' || end === 'purged';
  const number = isOfId ? version : Math.max(version, endedAt * 1_000 + 999);
  const its = { number, version, origin: row.origin, place, dueAt: row.dueAt, failures: row.failures };
  return [{ kind: 'ended', topic, id, isOwn: false, end, attempt: null, ...its }];
}

/** The work is not needed any more, another worker has it, or this process drains. */
export class WorkEnded extends Error {}

/** Resolves also when the work ends early. */
export async function unlessEnded(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof WorkEnded)) throw error;
  }
}
