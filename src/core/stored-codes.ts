// The numbers that both stores and the journal keep for words: a code is the index in its list. They are
// stored, so lists only grow at their end.

import type { BuryReason, EndState, JobState, Priority } from './job.ts';

export const stateCodes: readonly JobState[] = ['delayed', 'ready', 'reserved', 'dead'];
export const priorityCodes: readonly Priority[] = ['high', 'normal', 'low'];
export const reasonCodes: readonly BuryReason[] = [
  'attempts_exhausted',
  'gone',
  'no_retry',
  'poison',
  'nacked',
  'expired',
];
export const endCodes: readonly EndState[] = ['done', 'cancelled', 'purged', 'expired'];
export const alertCodes = ['owed', 'claimed', 'sent', 'nobody'] as const;
