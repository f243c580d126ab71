// Mistakes with history and expiry.

import { attemptOf } from '../trial.ts';
import { change, type Mutant, mutant } from './mutant.ts';

const atOnce = 'history: keeps a job delivered at once with its attempt, without body';
const forgets = 'forget: removes older entries, the oldest end first, at most max';
const expires = 'expire: removes older dead letters, the oldest death first, at most max';
const ahead = 'expire and forget: a clock of the caller 400 days off has no effect';
const behind = 'expire and forget: a clock of the caller -400 days off has no effect';

export const historyMutants: readonly Mutant[] = [
  mutant('an ended job leaves no entry', atOnce, (m) => change(m, 'end', () => (job) => m.remove(job))),
  mutant(
    'the successful attempt is not kept',
    'history: keeps failed and successful attempts of a delivered job',
    (m) =>
      change(m, 'ack', (right) => (item) => {
        const job = m.leased(item);
        const attempts = job?.attempts ?? [];
        const outcome = right(item);
        const entry = m.ended.get(m.nameOf(item));
        if (job !== null && entry !== undefined) m.ended.set(m.nameOf(item), { ...entry, attempts });
        return outcome;
      }),
  ),
  mutant('the only attempt is not kept', atOnce, (m) =>
    change(m, 'ack', (right) => (item) => {
      const isOnly = m.leased(item)?.failures === 0;
      return right(isOnly ? { ...item, attempt: null } : item);
    }),
  ),
  mutant('an absent attempt is invented', 'history: keeps a job whose ack had no attempt', (m) =>
    change(
      m,
      'ack',
      (right) => (item) => right({ ...item, attempt: item.attempt ?? attemptOf({ failures: 0 }) }),
    ),
  ),
  mutant(
    'a push takes over the attempts of an ended job',
    'history: a push after a delivery at once starts without attempts',
    (m) =>
      change(m, 'push', (right) => (job) => {
        const entry = m.ended.get(m.nameOf(job));
        const outcome = right(job);
        const fresh = m.jobs.get(m.nameOf(job));
        if (entry !== undefined && fresh !== undefined) fresh.attempts = entry.attempts;
        return outcome;
      }),
  ),
  ...(['cancelled', 'purged'] as const).map((state) =>
    mutant(
      `${state} jobs are kept as done`,
      `history: ${state === 'purged' ? 'purgeTopic' : 'cancel'} leaves a job as ${state}, with its attempts`,
      (m) => change(m, 'end', (right) => (job, as) => right(job, as === state ? 'done' : as)),
    ),
  ),
  mutant(
    'expired dead letters are kept as purged',
    'history: expire leaves a dead letter as expired, with its attempts',
    (m) => change(m, 'end', (right) => (job, as) => right(job, as === 'expired' ? 'purged' : as)),
  ),
  mutant(
    'a live job still shows its last end',
    'history: a push removes the entry of its id; the next end writes one',
    (m) =>
      change(m, 'push', (right) => (job) => {
        const entry = m.ended.get(m.nameOf(job));
        const outcome = right(job);
        if (entry !== undefined) m.ended.set(m.nameOf(job), entry);
        return outcome;
      }),
  ),
  mutant(
    'the first end of an id stays, not the last',
    'history: a push removes the entry of its id; the next end writes one',
    (m) => {
      const first = new Map<string, unknown>();
      change(m, 'end', (right) => (job, as) => {
        right(job, as);
        const name = m.nameOf(job);
        if (first.has(name)) m.ended.set(name, first.get(name) as never);
        else first.set(name, m.ended.get(name));
      });
    },
  ),
  mutant(
    'moving a job writes a history entry',
    'history: replaced versions, moved jobs and dead letters leave no entry',
    (m) =>
      change(m, 'makeAnew', (right) => (job, dueAt) => {
        m.end(job, 'cancelled');
        right(job, dueAt);
      }),
  ),
  mutant('forget ignores the age', forgets, (m) =>
    change(m, 'forget', (right) => (_, max) => right(-1, max)),
  ),
  // The age that a caller with such a clock would have counted.
  ...([ahead, behind] as const).flatMap((caughtBy) =>
    (['expire', 'forget'] as const).map((name) =>
      mutant(`${name} trusts the time of its caller`, caughtBy, (m) =>
        change(
          m,
          name,
          (right) => (age: number, max: number) => right(age - (Date.now() - m.now()), max) as never,
        ),
      ),
    ),
  ),
  mutant('fsck counts ended jobs', 'fsck: counts live and dead jobs, and finds no problems', (m) =>
    change(m, 'fsck', () => () => {
      const result = { jobs: m.all().length + m.ended.size, problems: [] };
      return { kind: 'done', startedAt: 0, endedAt: 0, result };
    }),
  ),
  mutant(
    'clock returns the time of its caller',
    'clock: returns the storage clock, not that of the caller',
    (m) => change(m, 'clock', () => () => Date.now()),
  ),
  mutant('reserve returns the time of its caller', 'reserve: returns the storage clock with the jobs', (m) =>
    change(m, 'reserve', (right) => (request) => ({ ...right(request), now: Date.now() })),
  ),
  mutant('forget ignores max', forgets, (m) => change(m, 'forget', (right) => (age) => right(age, 100))),
  mutant('forget takes the newest version first', forgets, (m) =>
    change(m, 'forget', (right) => (age, max) => {
      const { more } = right(age, 0);
      const newest = [...m.ended.values()].sort((a, b) => b.version - a.version).slice(0, max);
      if (more) for (const job of newest) m.ended.delete(m.nameOf(job));
      return { forgotten: more ? newest.length : 0, more };
    }),
  ),
  mutant('expire ignores the age', expires, (m) =>
    change(m, 'expire', (right) => (_, max) => right(-1, max)),
  ),
  mutant('expire ignores max', expires, (m) => change(m, 'expire', (right) => (age) => right(age, 100))),
  ...(['owed', 'claimed'] as const).map((state) =>
    mutant(
      `expire takes a dead letter whose alert is ${state}`,
      `expire: keeps a dead letter whose alert is ${state}, however old`,
      (m) => change(m, 'owes', () => () => false),
    ),
  ),
];
