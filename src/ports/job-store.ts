// The port of the job store: six duties and their failures. test/conformance/exercise.ts defines it in
// tests; every implementation passes it unchanged.

import type { AlertOutbox } from './alert-outbox.ts';
import type { DeadLetters, History } from './dead-letters.ts';
import type { Healing } from './healing.ts';
import type { JobStore } from './jobs.ts';
import type { Arrivals } from './leaving.ts';
import type { StoreAdmin } from './store-admin.ts';
import type { Surveys } from './surveys.ts';

export type { TopicCapacity } from '../core/layered-capacities.ts';
export type * from './alert-outbox.ts';
export type * from './dead-letters.ts';
export type * from './healing.ts';
export type * from './jobs.ts';
export type * from './store-admin.ts';
export type * from './surveys.ts';

export interface Store {
  readonly jobs: JobStore;
  readonly dead: DeadLetters;
  readonly alerts: AlertOutbox;
  readonly history: History;
  readonly admin: StoreAdmin;
  readonly surveys: Surveys;
  /** a store that can lose changes which a journal has */
  readonly healing?: Healing;
  /** a store that takes the jobs of a jobs.db */
  readonly arrivals?: Arrivals;
  close(): Promise<void>;
}
