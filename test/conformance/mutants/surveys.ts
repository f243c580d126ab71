// Mistakes of the surveys.

import { change, type Mutant, mutant, mutants } from './mutant.ts';

const asked = (filter: object) => `scan: applies the filter ${JSON.stringify(filter)}`;
const vip = { idPrefix: 'vip-' };
const part = { body: Buffer.from('88120').toString('base64') };
const ahead = 'position: counts the jobs that reserve takes before';
const range = 'scan: filters by due time, since included, until not';
const pieces = 'scan: a call without budget goes on a little; the calls examine every job';
const horizon = 'horizon: counts waiting jobs by due time';
const groups = 'dead groups: by topic, reason, last reason and status';

export const surveyMutants: readonly Mutant[] = [
  ...mutants({
    [ahead]: {
      'position counts the job itself': change('ahead', (right) => (key) => {
        const n = right(key);
        return n === null ? null : n + 1;
      }),
      'position counts jobs of other priorities': change('ahead', (right) => (key) => {
        const n = right(key);
        return key.id === 'high' && n !== null ? n + 3 : n;
      }),
    },
    'position: null for jobs that are not ready': {
      'position knows a delayed job': change('ahead', (right) => (key) => right(key) ?? 0),
    },
    [asked({ ...part, topics: [] })]: {
      'scan takes no topics for all topics': change('isScanned', (right) => ({ topics, ...rest }, job) => {
        return right(
          topics?.length === 0 ? rest : { ...rest, ...(topics === undefined ? {} : { topics }) },
          job,
        );
      }),
    },
    [asked(vip)]: {
      'scan matches the prefix inside an id': change(
        'isScanned',
        (right) =>
          ({ idPrefix = '', ...rest }, job) => {
            return right(rest, job) && job.id.includes(idPrefix);
          },
      ),
      'scan returns only its first page': change('scan', (right) => (filter, limit, cursor) => {
        return { ...right(filter, limit, cursor), nextCursor: null };
      }),
    },
    [range]: {
      'scan leaves out jobs due at since': change(
        'isScanned',
        (right) => (filter, job) => right(filter, job) && job.dueAt !== filter.since,
      ),
      'scan includes jobs due at until': change('isScanned', (right) => (filter, job) => {
        return right(filter.until === undefined ? filter : { ...filter, until: filter.until + 1 }, job);
      }),
    },
    [pieces]: {
      'scan counts found jobs as examined': change('scan', (right) => (filter, limit, cursor) => {
        const page = right(filter, limit, cursor);
        return { ...page, scanned: { jobs: page.items.length + 1, of: page.items.length } };
      }),
    },
    [horizon]: {
      'horizon counts dead letters': change('horizon', (right, m) => (topics) => {
        const { counts } = right(topics);
        const dead = m.matching({}).length;
        return { counts: counts.map((count, i) => (i === 0 && topics === null ? count + dead : count)) };
      }),
      'horizon counts all topics': change('horizon', (right) => () => right(null)),
      'horizon is one class off': change(
        'classOf',
        (right) => (job) => (job.state === 'ready' ? 0 : right(job) - 1),
      ),
    },
    'horizon: a delayed job that is due and not promoted is overdue': {
      'horizon forgets jobs that were not promoted': change(
        'classOf',
        (right) => (job) => (job.state === 'delayed' ? right(job) || 1 : right(job)),
      ),
      'horizon: a job that is due now is due later': change(
        'classOf',
        (right, m) => (job) => (job.dueAt === m.now() ? 1 : right(job)),
      ),
    },
    [groups]: {
      'dead groups ignore the status': change(
        'groupOf',
        (_, m) => (job) => JSON.stringify([job.topic, job.deadReason, m.lastOf(job)?.reason]),
      ),
      'dead groups ignore the last reason': change(
        'groupOf',
        (_, m) => (job) => JSON.stringify([job.topic, job.deadReason, m.lastOf(job)?.status]),
      ),
      'dead groups ignore the reason of the death': change(
        'groupOf',
        (_, m) => (job) => JSON.stringify([job.topic, m.lastOf(job)?.reason, m.lastOf(job)?.status]),
      ),
      'dead groups take the first attempt': change('lastOf', () => (job) => job.attempts[0]),
      'dead groups ignore the topics': change('deadGroups', (right) => (_, of) => right(null, of)),
      'dead groups ignore the selection': change('deadGroups', (right) => (topics) => right(topics)),
    },
  }),
  ...(
    [
      ['topics', { ...vip, topics: ['b', 'none'] }],
      ['state', { ...vip, state: 'dead' }],
      ['idPrefix', vip],
      ['body', part],
    ] as const
  ).map(([name, filter]) =>
    mutant(
      `scan ignores ${name}`,
      asked(filter),
      change(
        'isScanned',
        (right) =>
          ({ [name]: _, ...rest }, job) =>
            right(rest, job),
      ),
    ),
  ),
];
