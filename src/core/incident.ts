// An incident: the start or the end of a failure state of an instance, which dq alerts about.

import type { SettledAlert } from './job.ts';

export const incidentKinds = [
  'crash_loop',
  'given_up',
  'store',
  'redis',
  'late',
  'journal',
  'went_back',
] as const;

/** The start or the end of a failure state. */
export interface Incident {
  /** rises with time, never used twice in a data directory */
  readonly id: number;
  readonly kind: (typeof incidentKinds)[number];
  /** the failing part where several can fail at once: a role, a server; else '' */
  readonly about: string;
  readonly state: 'begun' | 'over';
  /** epoch ms by this machine's clock */
  readonly at: number;
  /** one sentence */
  readonly detail: string;
  readonly alert: SettledAlert;
  /** when the alert was sent; null before */
  readonly sentAt: number | null;
}

/** The incident of a daemon that the master ended because its workers did not stay alive. */
export const givenUp = { kind: 'given_up', about: '' } as const;
export const givenUpDetail = (reason: string): string => `the daemon has ended by itself: ${reason}`;

/** The failure states that have started and not ended. */
export function openIncidents(oldestFirst: readonly Incident[]): readonly Incident[] {
  const last = new Map(oldestFirst.map((incident) => [`${incident.kind} ${incident.about}`, incident]));
  return [...last.values()].filter(({ state }) => state === 'begun');
}
