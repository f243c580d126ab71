// Defines what the suite needs of an implementation: the port, and a dump of the whole stored state. The dump
// never uses the port, so a store cannot hide mistakes behind its own answers.

import type { EndedJob, JobKey, JobSnapshot, Owner, Priority, Token } from '../../src/core/job.ts';
import type { AlertEntry, Store } from '../../src/ports/job-store.ts';
import type { SteppedClock } from '../support/stepped-clock.ts';

/** A stored job with all its fields. */
export interface DumpedJob extends JobSnapshot {
  readonly priority: Priority;
  readonly lease: { readonly token: Token; readonly owner: Owner; readonly untilMs: number } | null;
}

export interface StateDump {
  /** by topic, then id, in code-unit order */
  readonly jobs: readonly DumpedJob[];
  /** by version */
  readonly alerts: readonly AlertEntry[];
  /** by topic, then id */
  readonly ended: readonly EndedJob[];
}

export interface StoreUnderTest {
  readonly store: Store;
  /** the storage clock; absent: a real one, which no case can move */
  readonly clock?: SteppedClock | undefined;
  dump(): Promise<StateDump>;
  /** Closes the store and removes its data. */
  close(): Promise<void>;
}

/** An empty store for one case, on a stepped clock. */
export type OpenStore = () => Promise<StoreUnderTest>;

export function inDumpOrder(
  jobs: readonly DumpedJob[],
  alerts: readonly AlertEntry[],
  ended: readonly EndedJob[],
): StateDump {
  const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
  const byKey = (a: JobKey, b: JobKey) => compare(a.topic, b.topic) || compare(a.id, b.id);
  return {
    jobs: [...jobs].sort(byKey),
    ended: [...ended].sort(byKey),
    alerts: [...alerts].sort((a, b) => a.version - b.version),
  };
}
