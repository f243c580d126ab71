// What must be true of the tables at every moment between two transactions, whatever happened before: each as a query for
// what breaks it. `dq fsck` and the tests ask the same list.

import { storeLimits } from '../../limits.ts';

export interface Invariant {
  /** the name in Problem */
  readonly invariant: string;
  readonly what: string;
  /** selects one text column, `example`, for each breach */
  readonly sql: string;
}

const named = `(SELECT name FROM topic WHERE no = job.topic) || '/' || CAST(job.id AS TEXT)`;
/** Of jobs for which this is not true. */
const jobs = (isWrong: string) =>
  `SELECT coalesce(${named}, 'row ' || job.n) AS example FROM job WHERE ${isWrong}`;
const rows = (table: string, isWrong: string) =>
  `SELECT 'row ' || n AS example FROM ${table} WHERE ${isWrong}`;

const counted = 'SELECT topic, prio, state, n FROM tally WHERE n <> 0';
const there = 'SELECT topic, prio, state, count(*) FROM job WHERE state < 4 GROUP BY topic, prio, state';
const kind = `'topic ' || topic || ', priority ' || prio || ', state ' || state AS example`;

export const invariants: readonly Invariant[] = [
  { invariant: 'I1', what: 'jobs in no state', sql: jobs('state NOT BETWEEN 0 AND 4') },
  {
    invariant: 'I1',
    what: 'jobs without a body',
    sql: jobs('state < 4 AND NOT EXISTS (SELECT 1 FROM body WHERE body.n = job.n)'),
  },
  {
    invariant: 'I3',
    what: 'bodies without a job',
    // Those below 0 are the reserve.
    sql: rows('body', 'n >= 0 AND NOT EXISTS (SELECT 1 FROM job WHERE job.n = body.n AND state < 4)'),
  },
  {
    invariant: 'I3',
    what: 'attempts without a job',
    sql: rows('attempts', 'NOT EXISTS (SELECT 1 FROM job WHERE job.n = attempts.n)'),
  },
  {
    invariant: 'I3',
    what: 'attempts that cannot be read',
    sql: rows('attempts', "NOT json_valid(list) OR json_type(list) <> 'array'"),
  },
  {
    invariant: 'I4',
    what: 'leases of jobs that are not reserved, or none of one that is',
    sql: jobs(
      ['token', 'owner_instance', 'owner_incarnation', 'lease_until']
        .map((column) => `(${column} IS NULL) = (state = 2)`)
        .join(' OR '),
    ),
  },
  {
    invariant: 'I1',
    what: 'deaths of jobs that are not dead, or none of one that is',
    sql: jobs('(dead_at IS NULL) = (state = 3) OR (reason IS NULL) = (state = 3)'),
  },
  {
    invariant: 'I1',
    what: 'ends of jobs that have not ended, or none of one that has',
    sql: jobs('(ended_at IS NULL) = (state = 4) OR (ended_as IS NULL) = (state = 4)'),
  },
  {
    invariant: 'I5',
    what: 'dead letters that no alert was owed for',
    sql: jobs('state = 3 AND NOT EXISTS (SELECT 1 FROM alert WHERE alert.version = job.version)'),
  },
  {
    invariant: 'I5',
    what: 'settled alerts without a dead letter',
    sql: `SELECT 'version ' || version AS example FROM alert WHERE state >= 2 AND NOT EXISTS
      (SELECT 1 FROM job WHERE job.topic = alert.topic AND job.id = alert.id AND job.version = alert.version AND job.state = 3)`,
  },
  {
    invariant: 'numbers',
    what: 'versions or tokens that have not been drawn yet',
    sql: jobs(`max(version, coalesce(token, 0)) > (SELECT v FROM meta WHERE k = 'seq')`),
  },
  {
    invariant: 'numbers',
    what: 'jobs of a topic without a name',
    sql: jobs('NOT EXISTS (SELECT 1 FROM topic WHERE no = job.topic)'),
  },
  {
    invariant: 'counts',
    what: 'counts of what is not there',
    sql: `SELECT ${kind} FROM (${counted} EXCEPT ${there})`,
  },
  {
    invariant: 'counts',
    what: 'jobs that are not counted',
    sql: `SELECT ${kind} FROM (${there} EXCEPT ${counted})`,
  },
];

/** Tables and indexes are whole, and each index says what its table says. Reads everything. */
export const wholeFile: Invariant = {
  invariant: 'file',
  what: 'damages of the file',
  sql: `SELECT integrity_check AS example FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
};

export const countJobs = 'SELECT count(*) AS count FROM job WHERE state < 4';

/** Columns count and example, a row for each example; none when nothing is wrong. */
export function examplesOf({ sql }: Invariant): string {
  return `WITH wrong AS MATERIALIZED (${sql})
    SELECT (SELECT count(*) FROM wrong) AS count, example FROM wrong LIMIT ${storeLimits.fsckExamples}`;
}
