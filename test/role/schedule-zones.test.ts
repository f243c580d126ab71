// Compares the instants of cron expressions at changes of the clock with the rules of the manual: in each
// zone whose clock changes within twenty years, each kind of change, forward and backward. The expected
// instants come from a walk over the minutes, and the expressions are written down again as conditions.
import { expect, it } from 'vitest';
import { lastTick, nextTick } from '../../src/core/schedule.ts';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const from = Date.UTC(2016, 0, 1);
const to = Date.UTC(2036, 0, 1);

/** A local time; `last`: the last day of its month. */
interface Local {
  readonly m: number;
  readonly h: number;
  readonly date: number;
  readonly month: number;
  readonly weekday: number;
  readonly last: boolean;
}

const rules: readonly (readonly [cron: string, isNamed: (local: Local) => boolean])[] = [
  ['* * * * *', () => true],
  ['*/15 * * * *', ({ m }) => m % 15 === 0],
  ['0 * * * *', ({ m }) => m === 0],
  ['20 * * * *', ({ m }) => m === 20],
  ['0 */2 * * *', ({ m, h }) => m === 0 && h % 2 === 0],
  ['45 */3 * * *', ({ m, h }) => m === 45 && h % 3 === 0],
  ['0 0-23/2 * * *', ({ m, h }) => m === 0 && h % 2 === 0],
  ['*/20 1-3 * * *', ({ m, h }) => m % 20 === 0 && h >= 1 && h <= 3],
  ['* 2 * * *', ({ h }) => h === 2],
  ['0 0 * * *', ({ m, h }) => m === 0 && h === 0],
  ['30 0 * * *', ({ m, h }) => m === 30 && h === 0],
  ['0 1 * * *', ({ m, h }) => m === 0 && h === 1],
  ['30 1 * * *', ({ m, h }) => m === 30 && h === 1],
  ['30 2 * * *', ({ m, h }) => m === 30 && h === 2],
  ['0 3 * * *', ({ m, h }) => m === 0 && h === 3],
  ['30 22,23 * * *', ({ m, h }) => m === 30 && h >= 22],
  ['59 23 * * *', ({ m, h }) => m === 59 && h === 23],
  ['30 0-3 * * 0', ({ m, h, weekday }) => m === 30 && h <= 3 && weekday === 0],
  ['59 23 * * 6', ({ m, h, weekday }) => m === 59 && h === 23 && weekday === 6],
  [
    '15 0,2 */2 * SUN',
    ({ m, h, date, weekday }) => m === 15 && h % 2 === 0 && h <= 2 && date % 2 === 1 && weekday === 0,
  ],
  [
    '15 0,2 2-30/2 * 0',
    ({ m, h, date, weekday }) => m === 15 && (h === 0 || h === 2) && (date % 2 === 0 || weekday === 0),
  ],
  ['0 2 L * *', ({ m, h, last }) => m === 0 && h === 2 && last],
  [
    '30 2 * 3 0#2',
    ({ m, h, date, month, weekday }) =>
      m === 30 && h === 2 && month === 3 && weekday === 0 && date > 7 && date < 15,
  ],
  [
    '30 2 * MAR,OCT 7L',
    (one) => one.m === 30 && one.h === 2 && [3, 10].includes(one.month) && one.weekday === 0 && one.date > 24,
  ],
];

interface Change {
  readonly zone: string;
  readonly at: number;
  /** ms ahead of UTC */
  readonly before: number;
  readonly after: number;
}

/** What the clock of the zone shows minus UTC, ms. */
function offsets(zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    ...{ timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });
  return (at) => Date.parse(`${format.format(at)} UTC`) - at;
}

function changesOf(zone: string): readonly Change[] {
  const offset = offsets(zone);
  const changes: Change[] = [];
  const step = 4 * day;
  let before = offset(from);
  for (let at = from + step; at < to; at += step) {
    const after = offset(at);
    if (after === before) continue;
    let [low, high] = [at - step, at];
    while (high - low > minute) {
      const middle = low + Math.round((high - low) / 2 / minute) * minute;
      if (offset(middle) === before) low = middle;
      else high = middle;
    }
    changes.push({ zone, at: high, before, after });
    before = after;
  }
  return changes;
}

function localOf(wall: number): Local {
  const date = new Date(wall);
  return {
    ...{ m: date.getUTCMinutes(), h: date.getUTCHours(), date: date.getUTCDate() },
    ...{ month: date.getUTCMonth() + 1, weekday: date.getUTCDay() },
    last: new Date(wall + day).getUTCDate() === 1,
  };
}

interface Around {
  /** the instants at which the clock shows a local time, by that time as if it were UTC */
  readonly shown: ReadonlyMap<number, readonly number[]>;
  readonly locals: readonly (readonly [wall: number, local: Local])[];
}

function aroundOf({ at, before, after }: Change): Around {
  const shown = new Map<number, number[]>();
  for (let one = at - 3 * day; one < at + 3 * day; one += minute) {
    const wall = one + (one < at ? before : after);
    const known = shown.get(wall);
    if (known === undefined) shown.set(wall, [one]);
    else known.push(one);
  }
  const locals: [number, Local][] = [];
  for (let wall = at - 2 * day; wall < at + 2 * day; wall += minute) locals.push([wall, localOf(wall)]);
  return { shown, locals };
}

/** The instants around a change, by the rules of the manual. */
function expectedOf(
  { shown, locals }: Around,
  isEveryHour: boolean,
  isNamed: (local: Local) => boolean,
): number[] {
  const instants = new Set<number>();
  let known = 0;
  for (const [wall, local] of locals) {
    const found = shown.get(wall) ?? [];
    if (found.length > 0) known = wall;
    if (!isNamed(local)) continue;
    // Skipped: as long after the last local time that exists as without the change.
    if (found.length === 0) instants.add((shown.get(known)?.[0] ?? 0) + wall - known);
    else for (const one of isEveryHour ? found : found.slice(0, 1)) instants.add(one);
  }
  return [...instants].sort((a, b) => a - b);
}

const zones = Intl.supportedValuesOf('timeZone');
const all = zones.map(changesOf).filter((changes) => changes.length > 0);
/** Of zones with the same changes one; of each one the kinds of its changes: size, local time, weekday. */
const kinds = [
  ...new Map(
    all.map((changes) => [JSON.stringify(changes.map(({ zone: _, ...one }) => one)), changes]),
  ).values(),
].flatMap((changes) => [
  ...new Map(
    changes.map((one) => [`${(one.at + one.before) % (7 * day)} ${one.after - one.before}`, one]),
  ).values(),
]);

it('no zone changes its clock twice within three days', () => {
  expect(all.length).toBeGreaterThan(100);
  for (const changes of all)
    for (const [n, { at }] of changes.entries())
      if (n > 0) expect(at - (changes[n - 1]?.at ?? 0)).toBeGreaterThan(6 * day);
});

it(`${rules.length} expressions follow the rules at each kind of change, forward and backward`, () => {
  expect(new Set(kinds.map(({ zone }) => zone)).size).toBeGreaterThan(50);
  const compared = new Map<string, number>();
  const differing: object[] = [];
  for (const change of kinds) {
    const around = aroundOf(change);
    for (const [cron, isNamed] of rules) {
      const all = expectedOf(around, cron.split(' ')[1]?.startsWith('*') === true, isNamed);
      // A skipped local time of one day is an instant of the next one.
      const reach = all.length > 500 ? 3 * hour : day;
      const [low, high] = [change.at - reach + 17 * minute, change.at + reach + 17 * minute];
      const times = { cron, everyMs: null, timezone: change.zone, createdAt: 0 };
      const expected = all.filter((one) => one > low && one <= high);
      const forward: number[] = [];
      for (let at = nextTick(times, low); at !== null && at <= high; at = nextTick(times, at))
        forward.push(at);
      const backward: number[] = [];
      for (let at = lastTick(times, high); at !== null && at > low; at = lastTick(times, at - 1))
        backward.unshift(at);
      const shown = (one: readonly number[]) => one.map((at) => new Date(at).toISOString()).join(' ');
      compared.set(cron, (compared.get(cron) ?? 0) + forward.length);
      if (shown(forward) !== shown(expected) || shown(backward) !== shown(expected))
        differing.push({
          ...{ cron, zone: change.zone, at: new Date(change.at) },
          ...{ expected: shown(expected), forward: shown(forward), backward: shown(backward) },
        });
    }
  }
  console.log(
    `${zones.length} zones, ${all.length} with changes, ${kinds.length} kinds of changes, ${[...compared.values()].reduce((a, b) => a + b)} instants each way`,
  );
  expect(differing.slice(0, 5)).toEqual([]);
  expect(compared.size).toBe(rules.length);
}, 240_000);
