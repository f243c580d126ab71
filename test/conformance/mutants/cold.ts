// Mistakes with dead letters, alerts, counts and hints.

import { change, type Mutant, mutant } from './mutant.ts';

const ends = 'alerts: an owed alert outlives its dead letter';
const requeued = 'dead requeue: makes the job ready with a new version and its origin';

const deadMutants: readonly Mutant[] = [
  mutant('requeue keeps the failures', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      const { failures } = job;
      right(job);
      job.failures = failures;
    }),
  ),
  mutant(
    'a moment is compared with versions instead of deaths',
    'dead list: before a moment, only deaths from before it',
    (m) =>
      change(m, 'makeDead', (right) => (job, reason) => {
        right(job, reason);
        m.deaths.set(job.version, job.version);
      }),
  ),
  mutant(
    'a moment draws no number',
    'moment: lies above all numbers from before it and below all later ones',
    (m) => change(m, 'moment', () => () => ({ model: m.counter })),
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
    'requeue removes the owed alert',
    'dead requeue: the alert stays owed, and the next death owes another',
    (m) =>
      change(m, 'revive', (right) => (job) => {
        m.alerts.delete(job.version);
        right(job);
      }),
  ),
  mutant(
    'requeue ignores max',
    'dead requeue: oldest death first, at most max; returns whether more are left',
    (m) => change(m, 'requeueDead', (right) => (filter) => right(filter, 10)),
  ),
  mutant(
    'purge takes the newest death first',
    'dead purge: oldest death first, at most max; returns whether more are left',
    (m) => change(m, 'purge', (right) => (found, max) => right([...found].reverse(), max)),
  ),
  mutant('purge removes the owed alert', 'dead purge: removes the dead letter; its alert stays owed', (m) =>
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
  mutant('since is exclusive', 'dead purge: affects the jobs that list returns for the filter', (m) =>
    change(
      m,
      'matching',
      (right) => (filter) =>
        right(filter.since === undefined ? filter : { ...filter, since: filter.since + 1 }),
    ),
  ),
  mutant(
    'an empty list of ids means all',
    'dead list: filters by topic, time of death and ids, newest death first',
    (m) =>
      change(
        m,
        'matching',
        (right) =>
          ({ ids, ...filter }) =>
            right(ids?.length ? { ...filter, ids } : filter),
      ),
  ),
  mutant('a cursor counts rows', 'dead list: pages skip and repeat nothing while others die or go', (m) =>
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
    'two claimers get the same alert',
    'alerts claim: owed alerts go to one claimer, oldest first, at most max',
    (m) => change(m, 'claim', (right) => (topic, _claimMs, max) => right(topic, -1, max)),
  ),
  mutant('a claim never expires', 'alerts claim: expires, and the alert is owed again', (m) =>
    change(m, 'claim', (right) => (topic, _claimMs, max) => right(topic, 3_600_000, max)),
  ),
  ...([-1, 1] as const).map((ms) =>
    mutant(`a claim lasts ${ms} ms more`, 'alerts claim: expires, and the alert is owed again', (m) =>
      change(m, 'claim', (right) => (topic, claimMs, max) => right(topic, claimMs + ms, max)),
    ),
  ),
  ...([-1, 1] as const).map((ms) =>
    mutant(
      `a window lasts ${ms} ms more`,
      'alerts due: leaves out only topics within windowMs of their last mail',
      (m) => change(m, 'due', (right) => (windowMs) => right(windowMs === 0 ? 0 : windowMs + ms)),
    ),
  ),
  mutant(
    'a claim takes alerts of another topic',
    'alerts claim: changes only the state of the claimed alerts',
    (m) =>
      change(m, 'claim', () => (_topic, claimMs, max) => {
        const claimed = m.owed().slice(0, max);
        for (const alert of claimed) alert.claimedUntil = m.now() + claimMs;
        return claimed.map((alert) => m.alertEntry(alert));
      }),
  ),
  mutant('the state of an alert ignores its claim', 'alerts stateOf: reads the state of one alert', (m) =>
    change(m, 'alertState', (right) => (job) => {
      const state = right(job);
      return state === 'claimed' ? 'owed' : state;
    }),
  ),
  mutant('topics are due by name', 'alerts due: names topics with owed alerts, the longest owed first', (m) =>
    change(m, 'due', (right) => (windowMs) => [...right(windowMs)].sort()),
  ),
  mutant(
    'no topic has a window',
    'alerts due: leaves out only topics within windowMs of their last mail',
    (m) => change(m, 'due', (right) => () => right(0)),
  ),
  mutant(
    'all topics have one window',
    'alerts due: leaves out only topics within windowMs of their last mail',
    (m) =>
      change(m, 'settle', (right) => (versions, as) => {
        right(versions, as);
        if (as === 'sent') for (const alert of m.alerts.values()) m.toldAt.set(alert.topic, m.now());
      }),
  ),
  mutant(
    'a window goes with its dead letter',
    'alerts due: the window of a topic outlives the mailed dead letter',
    (m) =>
      change(m, 'remove', (right) => (job) => {
        right(job);
        m.toldAt.delete(job.topic);
      }),
  ),
  ...(['nobody', 'owed'] as const).map((ending) =>
    mutant(`${ending} begins a window`, 'alerts due: only a sent alert begins a window', (m) =>
      change(m, 'settle', (right) => (versions, as) => {
        right(versions, as);
        for (const version of versions) {
          const topic = m.alerts.get(version)?.topic;
          if (as === ending && topic !== undefined) m.toldAt.set(topic, m.now());
        }
      }),
    ),
  ),
  mutant('a claim is not returned', 'alerts settle owed: returns a claim at once', (m) =>
    change(m, 'settle', (right) => (versions, as) => {
      if (as !== 'owed') right(versions, as);
    }),
  ),
  mutant('a late settle owes again', 'alerts settle: a late call changes no settled alert', (m) =>
    change(m, 'settle', (right) => (versions, as) => {
      for (const version of versions) {
        const alert = m.alerts.get(version);
        if (alert !== undefined) alert.state = 'owed';
      }
      right(versions, as);
    }),
  ),
  mutant(
    'state `nobody` counts as sent',
    'alerts settle nobody: settles the alert and keeps it with its dead letter', // check-words: data
    (m) => change(m, 'settle', (right) => (versions, as) => right(versions, as === 'nobody' ? 'sent' : as)),
  ),
  mutant(
    'a settled entry goes before its dead letter',
    'alerts settle sent: settles the alert and keeps it with its dead letter',
    (m) =>
      change(m, 'dropSettledAlert', () => (version) => {
        if (m.alerts.get(version)?.state !== 'owed') m.alerts.delete(version);
      }),
  ),
  mutant(
    'a claimed entry goes with its dead letter',
    'alerts: a claimed alert outlives its dead letter (push) and can be returned',
    (m) =>
      change(m, 'remove', (right) => (job) => {
        const alert = m.alerts.get(job.version);
        if ((alert?.claimedUntil ?? 0) > 0) m.alerts.delete(job.version);
        right(job);
      }),
  ),
  mutant(
    'a settled entry outlives its dead letter',
    'alerts: a sent alert goes with its dead letter (cancel)',
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
  mutant('delayed jobs count as overdue', 'counts: returns how long the oldest ready job is overdue', (m) =>
    change(m, 'counts', (right) => () => ({ ...right(), oldestOverdueMs: right().oldestOverdueMs ?? 0 })),
  ),
  mutant(
    'a due delayed job is not overdue',
    'counts: a due delayed job counts as overdue, held or not',
    (m) =>
      change(m, 'counts', (right) => (held = []) => {
        const counts = right(held);
        const isReady = Object.values(counts.topics).some(({ ready }) => ready > 0);
        return { ...counts, oldestOverdueMs: isReady ? counts.oldestOverdueMs : null };
      }),
  ),
  mutant('a held topic is overdue', 'counts: held topics only do not count as overdue', (m) =>
    change(m, 'counts', (right) => () => right()),
  ),
  mutant('a held topic is not counted', 'counts: held topics only do not count as overdue', (m) =>
    change(m, 'counts', (right) => (held = []) => {
      const { topics, oldestOverdueMs } = right(held);
      const others = Object.entries(topics).filter(([name]) => !held.includes(name));
      return { topics: Object.fromEntries(others), oldestOverdueMs };
    }),
  ),
  mutant(
    'a purge spares reserved jobs',
    'purgeTopic: removes jobs of a topic in any state; alerts stay owed',
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
    'hint due: sent only when a push becomes the earliest delayed job',
    (m) =>
      change(m, 'push', (right) => (pushed) => {
        const outcome = right(pushed);
        m.onHint({ kind: 'due', partition: 0, waitMs: 0 });
        return outcome;
      }),
  ),
  mutant('every ready push hints', 'hint ready: sent only when the ready queue stops being empty', (m) =>
    change(m, 'push', (right) => (pushed) => {
      if (m.inState('ready').length > 0) m.onHint({ kind: 'ready', partition: 0 });
      return right(pushed);
    }),
  ),
  mutant(
    'the earliest job is remembered after it is gone',
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
    'a hint compares with an earliest job that is gone',
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
    'hint due: sent only when a push becomes the earliest delayed job',
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

/** Separate, because only time can prove silence. */
export const silentMutant: Mutant = mutant(
  'no hint is ever sent',
  'hint due: sent only when a push becomes the earliest delayed job',
  (m) => change(m, 'hinting', () => (step) => step()),
);
