// Mistakes of the surveys.

import { change, type Mutant, mutant } from './mutant.ts';

const asked = (filter: object) => `scan: applies the filter ${JSON.stringify(filter)}`;
const vip = { idPrefix: 'vip-' };
const part = { body: Buffer.from('88120').toString('base64') };
const ahead = 'position: counts the jobs that reserve takes before';
const range = 'scan: filters by due time, since included, until not';
const pieces = 'scan: a call without budget goes on a little; the calls examine every job';
const horizon = 'horizon: counts waiting jobs by due time';
const groups = 'dead groups: by topic, last reason and status';

export const surveyMutants: readonly Mutant[] = [
  mutant('position counts the job itself', ahead, (m) =>
    change(m, 'ahead', (right) => (key) => {
      const n = right(key);
      return n === null ? null : n + 1;
    }),
  ),
  mutant('position counts jobs of other priorities', ahead, (m) =>
    change(m, 'ahead', (right) => (key) => {
      const n = right(key);
      return key.id === 'high' && n !== null ? n + 3 : n;
    }),
  ),
  mutant('position knows a delayed job', 'position: null for jobs that are not ready', (m) =>
    change(m, 'ahead', (right) => (key) => right(key) ?? 0),
  ),
  ...(
    [
      ['topics', { ...vip, topics: ['b', 'none'] }],
      ['state', { ...vip, state: 'dead' }],
      ['idPrefix', vip],
      ['body', part],
    ] as const
  ).map(([name, filter]) =>
    mutant(`scan ignores ${name}`, asked(filter), (m) =>
      change(
        m,
        'isScanned',
        (right) =>
          ({ [name]: _, ...rest }, job) =>
            right(rest, job),
      ),
    ),
  ),
  mutant('scan takes no topics for all topics', asked({ ...part, topics: [] }), (m) =>
    change(m, 'isScanned', (right) => ({ topics, ...rest }, job) => {
      return right(
        topics?.length === 0 ? rest : { ...rest, ...(topics === undefined ? {} : { topics }) },
        job,
      );
    }),
  ),
  mutant('scan matches the prefix inside an id', asked(vip), (m) =>
    change(m, 'isScanned', (right) => ({ idPrefix = '', ...rest }, job) => {
      return right(rest, job) && job.id.includes(idPrefix);
    }),
  ),
  mutant('scan leaves out jobs due at since', range, (m) =>
    change(m, 'isScanned', (right) => (filter, job) => right(filter, job) && job.dueAt !== filter.since),
  ),
  mutant('scan includes jobs due at until', range, (m) =>
    change(m, 'isScanned', (right) => (filter, job) => {
      return right(filter.until === undefined ? filter : { ...filter, until: filter.until + 1 }, job);
    }),
  ),
  mutant('scan returns only its first page', asked(vip), (m) =>
    change(m, 'scan', (right) => (filter, limit, cursor) => {
      return { ...right(filter, limit, cursor), nextCursor: null };
    }),
  ),
  mutant('scan counts found jobs as examined', pieces, (m) =>
    change(m, 'scan', (right) => (filter, limit, cursor) => {
      const page = right(filter, limit, cursor);
      return { ...page, scanned: { jobs: page.items.length + 1, of: page.items.length } };
    }),
  ),
  mutant('horizon counts dead letters', horizon, (m) =>
    change(m, 'horizon', (right) => (topics) => {
      const { counts } = right(topics);
      const dead = m.matching({}).length;
      return { counts: counts.map((count, i) => (i === 0 && topics === null ? count + dead : count)) };
    }),
  ),
  mutant('horizon counts all topics', horizon, (m) => change(m, 'horizon', (right) => () => right(null))),
  mutant('horizon is one class off', horizon, (m) =>
    change(m, 'classOf', (right) => (job) => (job.state === 'ready' ? 0 : right(job) - 1)),
  ),
  mutant(
    'horizon forgets jobs that were not promoted',
    'horizon: a delayed job that is due and not promoted is overdue',
    (m) => change(m, 'classOf', (right) => (job) => (job.state === 'delayed' ? right(job) || 1 : right(job))),
  ),
  mutant(
    'horizon: a job that is due now is due later',
    'horizon: a delayed job that is due and not promoted is overdue',
    (m) => change(m, 'classOf', (right) => (job) => (job.dueAt === m.now() ? 1 : right(job))),
  ),
  mutant('dead groups ignore the status', groups, (m) =>
    change(m, 'groupOf', () => (job) => JSON.stringify([job.topic, m.lastOf(job)?.reason])),
  ),
  mutant('dead groups ignore the reason', groups, (m) => change(m, 'groupOf', () => (job) => job.topic)),
  mutant('dead groups take the first attempt', groups, (m) =>
    change(m, 'lastOf', () => (job) => job.attempts[0]),
  ),
  mutant('dead groups ignore the topics', groups, (m) =>
    change(m, 'deadGroups', (right) => () => right(null)),
  ),
];
