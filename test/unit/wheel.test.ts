// Tests the wheel that shares reserves over priorities and topics.
import { describe, expect, it } from 'vitest';
import type { TopicCapacity } from '../../src/ports/job-store.ts';
import { type Dealt, dealTickets, type ReadyRings } from '../support/deal-tickets.ts';

const plenty = 1_000_000;
const empty: ReadyRings = { high: [], normal: [], low: [] };
const room = (n: number): TopicCapacity => ({ room: n, leaseMs: 1_000 });
const request = (max: number, others = plenty, topics: Record<string, number> = {}) => ({
  max,
  others: room(others),
  topics: new Map(Object.entries(topics).map(([topic, n]) => [topic, room(n)])),
});
const ring = (ready: Record<string, number>) =>
  Object.entries(ready).map(([topic, n]) => ({ topic, ready: n }));

/** The same plan by one call or by many: number of jobs dealt per priority and topic. */
function dealInSteps(rings: ReadyRings, total: number, step: number, rooms = request(0)): Dealt {
  let left = { deals: [], position: 0, rings, more: true } as Dealt;
  const deals = [];
  while (deals.length < total) {
    left = dealTickets(left.position, left.rings, { ...rooms, max: Math.min(step, total - deals.length) });
    if (left.deals.length === 0) break;
    deals.push(...left.deals);
  }
  return { ...left, deals };
}
const count = (dealt: Dealt, key: 'priority' | 'topic') => {
  const counts: Record<string, number> = {};
  for (const deal of dealt.deals) counts[deal[key]] = (counts[deal[key]] ?? 0) + 1;
  return counts;
};
const letters = (dealt: Dealt) => dealt.deals.map((deal) => deal.priority.charAt(0).toUpperCase()).join(' ');

const fiveTopics: ReadyRings = {
  high: ring({ a: plenty, b: plenty }),
  normal: ring({ c: plenty, skipped: plenty }),
  low: ring({ d: plenty }),
};

describe('wheel', () => {
  it('turns H N H L H N H N H L', () => {
    const dealt = dealTickets(0, fiveTopics, request(10));
    expect(letters(dealt)).toBe('H N H L H N H N H L');
    expect(dealt.position).toBe(0);
  });

  it('continues where it stopped', () => {
    const first = dealTickets(0, fiveTopics, request(3));
    expect(first.position).toBe(3);
    expect(letters(dealTickets(first.position, first.rings, request(7)))).toBe('L H N H N H L');
  });

  it.each([1, 7, 250, 1_000])('deals 500:300:200 of the first 1,000 in steps of %i', (step) => {
    const dealt = dealInSteps(fiveTopics, 1_000, step, request(0, plenty, { skipped: 0 }));
    expect(count(dealt, 'priority')).toEqual({ high: 500, normal: 300, low: 200 });
    expect(count(dealt, 'topic')).toEqual({ a: 250, b: 250, c: 300, d: 200 });
  });

  it('deals the same order one by one as all at once', () => {
    const rings: ReadyRings = {
      high: ring({ a: 3, b: 40, c: 1 }),
      normal: ring({ b: 2, d: 25, e: 9 }),
      low: ring({ f: 5, a: 30 }),
    };
    const whole = dealInSteps(rings, 115, 115);
    expect(whole.deals).toHaveLength(115);
    expect(whole.more).toBe(false);
    for (const step of [1, 2, 3, 50]) expect(dealInSteps(rings, 115, step).deals).toEqual(whole.deals);
  });

  it('plans for fewer jobs a prefix of the plan for more', () => {
    const rooms = request(60, 9, { a: 4 });
    const whole = dealTickets(4, fiveTopics, rooms);
    for (const max of [0, 1, 13]) {
      const fewer = dealTickets(4, fiveTopics, { ...rooms, max });
      expect(fewer.deals).toEqual(whole.deals.slice(0, max));
      expect(fewer.more).toBe(true);
      expect(fewer.position).toBe((4 + max) % 10);
    }
  });

  it('serves two topics of one priority 100:100, whatever their queues', () => {
    const dealt = dealInSteps({ ...empty, normal: ring({ long: plenty, short: 100 }) }, 200, 64);
    expect(count(dealt, 'topic')).toEqual({ long: 100, short: 100 });
    expect(dealt.rings.normal.map((entry) => entry.topic)).toEqual(['long']);
  });

  it('passes the ticket of an empty priority to the first of high, normal, low', () => {
    expect(letters(dealTickets(0, { ...fiveTopics, normal: [] }, request(10)))).toBe('H H H L H H H H H L');
    expect(letters(dealTickets(0, { ...fiveTopics, high: [] }, request(10)))).toBe('N N N L N N N N N L');
    expect(letters(dealTickets(3, { ...fiveTopics, high: [], low: [] }, request(3)))).toBe('N N N');
  });

  it('passes the ticket of a priority without capacity, and clears more', () => {
    const dealt = dealTickets(0, fiveTopics, request(100, 0, { d: 4 }));
    expect(count(dealt, 'topic')).toEqual({ d: 4 });
    expect(dealt.more).toBe(false);
    expect(dealt.position).toBe(4);
  });

  it('counts the capacity of a topic over all priorities', () => {
    const rings = { high: ring({ a: 50 }), normal: ring({ a: 50 }), low: ring({ a: 50, b: 1 }) };
    const dealt = dealTickets(0, rings, request(100, 7));
    expect(count(dealt, 'topic')).toEqual({ a: 7, b: 1 });
    expect(letters(dealt)).toBe('H N H L H N H L');
  });

  it('keeps the turn of a topic without capacity, moves a served one last', () => {
    const rings = { ...empty, normal: ring({ full: 5, a: 5, b: 1, c: 5 }) };
    const dealt = dealTickets(0, rings, request(3, plenty, { full: 0 }));
    expect(dealt.deals.map((deal) => deal.topic)).toEqual(['a', 'b', 'c']);
    expect(dealt.rings.normal).toEqual(ring({ full: 5, a: 4, c: 4 }));
    expect(dealTickets(0, dealt.rings, request(1)).deals[0]?.topic).toBe('full');
  });

  it('sets more only while a ready job has capacity', () => {
    const rings = { ...empty, low: ring({ a: 2 }) };
    expect(dealTickets(0, rings, request(1)).more).toBe(true);
    expect(dealTickets(0, rings, request(2)).more).toBe(false);
    expect(dealTickets(0, rings, request(1, 1)).more).toBe(false);
    expect(dealTickets(0, empty, request(5))).toEqual({ deals: [], position: 0, rings: empty, more: false });
  });

  it('serves each topic within ten deals per topic of its priority', () => {
    const many = (prefix: string) =>
      ring(Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`${prefix}${n}`, plenty])));
    const rings = { high: many('h'), normal: many('n'), low: many('l') };
    const dealt = dealInSteps(rings, 1_000, 1);
    for (let start = 0; start + 200 <= 1_000; start += 50) {
      expect(new Set(dealt.deals.slice(start, start + 200).map((deal) => deal.topic)).size).toBe(60);
    }
  });

  it('checks each topic once, not once per job', () => {
    const rings = {
      ...empty,
      low: ring(Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`t${n}`, 9]))),
    };
    let looks = 0;
    const topics = new Map([['a', room(plenty)]]);
    const get = topics.get.bind(topics);
    topics.get = (topic) => {
      looks += 1;
      return get(topic);
    };
    dealTickets(0, { ...rings, high: ring({ a: plenty }) }, { max: 250, others: room(0), topics });
    expect(looks).toBeLessThanOrEqual(5_000 + 250 * 6);
  });
});
