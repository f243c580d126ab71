// The laws of the journal's rows: any order, grouping and repetition of the changes of a job gives one row.

import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { AttemptRecord } from '../../src/core/job.ts';
import {
  type Change,
  type ChangedJob,
  isEnded,
  isRestorable,
  type JobRow,
  mergeRows,
  rowOf,
} from '../../src/core/job-change.ts';
import { pushedBy, randomLife } from '../support/journal-lives.ts';

const lives = 1_000;

function each(seed: number, check: (changes: readonly Change[], dice: Dice) => void): void {
  const dice = new Dice(seed);
  for (let n = 0; n < lives; n += 1) check(randomLife(dice), dice);
}

const merged = (rows: readonly JobRow[]): JobRow => rows.reduce(mergeRows);
const rowsOf = (changes: readonly Change[]): JobRow[] => changes.map(rowOf);

/** toEqual takes 40 times as long, so it only explains a difference. */
function same(a: JobRow, b: JobRow, changes: readonly Change[]): void {
  if (!isDeepStrictEqual(a, b)) expect({ row: a, changes }).toEqual({ row: b, changes });
}

function shuffled<T>(items: readonly T[], dice: Dice): T[] {
  const left = [...items];
  return items.map(() => left.splice(dice.below(left.length), 1)[0] as T);
}

/** Merges neighbours in random order until one row is left. */
function grouped(rows: readonly JobRow[], dice: Dice): JobRow {
  const left = [...rows];
  while (left.length > 1) {
    const at = dice.below(left.length - 1);
    left.splice(at, 2, mergeRows(left[at] as JobRow, left[at + 1] as JobRow));
  }
  return left[0] as JobRow;
}

// The order of two changes, written a second time: the highest one of each list decides.
const endedRank = ({ kind }: Change) => (kind === 'ended' ? 1 : 0);
const timeOf = (change: Change) =>
  change.kind === 'dead' ? Math.floor(change.number / 1_000) : change.dueAt;
const ranks: readonly ((change: Change) => number)[] = [
  ({ version }) => version,
  endedRank,
  ({ number }) => number,
  ({ failures }) => failures,
  timeOf,
];
function highest(changes: readonly Change[]): Change | undefined {
  let left = changes.filter(({ kind }) => kind !== 'alert');
  for (const rank of ranks) {
    const most = Math.max(...left.map(rank));
    left = left.filter((change) => rank(change) === most);
  }
  return left[0];
}

const attempt = {} as AttemptRecord;
const at = (version: number, number: number, origin: number, failures = 0): ChangedJob & { isOwn: true } => ({
  ...{ topic: 't', id: '1', place: 'p', dueAt: 7, isOwn: true },
  ...{ version, number, origin, failures },
});
const push = (version: number): Change => ({
  kind: 'accepted',
  ...at(version, version, version),
  ...pushedBy(version),
});
const move = (version: number, origin: number): Change => ({
  ...{ kind: 'moved', by: 'run', ...at(version, version, origin) },
});
const retry = (version: number, number: number): Change => ({
  ...{ kind: 'retried', attempt, ...at(version, number, version, 1) },
});
const ack = (version: number, number: number, origin = version): Change => ({
  ...{ kind: 'ended', end: 'done', attempt: null, ...at(version, number, origin) },
});
const expire = (version: number, number: number): Change =>
  ({ ...ack(version, number), end: 'expired' }) as Change;
const cancel = (
  number: number,
  origin: number,
  end: 'cancelled' | 'purged' | 'done' = 'cancelled',
): Change => ({
  ...{ kind: 'ended', end, attempt: null, ...at(number, number, origin) },
});
const alert = (version: number): Change => ({ kind: 'alert', ...at(version, version, version) });

/** The row of the changes in any order: with at most four of them, in each one. */
function rowIn(changes: readonly Change[]): JobRow {
  const row = merged(rowsOf(changes));
  const dice = new Dice(1);
  for (let n = 0; n < 50; n += 1) same(merged(rowsOf(shuffled(changes, dice))), row, changes);
  return row;
}

describe('mergeRows', () => {
  it('is commutative, associative and idempotent', () => {
    each(1, (changes, dice) => {
      const [a, b, c] = [0, 1, 2].map(() =>
        merged(
          rowsOf(
            changes
              .filter((_, n) => n === 0 || dice.chance(0.5))
              .slice(dice.below(2))
              .concat(dice.pick(changes)),
          ),
        ),
      ) as [JobRow, JobRow, JobRow];
      same(mergeRows(a, b), mergeRows(b, a), changes);
      same(mergeRows(mergeRows(a, b), c), mergeRows(a, mergeRows(b, c)), changes);
      same(mergeRows(a, a), a, changes);
    });
  });

  it('gives one row for shuffled, repeated and grouped changes', () => {
    each(2, (changes, dice) => {
      const row = merged(rowsOf(changes));
      const arrived = shuffled([...changes, ...changes.filter(() => dice.chance(0.3))], dice);
      same(merged(rowsOf(arrived)), row, changes);
      same(grouped(rowsOf(arrived), dice), row, changes);
    });
  });

  it('the highest standing decides what the job is', () => {
    each(3, (changes, dice) => {
      const row = merged(rowsOf(shuffled(changes, dice)));
      const top = highest(changes);
      if (top === undefined) return expect(row.state).toBe('none');
      const { version, origin, number, dueAt, failures, place } = top;
      expect(row).toMatchObject({ version, origin, number, dueAt, failures, place });
      const { state, orderAt, reason } = rowOf(top);
      expect(row).toMatchObject({ state, orderAt, reason });
    });
  });

  it('keeps the newest body until its origin has ended', () => {
    each(4, (changes, dice) => {
      const row = merged(rowsOf(shuffled(changes, dice)));
      const origins = changes.flatMap((each) => (each.kind === 'accepted' ? each.origin : []));
      const ends = changes.flatMap((each) =>
        each.kind === 'ended' ? (each.version === each.number ? each.number : each.origin) : [],
      );
      const newest = Math.max(0, ...origins);
      expect(row.bodyOrigin).toBe(newest);
      expect(row.endedOrigin).toBe(Math.max(0, ...ends));
      const isKept = newest > 0 && newest > row.endedOrigin;
      expect(row.pushed?.body).toBe(isKept ? pushedBy(newest).body : undefined);
    });
  });

  it('keeps the newest version whose alert was settled', () => {
    each(5, (changes, dice) => {
      const settled = changes.flatMap((each) => (each.kind === 'alert' ? each.version : []));
      expect(merged(rowsOf(shuffled(changes, dice))).alertTold).toBe(Math.max(0, ...settled));
    });
  });

  it('an ack of a version that came back does not hide the newer push', () => {
    const known = [push(1_000), retry(1_000, 1_500), push(1_700), ack(1_000, 1_900)];
    expect(rowIn(known)).toMatchObject({ state: 'waiting', version: 1_700, pushed: pushedBy(1_700) });
    expect(rowIn([...known, cancel(2_000, 1_000)])).toMatchObject({ state: 'cancelled', pushed: null });
  });

  it('a version that ended hides its own later changes', () => {
    const row = rowIn([push(1_000), ack(1_000, 1_200), retry(1_000, 1_400)]);
    expect(row).toMatchObject({ state: 'done', number: 1_200 });
  });

  it.each(['cancelled', 'purged', 'done'] as const)(
    'an operator end as %s ends every earlier push',
    (end) => {
      const row = rowIn([push(1_000), push(1_700), cancel(2_000, 1_000, end)]);
      expect(row).toMatchObject({ state: end, pushed: null, endedOrigin: 2_000 });
    },
  );

  it('a found row with more failures decides over the push of the same number', () => {
    const found = { ...push(1_000), isOwn: false, failures: 2, dueAt: 9 };
    expect(rowIn([push(1_000), found])).toMatchObject({ failures: 2, dueAt: 9 });
    expect(rowIn([{ ...push(1_000), dueAt: 11 }, found])).toMatchObject({ failures: 2, dueAt: 9 });
    expect(rowIn([{ ...push(1_000), dueAt: 11 }, push(1_000)])).toMatchObject({ dueAt: 11 });
  });
});

describe('rowOf', () => {
  const death = { deadAt: 5, reason: 'gone', ...at(1_000_000, 3_000_000, 1_000_000) } as const;
  it.each<[Change, Partial<JobRow>]>([
    [
      { kind: 'dead', attempt, ...death },
      { state: 'dead', orderAt: 3_000, dueAt: 7, reason: 'gone' },
    ],
    [ack(1_000_000, 3_000_000), { state: 'done', orderAt: 3_000, dueAt: 7, reason: null }],
    [expire(1_000_000, 3_000_000), { state: 'expired', orderAt: 3_000 }],
    [cancel(3_000_000, 1_000_000), { state: 'cancelled', orderAt: 3_000 }],
    [
      { kind: 'restored', ...death },
      { state: 'dead', orderAt: 5, reason: 'gone' },
    ],
    [
      { kind: 'restored', ...death, deadAt: null, reason: null },
      { state: 'waiting', orderAt: 7, reason: null },
    ],
    [alert(1_000), { state: 'none', version: 0, number: 0, alertTold: 1_000 }],
    [push(1_000), { state: 'waiting', orderAt: 7, bodyOrigin: 1_000 }],
  ])('$kind', (change, row) => {
    expect(rowOf(change)).toMatchObject(row);
    expect(isEnded(rowOf(change))).toBe(change.kind === 'ended');
  });
});

describe('isRestorable', () => {
  it.each<[string, boolean, readonly Change[]]>([
    ['a waiting job', true, [push(1_000)]],
    ['a moved job', true, [push(1_000), move(1_300, 1_000)]],
    [
      'a dead job',
      true,
      [push(1_000), { kind: 'dead', reason: 'gone', attempt, ...at(1_000, 1_200, 1_000) }],
    ],
    ['a job whose older push was acked', true, [push(1_000), ack(1_000, 1_800), push(1_700)]],
    ['a job whose push is unknown', false, [move(1_300, 1_000)]],
    ['a job of which only an older push is known', false, [push(1_000), move(1_900, 1_700)]],
    ['a job of which only an alert is known', false, [alert(1_000)]],
    ['an acked job', false, [push(1_000), ack(1_000, 1_200)]],
    ['an acked version of a newer push', false, [push(1_000), push(1_700), ack(1_900, 2_000, 1_300)]],
    ['an expired job', false, [push(1_000), expire(1_000, 1_200)]],
    ['a cancelled job', false, [push(1_000), cancel(1_200, 1_000)]],
    [
      'a newer version of an origin that ended after a rollback',
      false,
      [push(1_000), move(1_300, 1_000), ack(1_000, 1_500)],
    ],
    [
      'a job that was put back',
      true,
      [push(1_000), { kind: 'restored', deadAt: null, reason: null, ...at(1_000, 1_400, 1_000) }],
    ],
  ])('%s: %s', (_job, expected, changes) => {
    expect(isRestorable(rowIn(changes))).toBe(expected);
  });

  it('holds only for rows with a body', () => {
    each(6, (changes, dice) => {
      const row = merged(rowsOf(shuffled(changes, dice)));
      if (isRestorable(row)) expect(row.pushed?.body).toBe(pushedBy(row.bodyOrigin).body);
    });
  });
});
