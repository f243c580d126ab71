// Mistakes with history and expiry.

import { attemptOf } from '../trial.ts';
import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

const atOnce = 'history: keeps a job delivered at once with its attempt, without body';
const forgets = 'forget: removes older entries, the oldest end first, at most max';
const expires = 'expire: removes older dead letters, the oldest death first, at most max';
const ahead = 'expire and forget: a clock of the caller 400 days off has no effect';
const behind = 'expire and forget: a clock of the caller -400 days off has no effect';

export const historyMutants: readonly Mutant[] = [
  ...mutants({
    [atOnce]: {
      'an ended job leaves no entry': change('end', (_, m) => (job) => m.remove(job)),
      'the only attempt is not kept': change('ack', (right, m) => (item) => {
        const isOnly = m.leased(item)?.failures === 0;
        return right(isOnly ? { ...item, attempt: null } : item);
      }),
    },
    'history: keeps failed and successful attempts of a delivered job': {
      'the successful attempt is not kept': change('ack', (right, m) => (item) => {
        const job = m.leased(item);
        const attempts = job?.attempts ?? [];
        const outcome = right(item);
        const entry = m.ended.get(m.nameOf(item));
        if (job !== null && entry !== undefined) m.ended.set(m.nameOf(item), { ...entry, attempts });
        return outcome;
      }),
    },
    'history: keeps a job whose ack had no attempt': {
      'an absent attempt is invented': change(
        'ack',
        (right) => (item) => right({ ...item, attempt: item.attempt ?? attemptOf({ failures: 0 }) }),
      ),
    },
    'history: a push after a delivery at once starts without attempts': {
      'a push takes over the attempts of an ended job': change('push', (right, m) => (job) => {
        const entry = m.ended.get(m.nameOf(job));
        const outcome = right(job);
        const fresh = m.jobs.get(m.nameOf(job));
        if (entry !== undefined && fresh !== undefined) fresh.attempts = entry.attempts;
        return outcome;
      }),
    },
    'history: expire leaves a dead letter as expired, with its attempts': {
      'expired dead letters are kept as purged': change(
        'end',
        (right) => (job, as) => right(job, as === 'expired' ? 'purged' : as),
      ),
    },
    'history: a push removes the entry of its id; the next end writes one': {
      'a live job still shows its last end': change('push', (right, m) => (job) => {
        const entry = m.ended.get(m.nameOf(job));
        const outcome = right(job);
        if (entry !== undefined) m.ended.set(m.nameOf(job), entry);
        return outcome;
      }),
      'the first end of an id stays, not the last': (m) => {
        const first = new Map<string, unknown>();
        alter(m, 'end', (right) => (job, as) => {
          right(job, as);
          const name = m.nameOf(job);
          if (first.has(name)) m.ended.set(name, first.get(name) as never);
          else first.set(name, m.ended.get(name));
        });
      },
    },
    'history: replaced versions, moved jobs and dead letters leave no entry': {
      'moving a job writes a history entry': change('makeAnew', (right, m) => (job, dueAt) => {
        m.end(job, 'cancelled');
        right(job, dueAt);
      }),
    },
    [forgets]: {
      'forget ignores the age': change('forget', (right) => (_, max) => right(-1, max)),
      'forget ignores max': change('forget', (right) => (age) => right(age, 100)),
      'forget takes the newest version first': change('forget', (right, m) => (age, max) => {
        const { more } = right(age, 0);
        const newest = [...m.ended.values()].sort((a, b) => b.version - a.version).slice(0, max);
        if (more) for (const job of newest) m.ended.delete(m.nameOf(job));
        return { forgotten: more ? newest.length : 0, more };
      }),
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
    'reserve: returns the storage clock with the jobs': {
      'reserve returns the time of its caller': change('reserve', (right) => (request) => ({
        ...right(request),
        now: Date.now(),
      })),
    },
    [expires]: {
      'expire ignores the age': change('expire', (right) => (_, max) => right(-1, max)),
      'expire ignores max': change('expire', (right) => (age) => right(age, 100)),
    },
  }),
  ...(['cancelled', 'purged'] as const).map((state) =>
    mutant(
      `${state} jobs are kept as done`,
      `history: ${state === 'purged' ? 'purgeTopic' : 'cancel'} leaves a job as ${state}, with its attempts`,
      change('end', (right) => (job, as) => right(job, as === state ? 'done' : as)),
    ),
  ),
  // The age that a caller with such a clock would have counted.
  ...([ahead, behind] as const).flatMap((caughtBy) =>
    (['expire', 'forget'] as const).map((name) =>
      mutant(
        `${name} trusts the time of its caller`,
        caughtBy,
        change(
          name,
          (right, m) => (age: number, max: number) => right(age - (Date.now() - m.now()), max) as never,
        ),
      ),
    ),
  ),
  ...(['owed', 'claimed'] as const).map((state) =>
    mutant(
      `expire takes a dead letter whose alert is ${state}`,
      `expire: keeps a dead letter whose alert is ${state}, however old`,
      change('owes', () => () => false),
    ),
  ),
];
