// What the survey writes about a job never outranks a known change, in any order of arrival.

import { describe, expect, it } from 'vitest';
import { type Change, type JobRow, mergeRows, rowOf } from '../../src/core/job-change.ts';
import { changesOf } from '../../src/journal/heal/surveyor.ts';
import type { WalkedJob } from '../../src/ports/healing.ts';
import { changeOf } from '../support/spool.ts';

const common = { topic: 't', id: '1', place: 'p:0', version: 5_000, origin: 4_000, dueAt: 10, failures: 2 };
const waiting: WalkedJob = {
  ...{ ...common, acceptedAt: 4, priority: 'normal', contentType: null, extension: null },
  ...{ body: Buffer.from('b'), death: null },
};
const dead: WalkedJob = { ...waiting, death: { at: 10, reason: 'gone', isTold: true } };
const own = { ...common, isOwn: true, number: 5_001 };

/** The row in every order of arrival. */
function rowsOf(changes: readonly Change[]): readonly JobRow[] {
  const fold = (order: readonly Change[]) => order.map(rowOf).reduce(mergeRows);
  return [...changes.keys()].map((n) => fold([...changes.slice(n), ...changes.slice(0, n)]));
}

describe('survey', () => {
  it('a dead job is dead, even when it was due at the moment of its death', () => {
    for (const row of rowsOf(changesOf(dead)))
      expect(row).toMatchObject({
        ...{ state: 'dead', orderAt: 10, dueAt: 10, reason: 'gone', alertTold: 5_000 },
        ...{ bodyOrigin: 4_000, pushed: { body: Buffer.from('b') } },
      });
  });

  it('an end that is known stays, and so does a later retry', () => {
    const end: Change = { ...own, kind: 'ended', end: 'done', attempt: null };
    for (const row of rowsOf([...changesOf(waiting), end, ...changesOf(dead)]))
      expect(row).toMatchObject({ state: 'done', pushed: null });
    const retried = { ...changeOf(1, 'retried'), ...own, dueAt: 99, failures: 3 };
    for (const row of rowsOf([...changesOf(waiting), retried]))
      expect(row).toMatchObject({ dueAt: 99, failures: 3, bodyOrigin: 4_000 });
    const moved: Change = { ...own, kind: 'moved', by: 'requeue', version: 5_001, dueAt: 99, failures: 0 };
    for (const row of rowsOf([...changesOf(dead), moved]))
      expect(row).toMatchObject({ state: 'waiting', version: 5_001, dueAt: 99, bodyOrigin: 4_000 });
  });
});
