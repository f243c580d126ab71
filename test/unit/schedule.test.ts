// Tests the instants of schedules against a second implementation of cron, the rules about summer time, and
// missed instants.
import { Cron } from 'croner';
import { describe, expect, it } from 'vitest';
import { readZone } from '../../src/core/calendar.ts';
import { tickId } from '../../src/core/job-id.ts';
import { limits } from '../../src/core/limits.ts';
import { lastTick, misplacedTick, nextTick, nextTicks, planTick, readCron } from '../../src/core/schedule.ts';
import { texts, words } from '../support/words.ts';

const second = 1_000;
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const cronTimes = (cron: string, timezone = 'UTC') => ({
  ...{ cron, everyMs: null, timezone, createdAt: 0 },
  ...{ isPaused: false, earlier: [], madeAt: null },
});
const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString().replace('.000Z', 'Z'));

const expressions = [
  ...['0 0 * * 3', '40 6,18 * * *', '1 1 1 * *', '0 20 * 12 *', '*/10 7 * * 1-6'],
  ...['* * * * *', '*/5 * * * *', '0 * * * *', '15 * * * *', '*/15 9-17 * * *', '0 0 * * *', '30 2 * * *'],
  ...['0 9 * * 1-5', '0 9 * * MON-FRI', '0 0 * * 0', '0 0 * * 7', '0 12 * * 6,0', '0 0 1 * *', '0 0 15 * *'],
  ...['0 0 31 * *', '0 0 29 2 *', '0 0 1 1 *', '0 0 1 JAN *', '0 0 1 */3 *', '0 0 1 1,7 *', '59 23 31 12 *'],
  ...['0 0 1,15 * 1', '0 0 13 * 5', '5 4 * * SUN', '0 22 * * 1-5', '23 0-20/2 * * *', '5,10,15 10 * * *'],
  ...['0-29/10 * * * *', '1-59/2 * * * *', '0 8-18/3 * * *', '0 0-23/6 * * *', '45 23 * * 2', '0 6 1-7 * *'],
  ...['0 6 * 1-3 *', '0 6 * 11,12 *', '0 0 28-31 * *', '10 3 */2 * *', '10 3 */10 * *', '7 7 7 7 *'],
  ...['0 0 * 2 *', '0 0 30 4,6,9,11 *', '0 5 * * 1,3,5', '0 5 * * 2-4', '0 5 * * */2', '*/20 */4 * * *'],
  ...['12 12 12 12 *', '0 3 * * 4', '0 4 8-14 * *', '30 9 * * 1', '0 17 * * 5', '*/30 8-9 * * *'],
  ...texts`0 1,13 * * * | 50 5 20 * * | 0 10 1 4 * | 0 0 25 12 * | 33 3 3 3 * | 0 18 * 5-9 1-5 | 2 2 2 2 *`,
];

describe('cron', () => {
  it(`${expressions.length} expressions have the instants of a second implementation`, () => {
    expect(new Set(expressions).size).toBeGreaterThanOrEqual(60);
    const from = Date.UTC(2026, 0, 1, 0, 30);
    for (const cron of expressions) {
      expect(readCron(cron, from), cron).toEqual({ ok: true, value: cron });
      for (const timezone of ['UTC', 'Asia/Shanghai', 'Asia/Kolkata']) {
        const other = new Cron(cron, { timezone });
        const expected: number[] = [];
        for (
          let at = other.nextRun(new Date(from));
          at !== null && expected.length < 20;
          at = other.nextRun(at)
        )
          expected.push(at.getTime());
        expect(nextTicks(cronTimes(cron, timezone), from, 20).map(iso), `${cron} ${timezone}`).toEqual(
          expected.map(iso),
        );
      }
    }
  });

  it('go on where clocks are set back by half an hour', () => {
    const times = cronTimes('0 9 * * *', 'Australia/Lord_Howe');
    expect(iso(nextTick(times, Date.UTC(2026, 3, 4, 14)))).toBe('2026-04-04T22:30:00Z');
    const hourly = cronTimes('0 * * * *', 'Australia/Lord_Howe');
    const before = Date.UTC(2026, 3, 4, 14, 20);
    expect(nextTick(hourly, before)).toBeGreaterThan(before);
  });

  it('rejects invalid expressions', () => {
    for (const text of [
      '',
      ...texts`
        0 9 * * | 0 0 9 * * * | 60 * * * * | a b c d e | * * * * 8 | 5-1 * * * * | H * * * * | * * * * 1, |
        */0 * * * * | 1-2-3 * * * * | * * 0 * * | * * * * MO | * * * * 1#6
      `,
      `${'1,'.repeat(600)}1 * * * *`,
    ])
      expect(readCron(text, 0).ok, text).toBe(false);
    expect(readCron(' 0   9 * * * ', 0)).toEqual({ ok: true, value: '0 9 * * *' });
    expect(readCron('@daily', 0)).toEqual({ ok: true, value: '@daily' });
    expect(readCron('@reboot', 0).ok).toBe(false);
    expect(readZone('Asia/Shanghai')).toEqual({ ok: true, value: 'Asia/Shanghai' });
    expect(readZone('Mars/Olympus').ok).toBe(false);
  });

  it.each(['Asia/Shangai', 'asia/shanghay', 'Shanghai', 'Asia/Beijing'])(
    'names the zone that %s means',
    (name) => {
      const message = `unknown time zone "${name}"; did you mean Asia/Shanghai?`;
      expect(readZone(name)).toEqual({ ok: false, message });
    },
  );

  it('accepts what cron accepts: equal values in lists, steps beyond the range, and the weekday 7', () => {
    const same = (cron: string, as: string) => {
      const [from, one, other] = [Date.UTC(2026, 0, 1), cronTimes(cron), cronTimes(as)];
      expect(readCron(cron, from), cron).toEqual({ ok: true, value: cron });
      expect(nextTicks(one, from, 40).map(iso), cron).toEqual(nextTicks(other, from, 40).map(iso));
    };
    same('0 0 */100,1-7 * *', '0 0 1-7 * *');
    same('1,1,0-3 0 * * 0,7', '0-3 0 * * 0');
    same('0 0 * * 5-7', '0 0 * * 0,5,6');
    same('0 0 ? * MON', '0 0 * * 1');
    same('5/15 * * * *', '5,20,35,50 * * * *');
  });

  it('day of month and weekday: both where one begins with a star, else either one', () => {
    const of = (cron: string) =>
      nextTicks(cronTimes(cron), Date.UTC(2026, 0, 1), 4).map((at) =>
        new Date(at).toISOString().slice(5, 10),
      );
    expect(of('0 0 */2 * 1')).toEqual(['01-05', '01-19', '02-09', '02-23']);
    expect(of('0 0 13 * */5')).toEqual(['02-13', '03-13', '09-13', '11-13']);
    expect(of('0 0 13 * 5')).toEqual(['01-02', '01-09', '01-13', '01-16']);
    expect(of('0 0 L * 5')).toEqual(['01-02', '01-09', '01-16', '01-23']);
    expect(of('0 0 L * *')).toEqual(['01-31', '02-28', '03-31', '04-30']);
    expect(of('0 0 * * 5L')).toEqual(['01-30', '02-27', '03-27', '04-24']);
    expect(of('0 0 * * FRI#2')).toEqual(['01-09', '02-13', '03-13', '04-10']);
  });

  it('looks 8 years ahead and back', () => {
    const leap = cronTimes('0 0 29 2 *');
    expect(iso(nextTick(leap, Date.UTC(2096, 1, 29)))).toBe('2104-02-29T00:00:00Z');
    expect(iso(lastTick(leap, Date.UTC(2104, 1, 28)))).toBe('2096-02-29T00:00:00Z');
    const rare = '0 0 * 2 4#5';
    expect(readCron(rare, Date.UTC(2026, 0, 1))).toEqual({
      ok: false,
      message: 'has no instant in the next 8 years',
    });
    expect(iso(nextTick(cronTimes(rare), Date.UTC(2050, 0, 1)))).toBe('2052-02-29T00:00:00Z');
    expect(readCron('0 0 31 2 *', 0).ok).toBe(false);
  });

  it('a time zone is kept as it was written', () => {
    expect(readZone('Asia/Kolkata')).toEqual({ ok: true, value: 'Asia/Kolkata' });
    expect(iso(nextTick(cronTimes('0 9 * * *', 'Asia/Kolkata'), 0))).toBe('1970-01-01T03:30:00Z');
  });

  it('spring: a local time that does not exist is as long after midnight as without the change', () => {
    const berlin = cronTimes('30 2 * * *', 'Europe/Berlin');
    expect(nextTicks(berlin, Date.UTC(2026, 2, 28), 3).map(iso)).toEqual([
      '2026-03-28T01:30:00Z',
      '2026-03-29T01:30:00Z',
      '2026-03-30T00:30:00Z',
    ]);
    const hourly = cronTimes('0 * * * *', 'Europe/Berlin');
    expect(nextTicks(hourly, Date.UTC(2026, 2, 29, 0, 30), 2).map(iso)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-03-29T02:00:00Z',
    ]);
    const newYork = cronTimes('30 2 * * *', 'America/New_York');
    expect(iso(nextTick(newYork, Date.UTC(2026, 2, 8)))).toBe('2026-03-08T07:30:00Z');
  });

  it('autumn: of a local time that exists twice the first one, and both for every hour', () => {
    const berlin = cronTimes('30 2 * * *', 'Europe/Berlin');
    expect(nextTicks(berlin, Date.UTC(2026, 9, 24, 12), 2).map(iso)).toEqual([
      '2026-10-25T00:30:00Z',
      '2026-10-26T01:30:00Z',
    ]);
    const halves = cronTimes('*/30 * * * *', 'Europe/Berlin');
    expect(nextTicks(halves, Date.UTC(2026, 9, 25, 0, 10), 4).map(iso)).toEqual(words`
      2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z 2026-10-25T02:00:00Z
    `);
    const newYork = cronTimes('30 1 * * *', 'America/New_York');
    expect(nextTicks(newYork, Date.UTC(2026, 10, 1), 2).map(iso)).toEqual([
      '2026-11-01T05:30:00Z',
      '2026-11-02T06:30:00Z',
    ]);
  });

  it.each([
    ['America/Nuuk', '59 23 * * *', '2026-03-28T12:00:00Z', ['2026-03-29T01:59:00Z', '2026-03-30T00:59:00Z']],
    ['America/Havana', '0 0 * * *', '2026-10-31T12:00:00Z', ['2026-11-01T04:00:00Z', '2026-11-02T05:00:00Z']],
    [
      'Atlantic/Azores',
      '0 0 * * *',
      '2026-10-24T12:00:00Z',
      ['2026-10-25T00:00:00Z', '2026-10-26T01:00:00Z'],
    ],
    [
      'Europe/Berlin',
      '0 */2 * * *',
      '2026-10-24T23:00:00Z',
      ['2026-10-25T00:00:00Z', '2026-10-25T01:00:00Z'],
    ],
  ])('in %s %s has the same instants forward and backward', (zone, cron, from, instants) => {
    const times = cronTimes(cron, zone);
    expect(nextTicks(times, Date.parse(from), 2).map(iso)).toEqual(instants);
    const last = lastTick(times, Date.parse(instants[1] ?? '') + 1);
    expect([iso(lastTick(times, (last ?? 0) - 1)), iso(last)]).toEqual(instants);
  });

  it('the last instant is the one before the next', () => {
    for (const cron of ['0 9 * * 1-5', '*/7 * * * *', '0 0 31 * *']) {
      const times = cronTimes(cron, 'Europe/Berlin');
      const [first = 0, second = 0] = nextTicks(times, Date.UTC(2026, 4, 5, 6, 7, 8), 2);
      expect([lastTick(times, first), lastTick(times, first + 1), lastTick(times, second - 1)]).toEqual([
        ...[first, first, first],
      ]);
    }
  });
});

describe('every', () => {
  it('counts from the creation, in real time', () => {
    const times = { cron: null, everyMs: 10 * minute, timezone: 'UTC', createdAt: 7 };
    expect(nextTicks(times, 7, 2)).toEqual([7 + 10 * minute, 7 + 20 * minute]);
    expect(nextTick(times, 6)).toBe(7);
    expect(nextTick(times, 6 + 10 * minute)).toBe(7 + 10 * minute);
    expect([lastTick(times, 6 + 10 * minute), lastTick(times, 7 + 10 * minute)]).toEqual([
      7,
      7 + 10 * minute,
    ]);
  });
});

describe('an instant that is due', () => {
  const times = cronTimes('0 * * * *');
  const at = Date.UTC(2026, 0, 1, 12);

  it('is made once, also when it is a little late', () => {
    for (const late of [0, limits.tickLateMs])
      expect(planTick(times, 'skip', at, at + late)).toEqual({ make: at, nextAt: at + hour });
    expect(planTick(times, 'last', at, at - 1)).toEqual({ make: null, nextAt: at });
  });

  it('missed: nothing, or the last one; the next one is in the future', () => {
    const now = at + 5 * hour + 30 * minute;
    expect(planTick(times, 'skip', at, now)).toEqual({ make: null, nextAt: at + 6 * hour });
    expect(planTick(times, 'last', at, now)).toEqual({ make: at + 5 * hour, nextAt: at + 6 * hour });
    // The last one is just due.
    expect(planTick(times, 'skip', at, at + 5 * hour + 1)).toEqual({
      make: at + 5 * hour,
      nextAt: at + 6 * hour,
    });
  });

  it('of a clock that was ahead is misplaced, and the right one follows from the times', () => {
    const stored = (nextAt: number | null, more: object = {}) => ({ ...times, ...more, nextAt });
    const now = at + 10 * minute;
    for (const nextAt of [null, at - hour, now, at + hour, at + hour + limits.tickLateMs])
      expect(misplacedTick(stored(nextAt), now)).toBeNull();
    for (const nextAt of [at + 2 * hour, at + 26 * hour])
      expect(misplacedTick(stored(nextAt), now)).toEqual({ nextAt: at + hour });
    const every = { cron: null, everyMs: 5 * second, createdAt: now + 26 * hour };
    expect(misplacedTick(stored(now + 26 * hour + 5 * second, every), now)).toEqual({
      nextAt: now + 5 * second,
    });
    expect(misplacedTick(stored(null, { isPaused: true }), now)).toBeNull();
    // A pause by that clock kept an instant as due.
    const earlier = [{ ...times, topic: 't', until: at + 26 * hour }];
    expect(misplacedTick(stored(at + 2 * hour, { isPaused: true, earlier }), now)).toEqual({ nextAt: null });
  });

  it('to which a clock that was behind led back is not made again', () => {
    const now = at + 5 * hour + 30 * minute;
    const stored = { ...times, madeAt: at + 5 * hour };
    for (const missed of ['skip', 'last'] as const) {
      expect(planTick(stored, missed, at - day, now)).toEqual({
        make: null,
        nextAt: at + 6 * hour,
        wasMade: true,
      });
      const young = { ...times, createdAt: at + 5 * hour + minute };
      expect(planTick(young, missed, at - day, now)).toEqual({
        make: null,
        nextAt: at + 6 * hour,
        wasMade: true,
      });
    }
    // One that followed and was missed.
    expect(planTick({ ...times, madeAt: at }, 'last', at - day, now)).toEqual({
      make: at + 5 * hour,
      nextAt: at + 6 * hour,
    });
    // The clock was ahead: each instant counts at its time.
    expect(planTick({ ...times, madeAt: now + day }, 'skip', at + 5 * hour, at + 5 * hour)).toEqual({
      make: at + 5 * hour,
      nextAt: at + 6 * hour,
    });
  });

  it('by a clock that went back is not made again', () => {
    const { nextAt } = planTick(times, 'last', at, at + 1);
    expect(planTick(times, 'last', nextAt ?? 0, at - day)).toEqual({ make: null, nextAt });
  });

  it('of times that a change replaced is made, and those of the new times follow from the change on', () => {
    const until = at + 25 * second;
    const tens = { cron: null, everyMs: 10 * second, timezone: 'UTC', createdAt: at };
    const replaced = { ...tens, isPaused: false, topic: 't', until };
    const changed = { ...times, earlier: [replaced] };
    const plan = (one: typeof changed, from: number, now: number, missed: 'skip' | 'last' = 'skip') =>
      planTick(one, missed, at + from * second, at + now * second);
    const next = (make: number | null, nextAt: number | null) => ({
      make: make === null ? null : at + make * second,
      nextAt: nextAt === null ? null : at + nextAt * second,
    });
    expect(plan(changed, 0, 25)).toEqual(next(0, 10));
    expect(plan(changed, 10, 25)).toEqual(next(10, 20));
    expect(plan(changed, 20, 25)).toEqual(next(20, 3_600));
    expect(plan({ ...changed, isPaused: true }, 10, 25)).toEqual(next(10, 20));
    expect(plan({ ...changed, isPaused: true }, 20, 25)).toEqual(next(20, null));
    const resumed = [replaced, { ...replaced, isPaused: true, until: at + 1_000 * second }];
    expect(plan({ ...times, earlier: resumed }, 0, 2_000)).toEqual(next(null, 3_600));
    // Missed: the last one of both.
    expect(plan(changed, 0, 3_000, 'last')).toEqual(next(20, 3_600));
    expect(plan(changed, 0, 4_000, 'last')).toEqual(next(3_600, 7_200));
    // The clock of the change was ahead, and is right again.
    expect(plan({ ...times, earlier: [{ ...replaced, until: at + day }] }, 0, 15)).toEqual(next(0, 10));
    expect(plan({ ...times, earlier: [{ ...replaced, until: at + day }] }, 10, 15)).toEqual(next(10, 3_600));
  });

  it('has an id that names it', () => {
    expect(tickId('daily', at)).toBe('schedule:daily:2026-01-01T12:00:00Z');
    expect(tickId('daily', at + 5)).toBe('schedule:daily:2026-01-01T12:00:00.005Z');
  });
});
