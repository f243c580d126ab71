// A store with a journal for the suite. When a case ends, its journal must say what the store holds: each job
// has an open row with the same members, and each open row has its job.

import { expect } from 'vitest';
import { pushedExtension } from '../../src/core/extension.ts';
import type { JobKey } from '../../src/core/job.ts';
import { type Change, isRestorable, type JobRow, rowsOf } from '../../src/core/job-change.ts';
import { journaled } from '../../src/journal/record/journaled-store.ts';
import type { DumpedJob, StoreUnderTest } from '../conformance/store-under-test.ts';
import { within } from '../conformance/trial.ts';
import { MemorySpool } from './memory-spool.ts';

/** `under`: opened for a journal */
export function journaledUnderTest(under: StoreUnderTest, spool = new MemorySpool()): StoreUnderTest {
  return {
    store: journaled(under.store, spool),
    clock: under.clock,
    dump: () => under.dump(),
    async close() {
      const { jobs } = await under.dump();
      await under.close();
      compareJournal(spool.changes, jobs);
    },
  };
}

export function compareJournal(changes: readonly Change[], jobs: readonly DumpedJob[]): void {
  const rows = rowsOf(changes);
  const found = new Set(changes.filter(({ isOwn }) => !isOwn).map(({ origin }) => origin));
  for (const job of jobs) {
    const row = rows.get(nameOf(job));
    const { priority, ...rest } = rowFor(job);
    expect(row && withoutBody(row)).toMatchObject(rest);
    // A push that keeps a job records the priority of the push.
    if (!found.has(job.origin)) expect(row?.pushed?.priority).toBe(priority);
    // toMatchObject takes a minute for the bodies of some cases.
    expect(row?.pushed?.body.equals(job.body)).toBe(true);
  }
  expect([...rows.values()].filter(isRestorable).map(nameOf).sort()).toEqual(jobs.map(nameOf).sort());
}

const nameOf = ({ topic, id }: JobKey) => `${topic}\0${id}`;

const withoutBody = (row: JobRow) => ({ ...row, pushed: { ...row.pushed, body: null } });

function rowFor(job: DumpedJob) {
  const { version, origin, dueAt, failures, state, deadReason: reason, acceptedAt, priority } = job;
  const { contentType, deadAt } = job;
  const isDead = state === 'dead';
  return {
    ...{ version, origin, dueAt, failures, reason, bodyOrigin: origin },
    state: isDead ? 'dead' : 'waiting',
    // Numbers are drawn from the clock of their step, or just above.
    orderAt: isDead ? within((deadAt ?? 0) - 5, (deadAt ?? 0) + 5) : dueAt,
    pushed: {
      ...{ acceptedAt: within(acceptedAt - 5, acceptedAt + 5), contentType },
      // The journal has no number of snoozes.
      extension: pushedExtension(job.extension ?? null),
    },
    priority,
  };
}
