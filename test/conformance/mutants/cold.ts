// Mistakes with dead letters, alerts, counts and hints.

import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

const deadMutants: readonly Mutant[] = mutants({
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
  },
  'dead purge: oldest death first, at most max; returns whether more are left': {
    'purge takes the newest death first': change(
      'purge',
      (right) => (found, max) => right([...found].reverse(), max),
    ),
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
];

const adminMutants: readonly Mutant[] = mutants({
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
