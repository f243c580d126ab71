// Facts of a step: sums, percentiles, and the packed form that registries keep for months.
import { expect, it } from 'vitest';
import {
  addFacts,
  addReason,
  addTime,
  type Facts,
  failedOf,
  noFacts,
  packFacts,
  percentileOf,
  reasonKey,
  reasonOfKey,
  unpackFacts,
} from '../../src/core/series.ts';

function busy(): Facts {
  const facts = noFacts();
  facts.counts.pushed = 1_302;
  facts.counts.delivered = 2 ** 40;
  facts.counts.cancelled = 1;
  facts.counts.firstAttempts = 10;
  facts.counts.firstDelivered = 9;
  for (const ms of [0, 3, 3, 41, 99, 4_000_000]) addTime(facts.lateness, ms);
  addTime(facts.duration, 72);
  addReason(facts, reasonKey('timeout', null), 9);
  addReason(facts, reasonKey('status', 502), 130);
  facts.stored = { delayed: 1_204_449, ready: 118, reserved: 31, dead: 1_768, oldestOverdueMs: 0 };
  facts.isComplete = false;
  return facts;
}

it('pack: facts survive, with and without stored jobs', () => {
  for (const facts of [busy(), noFacts(), { ...busy(), stored: null, isComplete: true }])
    expect(unpackFacts(packFacts(facts))).toEqual(facts);
});

it('pack: snoozes survive, and cost no byte without one', () => {
  const snoozed = busy();
  snoozed.counts.again = 700;
  expect(unpackFacts(packFacts(snoozed))).toEqual(snoozed);
  const bytesOf = (facts: Facts) => [...Buffer.from(packFacts(facts), 'base64')];
  const [form, flag = 0, ...rest] = bytesOf(busy());
  expect(bytesOf(snoozed), 'readers that do not know it find all else').toEqual([
    ...[form, flag + 4, ...rest],
    ...[(700 % 128) | 128, Math.floor(700 / 128)],
  ]);
  expect(packFacts(busy())).toBe('AQGWCoCAgICAIAAAAQoJ4cFJdh/oDQGAkvQBhZSAgAgBAgEBAUiAEAEC9gOCAQQJ');
});

it('pack: the text has this form', () => {
  const packed = 'AQGWCoCAgICAIAAAAQoJ4cFJdh/oDQGAkvQBhZSAgAgBAgEBAUiAEAEC9gOCAQQJ';
  expect(unpackFacts(packed)).toEqual(busy());
});

it('unpack: damaged and newer forms are null', () => {
  const packed = packFacts(busy());
  for (const text of ['', 'AA==', 'AgM=', packed.slice(0, 20), '!!', '////////////////'])
    expect(unpackFacts(text), text).toBeNull();
});

it('pack: more than 19 reasons keep their sum', () => {
  const facts = noFacts();
  for (let status = 500; status < 560; status += 1) addReason(facts, status, status - 499);
  const read = unpackFacts(packFacts(facts)) as Facts;
  expect(read.reasons.size).toBe(19);
  expect(failedOf(read)).toBe(failedOf(facts));
  expect(read.reasons.get(559)).toBe(60);
});

it('sum: counts, times and reasons add up; stored jobs are the newer ones', () => {
  const sum = busy();
  const more = noFacts();
  more.counts.pushed = 8;
  addTime(more.lateness, 5_000_000);
  addReason(more, reasonKey('timeout', null));
  addFacts(sum, more);
  expect(sum.counts.pushed).toBe(1_310);
  expect(sum.lateness.max).toBe(5_000_000);
  expect(sum.stored).toEqual(busy().stored);
  expect(failedOf(sum)).toBe(140);
  addFacts(sum, {
    ...noFacts(),
    stored: { delayed: 1, ready: 0, reserved: 0, dead: 0, oldestOverdueMs: null },
  });
  expect(sum.stored?.delayed).toBe(1);
});

it('percentile: inside the bucket of the value, never above the longest; null without times', () => {
  const { lateness } = noFacts();
  expect(percentileOf(lateness, 0.5)).toBeNull();
  for (let ms = 1; ms <= 1_000; ms += 1) addTime(lateness, ms);
  const p50 = percentileOf(lateness, 0.5) as number;
  expect(p50).toBeGreaterThan(300);
  expect(p50).toBeLessThanOrEqual(500);
  expect(percentileOf(lateness, 0.99)).toBeGreaterThan(700);
  expect(percentileOf(lateness, 1)).toBe(1_000);
  addTime(lateness, 9_000_000);
  expect(percentileOf(lateness, 1)).toBe(9_000_000);
});

it('reason: a status is its number, another reason its position', () => {
  expect(reasonOfKey(reasonKey('status', 502))).toEqual({ reason: 'status', status: 502 });
  expect(reasonOfKey(reasonKey('rule', 200))).toEqual({ reason: 'rule', status: null });
  expect(reasonOfKey(99)).toBeNull();
});
