// Lists what must hold in the tables between two transactions, each as a query for violations.
// `dq fsck` and the tests use the same list.

import { storeLimits } from '../../limits.ts';

export interface Invariant {
  /** the name in Problem */
  readonly invariant: string;
  readonly what: string;
  /** selects one text column, `example`, per violation */
  readonly sql: string;
}

const named = `(SELECT name FROM topic WHERE no = job.topic) || '/' || CAST(job.id AS TEXT)`;
/** Jobs that match the condition. */
const jobs = (isWrong: string) =>
  `SELECT coalesce(${named}, 'row ' || job.n) AS example FROM job WHERE ${isWrong}`;
const rows = (table: string, isWrong: string) =>
  `SELECT 'row ' || n AS example FROM ${table} WHERE ${isWrong}`;

const counted = 'SELECT topic, prio, state, n FROM tally WHERE n <> 0';
const there = 'SELECT topic, prio, state, count(*) FROM job WHERE state < 4 GROUP BY topic, prio, state';
const kind = `'topic ' || topic || ', priority ' || prio || ', state ' || state AS example`;

export const invariants: readonly Invariant[] = [
  { invariant: 'I1', what: 'jobs with an invalid state', sql: jobs('state NOT BETWEEN 0 AND 4') },
  {
    invariant: 'I1',
    what: 'jobs without a body',
    sql: jobs('state < 4 AND NOT EXISTS (SELECT 1 FROM body WHERE body.n = job.n)'),
  },
  {
    invariant: 'I3',
    what: 'bodies without a job',
    // Rows below 0 are the disk reserve.
    sql: rows('body', 'n >= 0 AND NOT EXISTS (SELECT 1 FROM job WHERE job.n = body.n AND state < 4)'),
  },
  {
    invariant: 'I3',
    what: 'attempts without a job',
    sql: rows('attempts', 'NOT EXISTS (SELECT 1 FROM job WHERE job.n = attempts.n)'),
  },
  {
    invariant: 'I3',
    what: 'unreadable attempts',
    sql: rows('attempts', "NOT json_valid(list) OR json_type(list) <> 'array'"),
  },
  {
    invariant: 'I4',
    what: 'leases on unreserved jobs, or reserved jobs without a lease',
    sql: jobs(
      ['owner_instance', 'owner_incarnation', 'lease_until']
        .map((column) => `(${column} IS NULL) = (state = 2)`)
        .join(' OR '),
    ),
  },
  {
    invariant: 'I4',
    what: 'tokens on waiting or ended jobs, or missing on reserved or dead ones',
    sql: jobs('(token IS NULL) = (state IN (2, 3))'),
  },
  {
    invariant: 'I1',
    what: 'dead_at or reason on live jobs, or missing on dead ones',
    sql: jobs('(dead_at IS NULL) = (state = 3) OR (reason IS NULL) = (state = 3)'),
  },
  {
    invariant: 'I1',
    what: 'ended_at or ended_as on unended jobs, or missing on ended ones',
    sql: jobs('(ended_at IS NULL) = (state = 4) OR (ended_as IS NULL) = (state = 4)'),
  },
  {
    invariant: 'I5',
    what: 'dead letters without an alert',
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
    what: 'versions or tokens above the sequence',
    sql: jobs(`max(version, coalesce(token, 0)) > (SELECT v FROM meta WHERE k = 'seq')`),
  },
  {
    invariant: 'numbers',
    what: 'jobs without a topic',
    sql: jobs('NOT EXISTS (SELECT 1 FROM topic WHERE no = job.topic)'),
  },
  {
    invariant: 'counts',
    what: 'counts without their jobs',
    sql: `SELECT ${kind} FROM (${counted} EXCEPT ${there})`,
  },
  {
    invariant: 'counts',
    what: 'jobs missing in the counts',
    sql: `SELECT ${kind} FROM (${there} EXCEPT ${counted})`,
  },
];

/** Tables and indexes are intact and agree. Reads the whole file. */
export const wholeFile: Invariant = {
  invariant: 'file',
  what: 'file damage',
  sql: `SELECT integrity_check AS example FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
};

/** The same of registry.db. */
export const wholeRegistry: Invariant = {
  ...wholeFile,
  invariant: 'registry',
  what: 'damage of registry.db',
};

export const countJobs = 'SELECT count(*) AS count FROM job WHERE state < 4';

/** Columns count and example, one row per example; no rows without a violation. */
export function examplesOf({ sql }: Invariant): string {
  return `WITH wrong AS MATERIALIZED (${sql})
    SELECT (SELECT count(*) FROM wrong) AS count, example FROM wrong LIMIT ${storeLimits.fsckExamples}`;
}
