// Mistakes with what has ended and with what is too old.

import { attemptOf } from '../trial.ts';
import { change, type Mutant, mutant } from './mutant.ts';

const atOnce = 'history: shows a job that was delivered at once with its one attempt, without body';
const forgets = 'forget: removes what ended before that moment, the oldest end first, at most max';
const expires = 'expire: removes dead letters that died before that moment, the oldest first, at most max';

export const historyMutants: readonly Mutant[] = [
  mutant('what ends leaves nothing', atOnce, (m) => change(m, 'end', () => (job) => m.remove(job))),
  mutant(
    'the attempt that succeeded is not kept',
    'history: keeps the failed attempts of a delivered job, and the one that succeeded',
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
  mutant(
    'an attempt that was not sent is made up',
    'history: keeps the job without its last attempt where that was not sent',
    (m) =>
      change(
        m,
        'ack',
        (right) => (item) => right({ ...item, attempt: item.attempt ?? attemptOf({ failures: 0 }) }),
      ),
  ),
  mutant(
    'a push takes over the attempts of what has ended',
    'history: a push of an id that was delivered at once begins without attempts',
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
    'history: a push of the id takes the entry away, the next end leaves the newer version',
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
    'history: a push of the id takes the entry away, the next end leaves the newer version',
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
    'moving a job ends it',
    'history: a replaced version, a job that was moved, and a dead letter leave nothing',
    (m) =>
      change(m, 'makeAnew', (right) => (job, dueAt) => {
        m.end(job, 'cancelled');
        right(job, dueAt);
      }),
  ),
  mutant('forget takes what ended at that very moment', forgets, (m) =>
    change(m, 'forget', (right) => (before, max) => right(before + 1, max)),
  ),
  mutant(
    'fsck counts what has ended',
    'fsck: counts what is live or dead, and finds nothing wrong with what the port has made',
    (m) =>
      change(m, 'fsck', () => () => {
        const result = { jobs: m.all().length + m.ended.size, problems: [] };
        return { kind: 'done', startedAt: 0, endedAt: 0, result };
      }),
  ),
  mutant('forget ignores max', forgets, (m) =>
    change(m, 'forget', (right) => (before) => right(before, 100)),
  ),
  mutant('forget takes the newest version first', forgets, (m) =>
    change(m, 'forget', (right) => (before, max) => {
      const { more } = right(before, 0);
      const newest = [...m.ended.values()].sort((a, b) => b.version - a.version).slice(0, max);
      if (more) for (const job of newest) m.ended.delete(m.nameOf(job));
      return { forgotten: more ? newest.length : 0, more };
    }),
  ),
  mutant('expire ignores the age', expires, (m) =>
    change(m, 'expire', (right) => (_, max) => right(Number.MAX_SAFE_INTEGER, max)),
  ),
  mutant('expire ignores max', expires, (m) =>
    change(m, 'expire', (right) => (before) => right(before, 100)),
  ),
  ...(['owed', 'claimed'] as const).map((state) =>
    mutant(
      `expire takes a dead letter whose alert is ${state}`,
      `expire: keeps a dead letter whose alert is ${state}, however old`,
      (m) => change(m, 'owes', () => () => false),
    ),
  ),
];
