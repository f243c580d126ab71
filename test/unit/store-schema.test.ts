// Tests the schema of jobs.db; sql/sqlite/jobs.sql is compared in manual.test.ts.

import { describe, expect, it } from 'vitest';
import { type Database, openDatabase, pragma } from '../../src/runtime/database.ts';
import { JobCounts } from '../../src/store/sqlite/engine/job-counts.ts';
import type { TransactionContext } from '../../src/store/sqlite/engine/transaction-context.ts';
import { applicationId, layoutVersion, schema } from '../../src/store/sqlite/file/schema.ts';

describe('schema of jobs.db', () => {
  it('marks the file with its application and layout', () => {
    const db = openDatabase(':memory:');
    db.exec(schema);
    expect([pragma(db, 'application_id'), pragma(db, 'user_version')]).toEqual([
      applicationId,
      layoutVersion,
    ]);
    db.close();
  });

  it('serves frequent queries from their indexes', () => {
    const db = openDatabase(':memory:');
    db.exec(schema);
    const planOf = (sql: string) =>
      (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map((row) => row.detail);
    expect(planOf('SELECT n FROM job WHERE state = 0 AND due <= 5 ORDER BY due, version LIMIT 9')).toEqual([
      'SEARCH job USING COVERING INDEX job_due (due<?)',
    ]);
    expect(
      planOf('SELECT n FROM job WHERE state = 1 AND prio = 1 AND topic = 2 ORDER BY due, version LIMIT 9'),
    ).toEqual(['SEARCH job USING COVERING INDEX job_ready (prio=? AND topic=?)']);
    for (const [whose, index] of [['> 0', 'job_leased'] as const, ['= 0', 'job_pulled'] as const])
      expect(
        planOf(
          `SELECT id FROM job WHERE state = 2 AND owner_instance ${whose} AND lease_until <= 5 ORDER BY lease_until LIMIT 9`,
        ),
      ).toEqual([`SEARCH job USING INDEX ${index} (lease_until<?)`]);
    expect(
      planOf(
        'SELECT id FROM job WHERE topic = 1 AND state = 3 AND dead_at < 9 ORDER BY dead_at DESC, version DESC LIMIT 9',
      ),
    ).toEqual(['SEARCH job USING INDEX job_dead_topic (topic=? AND dead_at<?)']);
    expect(planOf('SELECT min(topic) FROM alert WHERE state < 2 AND topic > 5')).toEqual([
      'SEARCH alert USING INDEX alert_owed (topic>?)',
    ]);
    expect(
      planOf(
        'SELECT id FROM alert WHERE topic = 1 AND state < 2 AND (state = 0 OR claimed_until <= 5) ORDER BY dead_at, version LIMIT 9',
      ),
    ).toEqual(['SEARCH alert USING INDEX alert_owed (topic=?)']);
    db.close();
  });

  it('names the job that has been due the longest without reading dead ones', () => {
    const db = openDatabase(':memory:');
    db.exec(schema);
    const plans: string[][] = [];
    const prepare = (sql: string) => {
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
      plans.push(plan.map(({ detail }) => detail).filter((detail) => detail.includes(' job ')));
      return db.prepare(sql);
    };
    new JobCounts({ db: { prepare } as Database } as TransactionContext);
    const ready = [
      'SEARCH job USING COVERING INDEX job_ready (prio=? AND topic=?)',
      'SEARCH job USING INDEX job_ready (prio=? AND topic=? AND due=?)',
    ];
    expect(plans).toEqual([
      // Of all topics, and of named ones.
      ready,
      ready,
      ['SEARCH job USING INDEX job_due (due>? AND due<?)'],
      ['SEARCH job USING COVERING INDEX job_due (due>? AND due<?)'],
      // The purge of a topic reads its jobs of any state.
      ['SEARCH job USING INDEX job_topic (topic=?)'],
    ]);
    db.close();
  });
});
