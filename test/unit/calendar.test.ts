import { describe, expect, it } from 'vitest';
import { createCalendar, createClock, createLocalTime, createOffsetClock } from '../../src/core/calendar.ts';

describe('createCalendar', () => {
  it.each([
    ['UTC', '2030-01-31T23:59:59.999Z', 20_300_131],
    ['UTC', '2030-02-01T00:00:00Z', 20_300_201],
    ['Asia/Shanghai', '2030-01-31T15:59:59.999Z', 20_300_131],
    ['Asia/Shanghai', '2030-01-31T16:00:00Z', 20_300_201],
    ['America/New_York', '2030-01-01T04:59:59Z', 20_291_231],
    ['Asia/Kathmandu', '2030-01-31T18:14:59Z', 20_300_131], // +05:45
    ['Asia/Kathmandu', '2030-01-31T18:15:00Z', 20_300_201],
    ['Pacific/Kiritimati', '2030-01-31T10:00:00Z', 20_300_201], // +14:00
    ['Asia/Beirut', '2021-03-27T21:59:59Z', 20_210_327], // 00:00 becomes 01:00
    ['Asia/Beirut', '2021-03-27T22:00:00Z', 20_210_328],
    ['America/Havana', '2023-11-05T04:30:00Z', 20_231_105], // 01:00 becomes 00:00, the day stays
    ['America/Havana', '2023-11-05T05:30:00Z', 20_231_105],
  ])('%s at %s is the day %d', (timezone, instant, day) => {
    expect(createCalendar(timezone).dayOf(Date.parse(instant))).toBe(day);
  });

  it('calendar: earlier calls do not change its results', () => {
    const calendar = createCalendar('Australia/Lord_Howe'); // changes by half an hour
    const start = Date.parse('2030-04-05T00:00:00Z');
    for (let ms = start; ms < start + 4 * 86_400_000; ms += 11 * 60_000 + 7)
      expect(calendar.dayOf(ms)).toBe(createCalendar('Australia/Lord_Howe').dayOf(ms));
    expect(calendar.dayOf(start)).toBe(20_300_405);
  });
});

describe('createClock', () => {
  it.each([
    ['UTC', '2030-01-31T23:59:59.999Z', '2030-01-31 23:59:59'],
    ['UTC', '2030-02-01T00:00:00Z', '2030-02-01 00:00:00'],
    ['UTC', '0070-02-01T00:00:00Z', '0070-02-01 00:00:00'],
    ['Asia/Shanghai', '2030-01-31T16:00:00Z', '2030-02-01 00:00:00'],
    ['Asia/Kathmandu', '2030-01-31T00:00:00Z', '2030-01-31 05:45:00'],
    ['America/New_York', '2030-07-01T12:00:00Z', '2030-07-01 08:00:00'],
    ['Europe/Berlin', '2026-03-29T00:59:59Z', '2026-03-29 01:59:59'],
    ['Europe/Berlin', '2026-03-29T01:00:00Z', '2026-03-29 03:00:00'],
  ])('in %s %s is %s', (timezone, instant, text) => {
    expect(createClock(timezone)(Date.parse(instant))).toBe(text);
  });
});

describe('createLocalTime', () => {
  it.each([
    ['Asia/Shanghai', '9999-12-31T15:59:59Z'],
    ['Pacific/Kiritimati', '9999-12-31T09:59:59Z'],
    ['America/New_York', '+010000-01-01T04:59:59Z'],
  ])('the last second of the year 9999 in %s', (zone, instant) => {
    expect(createLocalTime(zone)(9999, 12, 31, 23, 59, 59)).toBe(Date.parse(instant));
  });
});

it.each([
  ['UTC', '2030-01-31T23:59:59.999Z', '2030-01-31T23:59:59+00:00'],
  ['Asia/Shanghai', '2026-11-26T01:00:00Z', '2026-11-26T09:00:00+08:00'],
  ['Asia/Kathmandu', '2030-01-31T00:00:00.999Z', '2030-01-31T05:45:00+05:45'],
  ['America/St_Johns', '2030-01-01T00:00:00Z', '2029-12-31T20:30:00-03:30'],
  ['Europe/Berlin', '2026-03-29T00:59:59Z', '2026-03-29T01:59:59+01:00'],
  ['Europe/Berlin', '2026-03-29T01:00:00Z', '2026-03-29T03:00:00+02:00'],
])('createOffsetClock: in %s %s is %s', (timezone, instant, text) => {
  expect(createOffsetClock(timezone)(Date.parse(instant))).toBe(text);
});
