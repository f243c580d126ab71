// The one sentence about the failures that acknowledged jobs survive, for start, status, /readyz, doctor and
// the console. The store has a sentence of its own. A journal outdoes it: jobs that Redis loses come back.

export type JournalMode = 'off' | 'sync';

export const durabilityWithJournal =
  'Redis with a journal: survives kill -9 and a power cut of dq and Redis, and the loss of all data in Redis';

/** `ofStore`: the store's own sentence, which counts without a journal */
export const durabilityOf = (ofStore: string, journal: JournalMode): string =>
  journal === 'off' ? ofStore : durabilityWithJournal;
