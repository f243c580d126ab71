// Mistakes of push and promote.

import { change, type Mutant, mutants } from './mutant.ts';

export const pushMutants: readonly Mutant[] = mutants({
  'push: an item with a number that no store can keep fails alone': {
    'push stores a number that no record holds': change('push', (right, m) => (job) => {
      const isBad = !Number.isFinite(m.dueWhen(job.when));
      return right(isBad ? { ...job, when: { delayMs: 0 } } : job);
    }),
  },
  'push with a window: a job that is done stays so, in every mode': {
    'the window includes its last moment': change(
      'push',
      (right) => (pushed) => right({ ...pushed, windowMs: (pushed.windowMs ?? -1) + 1 }),
    ),
  },
  'push with a window: a job that is cancelled stays so, in every mode': {
    'a cancelled job may be pushed again': change(
      'lastEnd',
      (right) => (key) => (right(key)?.state === 'cancelled' ? null : right(key)),
    ),
  },
  'push with a window: an id that is expired is free': {
    'the removal of a dead letter counts as an end': change('lastEnd', (right) => (key) => {
      const last = right(key);
      return last?.state === 'expired' ? { ...last, state: 'dead' } : last;
    }),
  },
  'push with a window: an end further ahead of the clock than the window does not count': {
    'an end ahead of the clock is one of now': change('lastEnd', (right, model) => (key) => {
      const last = right(key);
      return last === null ? null : { ...last, endedAt: Math.min(last.endedAt, model.now()) };
    }),
  },
  'bounds: the longest delay is kept': {
    'a delay is kept in 31 bits': change(
      'push',
      (right) => (pushed) =>
        right(
          'at' in pushed.when ? pushed : { ...pushed, when: { delayMs: pushed.when.delayMs & 0x7fff_ffff } },
        ),
    ),
  },
  'promote: moves no job before it is due': {
    'promote is 1 ms late': change('promote', (right, m) => (max) => {
      const due = m.inState('delayed').some((job) => job.dueAt === m.now());
      return due ? { moved: 0, waitMs: 1 } : right(max);
    }),
  },
});
