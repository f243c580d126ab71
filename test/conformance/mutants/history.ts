// Mistakes with history and expiry.

import { attemptOf } from '../trial.ts';
import { change, type Mutant, mutant, mutants } from './mutant.ts';

export const historyMutants: readonly Mutant[] = [
  ...mutants({
    'history: keeps a job whose ack had no attempt': {
      'an absent attempt is invented': change(
        'ack',
        (right) => (item) => right({ ...item, attempt: item.attempt ?? attemptOf({ failures: 0 }) }),
      ),
    },
    'fsck: counts live and dead jobs, and finds no problems': {
      'fsck counts ended jobs': change('fsck', (_, m) => () => {
        const result = { jobs: m.all().length + m.ended.size, problems: [] };
        return { kind: 'done', startedAt: 0, endedAt: 0, result };
      }),
    },
    'clock: returns the storage clock, not that of the caller': {
      'clock returns the time of its caller': change('clock', () => () => Date.now()),
    },
    'expire: removes older dead letters, the oldest death first, at most max': {
      'expire ignores max': change('expire', (right) => (age) => right(age, 100)),
    },
  }),
  ...(['owed', 'claimed'] as const).map((state) =>
    mutant(
      `expire takes a dead letter whose alert is ${state}`,
      `expire: keeps a dead letter whose alert is ${state}, however old`,
      change('owes', () => () => false),
    ),
  ),
];
