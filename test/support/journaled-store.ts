// A store with a journal for the suite. When a case ends, its journal must say what the store holds: each job
// has an open row with the same members, and each open row has its job.

import { expect } from 'vitest';
import { extensionOf } from '../../src/core/extension.ts';
import { isRestorable, type JobRow } from '../../src/core/journal/job-row.ts';
import { journaled } from '../../src/journal/journaled-store.ts';
import type { DumpedJob, StoreUnderTest } from '../conformance/store-under-test.ts';
import { within } from '../conformance/trial.ts';
import { MemorySpool } from './memory-spool.ts';

/** `under`: opened for a journal */
export function journaledUnderTest(under: StoreUnderTest, spool = new MemorySpool()): StoreUnderTest {
  return {
    store: journaled(under.store, spool),
    dump: () => under.dump(),
    async close() {
      const { jobs } = await under.dump();
      await under.close();
      compareJournal(spool, jobs);
    },
  };
}

export function compareJournal(spool: MemorySpool, jobs: readonly DumpedJob[]): void {
  const rows = spool.rows();
  for (const job of jobs) {
    const row = rows.get(`${job.topic}/${job.id}`);
    expect(row && withoutBody(row)).toMatchObject(rowFor(job));
    // toMatchObject takes a minute for the bodies of some cases.
    expect(row?.pushed?.body.equals(job.body)).toBe(true);
  }
  const open = [...rows.values()].filter(isRestorable).map(({ topic, id }) => `${topic}/${id}`);
  expect(open.sort()).toEqual(jobs.map(({ topic, id }) => `${topic}/${id}`).sort());
}

const withoutBody = (row: JobRow) => ({ ...row, pushed: { ...row.pushed, body: null } });

function rowFor(job: DumpedJob) {
  const { version, origin, dueAt, failures, state, buryReason: reason, acceptedAt, priority } = job;
  const { contentType, deadAt } = job;
  const isDead = state === 'dead';
  return {
    ...{ version, origin, dueAt, failures, reason, bodyOrigin: origin },
    state: isDead ? 'dead' : 'waiting',
    // Numbers are drawn from the clock of their step, or just above.
    orderAt: isDead ? within((deadAt ?? 0) - 5, (deadAt ?? 0) + 5) : dueAt,
    pushed: {
      ...{ acceptedAt: within(acceptedAt - 5, acceptedAt + 5), priority, contentType },
      extension: extensionOf(job),
    },
  };
}
