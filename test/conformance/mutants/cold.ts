// Mistakes with dead letters, alerts, counts and hints.

import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

const ends = 'alerts: an owed alert outlives its dead letter';
const settledForNobody = 'alerts settle nobody: settles the alert and keeps it with its dead letter'; // check-words: data
const requeued = 'dead requeue: makes the job ready with a new version and its origin';

const deadMutants: readonly Mutant[] = mutants({
  [requeued]: {
    'requeue keeps the failures': change('revive', (right) => (job) => {
      const { failures } = job;
      right(job);
      job.failures = failures;
    }),
    'requeue removes the attempts': change('revive', (right) => (job) => {
      right(job);
      job.attempts = [];
    }),
    'requeue makes a new origin': change('revive', (right) => (job) => {
      right(job);
      job.origin = job.version;
    }),
    'requeue keeps the version': change('revive', (right) => (job) => {
      const { version } = job;
      right(job);
      job.version = version;
    }),
    'requeue keeps the due time': change('revive', (right) => (job) => {
      const { dueAt } = job;
      right(job);
      job.dueAt = dueAt;
    }),
  },
  'dead list: before a moment, only deaths from before it': {
    'a moment is compared with versions instead of deaths': change(
      'makeDead',
      (right, m) => (job, reason) => {
        right(job, reason);
        m.deaths.set(job.version, job.version);
      },
    ),
  },
  'moment: lies above all numbers from before it and below all later ones': {
    'a moment draws no number': change('moment', (_, m) => () => ({ model: m.counter })),
  },
  'dead requeue: the number of snoozes begins again, and other options stay': {
    'requeue keeps the number of snoozes': change('revive', (right, m) => (job) => {
      const { extension = null } = job;
      right(job);
      m.setOptions(job, extension);
    }),
    'requeue drops the options of the job': change('revive', (right, m) => (job) => {
      right(job);
      m.setOptions(job, null);
    }),
  },
  'dead requeue: the alert stays owed, and the next death owes another': {
    'requeue removes the owed alert': change('revive', (right, m) => (job) => {
      m.alerts.delete(job.version);
      right(job);
    }),
  },
  'dead requeue: oldest death first, at most max; returns whether more are left': {
    'requeue ignores max': change('requeueDead', (right) => (filter) => right(filter, 10)),
  },
  'dead purge: oldest death first, at most max; returns whether more are left': {
    'purge takes the newest death first': change(
      'purge',
      (right) => (found, max) => right([...found].reverse(), max),
    ),
  },
  'dead purge: removes the dead letter; its alert stays owed': {
    'purge removes the owed alert': change('remove', (right, m) => (job) => {
      m.alerts.delete(job.version);
      right(job);
    }),
  },
  'dead list: filters by topic, time of death and ids, newest death first': {
    'until is inclusive': change(
      'matching',
      (right) => (filter) =>
        right(filter.until === undefined ? filter : { ...filter, until: filter.until + 1 }),
    ),
    'an empty list of ids means all': change(
      'matching',
      (right) =>
        ({ ids, ...filter }) =>
          right(ids?.length ? { ...filter, ids } : filter),
    ),
  },
  'dead purge: affects the jobs that list returns for the filter': {
    'since is exclusive': change(
      'matching',
      (right) => (filter) =>
        right(filter.since === undefined ? filter : { ...filter, since: filter.since + 1 }),
    ),
  },
  'dead list: pages skip and repeat nothing while others die or go': {
    'a cursor counts rows': change('listDead', (right) => (filter, limit, cursor) => {
      const all = right(filter, 1_000, null).items;
      const start = Number(cursor ?? 0);
      const end = start + limit;
      return { items: all.slice(start, end), nextCursor: end < all.length ? String(end) : null };
    }),
  },
});

const alertMutants: readonly Mutant[] = [
  ...mutants({
    'alerts claim: owed alerts go to one claimer, oldest first, at most max': {
      'two claimers get the same alert': change(
        'claim',
        (right) => (topic, _claimMs, max) => right(topic, -1, max),
      ),
    },
    'alerts claim: expires, and the alert is owed again': {
      'a claim never expires': change(
        'claim',
        (right) => (topic, _claimMs, max) => right(topic, 3_600_000, max),
      ),
    },
    'alerts claim: changes only the state of the claimed alerts': {
      'a claim takes alerts of another topic': change('claim', (_, m) => (_topic, claimMs, max) => {
        const claimed = m.owed().slice(0, max);
        for (const alert of claimed) alert.claimedUntil = m.now() + claimMs;
        return claimed.map((alert) => m.alertEntry(alert));
      }),
    },
    'alerts stateOf: reads the state of one alert': {
      'the state of an alert ignores its claim': change('alertState', (right) => (job) => {
        const state = right(job);
        return state === 'claimed' ? 'owed' : state;
      }),
    },
    'alerts list: lists every alert, newest death first, in pages': {
      'total counts the alerts of the page': change('listAlerts', (right) => (limit, cursor) => {
        const page = right(limit, cursor);
        return { ...page, total: page.items.length };
      }),
    },
    'alerts due: names topics with owed alerts, the longest owed first': {
      'topics are due by name': change('due', (right) => (windowMs) => [...right(windowMs)].sort()),
    },
    'alerts due: leaves out only topics within windowMs of their last mail': {
      'no topic has a window': change('due', (right) => () => right(0)),
      'all topics have one window': change('settle', (right, m) => (versions, as) => {
        right(versions, as);
        if (as === 'sent') for (const alert of m.alerts.values()) m.toldAt.set(alert.topic, m.now());
      }),
    },
    'alerts due: the window of a topic outlives the mailed dead letter': {
      'a window goes with its dead letter': change('remove', (right, m) => (job) => {
        right(job);
        m.toldAt.delete(job.topic);
      }),
    },
    'alerts settle owed: returns a claim at once': {
      'a claim is not returned': change('settle', (right) => (versions, as) => {
        if (as !== 'owed') right(versions, as);
      }),
    },
    'alerts settle: a late call changes no settled alert': {
      'a late settle owes again': change('settle', (right, m) => (versions, as) => {
        for (const version of versions) {
          const alert = m.alerts.get(version);
          if (alert !== undefined) alert.state = 'owed';
        }
        right(versions, as);
      }),
    },
    [settledForNobody]: {
      'state `nobody` counts as sent': change(
        'settle',
        (right) => (versions, as) => right(versions, as === 'nobody' ? 'sent' : as),
      ),
    },
    'alerts settle sent: settles the alert and keeps it with its dead letter': {
      'a settled entry goes before its dead letter': change('dropSettledAlert', (_, m) => (version) => {
        if (m.alerts.get(version)?.state !== 'owed') m.alerts.delete(version);
      }),
    },
    'alerts: a claimed alert outlives its dead letter (push) and can be returned': {
      'a claimed entry goes with its dead letter': change('remove', (right, m) => (job) => {
        const alert = m.alerts.get(job.version);
        if ((alert?.claimedUntil ?? 0) > 0) m.alerts.delete(job.version);
        right(job);
      }),
    },
    'alerts: a sent alert goes with its dead letter (cancel)': {
      'a settled entry outlives its dead letter': change('remove', (_, m) => (job) => {
        m.jobs.delete(m.nameOf(job));
      }),
    },
    [`${ends} (purge) until it is settled`]: {
      'an alert settled after its dead letter stays for ever': change('settle', (_, m) => (versions, as) => {
        for (const version of versions) {
          const alert = m.alerts.get(version);
          if (alert !== undefined) alert.state = as;
        }
      }),
    },
  }),
  ...([-1, 1] as const).map((ms) =>
    mutant(
      `a claim lasts ${ms} ms more`,
      'alerts claim: expires, and the alert is owed again',
      change('claim', (right) => (topic, claimMs, max) => right(topic, claimMs + ms, max)),
    ),
  ),
  ...([-1, 1] as const).map((ms) =>
    mutant(
      `a window lasts ${ms} ms more`,
      'alerts due: leaves out only topics within windowMs of their last mail',
      change('due', (right) => (windowMs) => right(windowMs === 0 ? 0 : windowMs + ms)),
    ),
  ),
  ...(['nobody', 'owed'] as const).map((ending) =>
    mutant(
      `${ending} begins a window`,
      'alerts due: only a sent alert begins a window',
      change('settle', (right, m) => (versions, as) => {
        right(versions, as);
        for (const version of versions) {
          const topic = m.alerts.get(version)?.topic;
          if (as === ending && topic !== undefined) m.toldAt.set(topic, m.now());
        }
      }),
    ),
  ),
  ...['cancel', 'push', 'requeue', 'purge', 'purgeTopic'].map((end) =>
    mutant(
      `an owed entry goes with its dead letter (${end})`,
      `${ends} (${end}) until it is settled`,
      change('dropSettledAlert', (_, m) => (version) => {
        m.alerts.delete(version);
      }),
    ),
  ),
];

const adminMutants: readonly Mutant[] = mutants({
  'counts: counts every topic that has a job, by state, and no other': {
    'counts show emptied topics': (m) => {
      const known = new Set<string>();
      alter(m, 'push', (right) => (pushed) => {
        known.add(pushed.topic);
        return right(pushed);
      });
      alter(m, 'counts', (right) => () => {
        const zeros = [...known].map((topic) => [topic, { delayed: 0, ready: 0, reserved: 0, dead: 0 }]);
        const counts = right();
        return { ...counts, topics: { ...Object.fromEntries(zeros), ...counts.topics } };
      });
    },
  },
  'counts: returns how long the oldest ready job is overdue': {
    'delayed jobs count as overdue': change('counts', (right) => () => ({
      ...right(),
      oldestOverdueMs: right().oldestOverdueMs ?? 0,
    })),
    'the oldest job is another one': change('counts', (right) => () => {
      const counts = right();
      const { oldest } = counts;
      return { ...counts, oldest: oldest.map((job) => ({ ...job, topic: 'u' })) };
    }),
  },
  'counts: names the oldest overdue job of each topic, the one due first before the others': {
    'only the first one is named': change('counts', (right) => () => {
      const { oldest, ...counts } = right();
      return { ...counts, oldest: oldest.slice(0, 1) };
    }),
    'the last one is the first': change('counts', (right) => () => {
      const { oldest, ...counts } = right();
      return { ...counts, oldest: oldest.toReversed() };
    }),
  },
  'counts: a due delayed job counts as overdue, but for those of held topics': {
    'a due delayed job is not overdue': change('counts', (right) => (held = []) => {
      const counts = right(held);
      const isReady = Object.values(counts.topics).some(({ ready }) => ready > 0);
      return { ...counts, oldestOverdueMs: isReady ? counts.oldestOverdueMs : null };
    }),
    'a due delayed job of a held topic is overdue': change('counts', (right) => (held = []) => {
      const counts = right(held);
      const isReady = Object.values(counts.topics).some(({ ready }) => ready > 0);
      return isReady ? counts : right();
    }),
  },
  'counts: held topics only do not count as overdue': {
    'a held topic is overdue': change('counts', (right) => () => right()),
    'a held topic is not counted': change('counts', (right) => (held = []) => {
      const { topics, ...oldest } = right(held);
      const others = Object.entries(topics).filter(([name]) => !held.includes(name));
      return { topics: Object.fromEntries(others), ...oldest };
    }),
  },
  'countsOf: counts the given topics alone, and finds their oldest overdue jobs': {
    'other topics are counted': change('countsOf', (right) => (topics) => ({
      ...right(topics),
      topics: right([...topics, 'first']).topics,
    })),
    'jobs of other topics are overdue': change('countsOf', (right) => (topics) => ({
      ...right([...topics, 'first']),
      topics: right(topics).topics,
    })),
  },
  'purgeTopic: removes jobs of a topic in any state; alerts stay owed': {
    'a purge spares reserved jobs': change(
      'purge',
      (right) => (found, max) =>
        right(
          found.filter((job) => job.state !== 'reserved'),
          max,
        ),
    ),
  },
});

const hintMutants: readonly Mutant[] = mutants({
  'hint due: sent only when a push becomes the earliest delayed job': {
    'every delayed push hints': change('push', (right, m) => (pushed) => {
      const outcome = right(pushed);
      m.onHint({ kind: 'due', partition: 0, waitMs: 0 });
      return outcome;
    }),
    'a hint names the wrong wait': (m) => {
      alter(m, 'hinting', (right) => (step) => {
        const send = m.onHint;
        m.onHint = (hint) => send(hint.kind === 'due' ? { ...hint, waitMs: m.now() + hint.waitMs } : hint);
        const result = right(step);
        m.onHint = send;
        return result;
      });
    },
  },
  'hint ready: sent only when the ready queue stops being empty': {
    'every ready push hints': change('push', (right, m) => (pushed) => {
      if (m.inState('ready').length > 0) m.onHint({ kind: 'ready', partition: 0 });
      return right(pushed);
    }),
  },
  'hint due: forgets an earliest job that was cancelled, and so does promote': {
    'the earliest job is remembered after it is gone': change('promote', (right) => (max) => {
      const promoted = right(max);
      return {
        ...promoted,
        waitMs: promoted.waitMs === null ? null : Math.min(promoted.waitMs, 3_600_000),
      };
    }),
  },
  'hint due: forgets an earliest job that was purged, and so does promote': {
    'a hint compares with an earliest job that is gone': (m) => {
      let earliest = Infinity;
      alter(m, 'hinting', (right) => (step) => {
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
  },
});

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
  (m) => alter(m, 'hinting', () => (step) => step()),
);
