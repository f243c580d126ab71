// Mistakes with dead letters, alerts, counts and hints.

import { change, type Mutant, mutant } from './mutant.ts';

const ends = 'alerts: an owed entry outlives its dead letter';
const requeued = 'dead requeue: makes a ready job of a new version and the same origin';

const deadMutants: readonly Mutant[] = [
  mutant('requeue keeps the failures', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      const { failures } = job;
      right(job);
      job.failures = failures;
    }),
  ),
  mutant('requeue keeps the attempts', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      const { attempts } = job;
      right(job);
      job.attempts = attempts;
    }),
  ),
  mutant('requeue makes a new origin', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      right(job);
      job.origin = job.version;
    }),
  ),
  mutant('requeue keeps the version', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      const { version } = job;
      right(job);
      job.version = version;
    }),
  ),
  mutant('requeue keeps the due time', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      const { dueAt } = job;
      right(job);
      job.dueAt = dueAt;
    }),
  ),
  mutant(
    'requeue forgets the owed alert',
    'dead requeue: keeps the owed alert of the death, and the next death owes one more',
    (m) =>
      change(m, 'revive', (right) => (job) => {
        m.alerts.delete(job.version);
        right(job);
      }),
  ),
  mutant(
    'requeue ignores max',
    'dead requeue: takes the oldest death first, at most max, and says whether more are left',
    (m) => change(m, 'requeueDead', (right) => (filter) => right(filter, 10)),
  ),
  mutant(
    'purge takes the newest death first',
    'dead purge: takes the oldest death first, at most max, and says whether more are left',
    (m) => change(m, 'purge', (right) => (found, max) => right([...found].reverse(), max)),
  ),
  mutant(
    'purge forgets the owed alert',
    'dead purge: removes the dead letter and leaves its alert owed',
    (m) =>
      change(m, 'remove', (right) => (job) => {
        m.alerts.delete(job.version);
        right(job);
      }),
  ),
  mutant(
    'until is inclusive',
    'dead list: filters by topic, time of death and ids, newest death first',
    (m) =>
      change(
        m,
        'matching',
        (right) => (filter) =>
          right(filter.until === undefined ? filter : { ...filter, until: filter.until + 1 }),
      ),
  ),
  mutant('since is exclusive', 'dead purge: means the same jobs as the list with the same filter', (m) =>
    change(
      m,
      'matching',
      (right) => (filter) =>
        right(filter.since === undefined ? filter : { ...filter, since: filter.since + 1 }),
    ),
  ),
  mutant('no ids mean all', 'dead list: filters by topic, time of death and ids, newest death first', (m) =>
    change(
      m,
      'matching',
      (right) =>
        ({ ids, ...filter }) =>
          right(ids?.length ? { ...filter, ids } : filter),
    ),
  ),
  mutant(
    'a cursor counts rows',
    'dead list: pages by a cursor that skips and repeats nothing, whatever dies or goes between',
    (m) =>
      change(m, 'listDead', (right) => (filter, limit, cursor) => {
        const all = right(filter, 1_000, null).items;
        const start = Number(cursor ?? 0);
        const end = start + limit;
        return { items: all.slice(start, end), nextCursor: end < all.length ? String(end) : null };
      }),
  ),
];

const alertMutants: readonly Mutant[] = [
  mutant(
    'two claimers get the same',
    'alerts claim: gives what is owed, oldest first, at most max, and to one claimer only',
    (m) => change(m, 'claim', (right) => (topic, _claimMs, max) => right(topic, -1, max)),
  ),
  mutant('a claim never ends', 'alerts claim: ends by itself, and the entry is owed again', (m) =>
    change(m, 'claim', (right) => (topic, _claimMs, max) => right(topic, 3_600_000, max)),
  ),
  mutant(
    'a claim takes what another topic is owed',
    'alerts claim: changes nothing but the state of the claimed',
    (m) =>
      change(m, 'claim', () => (_topic, claimMs, max) => {
        const claimed = m.owed().slice(0, max);
        for (const alert of claimed) alert.claimedUntil = m.now() + claimMs;
        return claimed.map((alert) => m.alertEntry(alert));
      }),
  ),
  mutant(
    'topics are due in the order of their names',
    'alerts due: names the topics that are owed something, the longest waiting first',
    (m) => change(m, 'due', (right) => (windowMs) => [...right(windowMs)].sort()),
  ),
  mutant(
    'no topic has a window',
    'alerts due: leaves out a topic until windowMs after its last mail, and no other',
    (m) => change(m, 'due', (right) => () => right(0)),
  ),
  mutant(
    'all topics have one window',
    'alerts due: leaves out a topic until windowMs after its last mail, and no other',
    (m) =>
      change(m, 'settle', (right) => (versions, as) => {
        right(versions, as);
        if (as === 'sent') for (const alert of m.alerts.values()) m.toldAt.set(alert.topic, m.now());
      }),
  ),
  mutant(
    'a window goes with its dead letter',
    'alerts due: keeps the window of a topic when the dead letter it told of is gone',
    (m) =>
      change(m, 'remove', (right) => (job) => {
        right(job);
        m.toldAt.delete(job.topic);
      }),
  ),
  ...(['nobody', 'owed'] as const).map((ending) =>
    mutant(`${ending} begins a window`, 'alerts due: only what was sent begins a window', (m) =>
      change(m, 'settle', (right) => (versions, as) => {
        right(versions, as);
        for (const version of versions) {
          const topic = m.alerts.get(version)?.topic;
          if (as === ending && topic !== undefined) m.toldAt.set(topic, m.now());
        }
      }),
    ),
  ),
  mutant('a claim is not given back', 'alerts settle owed: gives a claim back at once', (m) =>
    change(m, 'settle', (right) => (versions, as) => {
      if (as !== 'owed') right(versions, as);
    }),
  ),
  mutant(
    'a late answer owes again',
    'alerts settle: a late answer owes nothing again and settles nothing twice',
    (m) =>
      change(m, 'settle', (right) => (versions, as) => {
        for (const version of versions) {
          const alert = m.alerts.get(version);
          if (alert !== undefined) alert.state = 'owed';
        }
        right(versions, as);
      }),
  ),
  mutant(
    'nobody counts as sent',
    'alerts settle nobody: ends the owing and keeps the entry with its dead letter',
    (m) => change(m, 'settle', (right) => (versions, as) => right(versions, as === 'nobody' ? 'sent' : as)),
  ),
  mutant(
    'a settled entry goes before its dead letter',
    'alerts settle sent: ends the owing and keeps the entry with its dead letter',
    (m) =>
      change(m, 'dropSettledAlert', () => (version) => {
        if (m.alerts.get(version)?.state !== 'owed') m.alerts.delete(version);
      }),
  ),
  mutant(
    'a claimed entry goes with its dead letter',
    'alerts: a claimed entry outlives its dead letter (push) and can be given back',
    (m) =>
      change(m, 'remove', (right) => (job) => {
        const alert = m.alerts.get(job.version);
        if ((alert?.claimedUntil ?? 0) > 0) m.alerts.delete(job.version);
        right(job);
      }),
  ),
  mutant(
    'a settled entry outlives its dead letter',
    'alerts: a sent entry goes with its dead letter (cancel)',
    (m) =>
      change(m, 'remove', () => (job) => {
        m.jobs.delete(m.nameOf(job));
      }),
  ),
  ...['cancel', 'push', 'requeue', 'purge', 'purgeTopic'].map((end) =>
    mutant(`an owed entry goes with its dead letter (${end})`, `${ends} (${end}) until it is settled`, (m) =>
      change(m, 'dropSettledAlert', () => (version) => {
        m.alerts.delete(version);
      }),
    ),
  ),
  mutant(
    'an alert settled after its dead letter stays for ever',
    `${ends} (purge) until it is settled`,
    (m) =>
      change(m, 'settle', () => (versions, as) => {
        for (const version of versions) {
          const alert = m.alerts.get(version);
          if (alert !== undefined) alert.state = as;
        }
      }),
  ),
];

const adminMutants: readonly Mutant[] = [
  mutant(
    'counts show emptied topics',
    'counts: counts every topic that has a job, by state, and no other',
    (m) => {
      const known = new Set<string>();
      change(m, 'push', (right) => (pushed) => {
        known.add(pushed.topic);
        return right(pushed);
      });
      change(m, 'counts', (right) => () => {
        const zeros = [...known].map((topic) => [topic, { delayed: 0, ready: 0, reserved: 0, dead: 0 }]);
        const counts = right();
        return { ...counts, topics: { ...Object.fromEntries(zeros), ...counts.topics } };
      });
    },
  ),
  mutant('delayed jobs count as overdue', 'counts: says how long the oldest ready job has been due', (m) =>
    change(m, 'counts', (right) => () => ({ ...right(), oldestOverdueMs: right().oldestOverdueMs ?? 0 })),
  ),
  mutant(
    'what nobody has promoted is not late',
    'counts: says how long a job has been due that nobody has promoted, held or not',
    (m) =>
      change(m, 'counts', (right) => (held = []) => {
        const counts = right(held);
        const isReady = Object.values(counts.topics).some(({ ready }) => ready > 0);
        return { ...counts, oldestOverdueMs: isReady ? counts.oldestOverdueMs : null };
      }),
  ),
  mutant(
    'a held topic is late',
    'counts: leaves held topics out of the oldest, and nothing else of them',
    (m) => change(m, 'counts', (right) => () => right()),
  ),
  mutant(
    'a held topic is not counted',
    'counts: leaves held topics out of the oldest, and nothing else of them',
    (m) =>
      change(m, 'counts', (right) => (held = []) => {
        const { topics, oldestOverdueMs } = right(held);
        const others = Object.entries(topics).filter(([name]) => !held.includes(name));
        return { topics: Object.fromEntries(others), oldestOverdueMs };
      }),
  ),
  mutant(
    'a purge spares what is reserved',
    'purgeTopic: removes the jobs of one topic in any state, and leaves its alerts owed',
    (m) =>
      change(
        m,
        'purge',
        (right) => (found, max) =>
          right(
            found.filter((job) => job.state !== 'reserved'),
            max,
          ),
      ),
  ),
];

const hintMutants: readonly Mutant[] = [
  mutant(
    'every delayed push hints',
    'hint due: comes when a push becomes the earliest delayed job, and only then',
    (m) =>
      change(m, 'push', (right) => (pushed) => {
        const outcome = right(pushed);
        m.onHint({ kind: 'due', partition: 0, waitMs: 0 });
        return outcome;
      }),
  ),
  mutant(
    'every ready push hints',
    'hint ready: comes when the ready queue stops being empty, and only then',
    (m) =>
      change(m, 'push', (right) => (pushed) => {
        if (m.inState('ready').length > 0) m.onHint({ kind: 'ready', partition: 0 });
        return right(pushed);
      }),
  ),
  mutant(
    'the earliest job is remembered when it has gone',
    'hint due: forgets an earliest job that was cancelled, and so does promote',
    (m) =>
      change(m, 'promote', (right) => (max) => {
        const promoted = right(max);
        return {
          ...promoted,
          waitMs: promoted.waitMs === null ? null : Math.min(promoted.waitMs, 3_600_000),
        };
      }),
  ),
  mutant(
    'a hint compares with an earliest job that has gone',
    'hint due: forgets an earliest job that was purged, and so does promote',
    (m) => {
      let earliest = Infinity;
      change(m, 'hinting', (right) => (step) => {
        const send = m.onHint;
        m.onHint = (hint) => {
          const dueAt = hint.kind === 'due' ? m.now() + hint.waitMs : -Infinity;
          if (dueAt < earliest) send(hint);
          if (hint.kind === 'due') earliest = Math.min(earliest, dueAt);
        };
        const result = right(step);
        m.onHint = send;
        return result;
      });
    },
  ),
  mutant(
    'a hint names the wrong wait',
    'hint due: comes when a push becomes the earliest delayed job, and only then',
    (m) => {
      change(m, 'hinting', (right) => (step) => {
        const send = m.onHint;
        m.onHint = (hint) => send(hint.kind === 'due' ? { ...hint, waitMs: m.now() + hint.waitMs } : hint);
        const result = right(step);
        m.onHint = send;
        return result;
      });
    },
  ),
];

export const coldMutants: readonly Mutant[] = [
  ...deadMutants,
  ...alertMutants,
  ...adminMutants,
  ...hintMutants,
];

/** Kept apart, because only time can prove a silence. */
export const silentMutant: Mutant = mutant(
  'no hint is ever sent',
  'hint due: comes when a push becomes the earliest delayed job, and only then',
  (m) => change(m, 'hinting', () => (step) => step()),
);
