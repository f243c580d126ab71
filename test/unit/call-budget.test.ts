// The accounts of running calls, and the standing of a topic.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { type Topic, topicDefaults } from '../../src/core/topic/topic.ts';
import { CallBudget } from '../../src/notifier/call-budget.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { OriginHealth, TopicTarget } from '../../src/notifier/topic-target.ts';

const topic: Topic = {
  ...topicDefaults,
  ...{ topic: 't', callbackUrl: 'http://127.0.0.1/', state: 'active', secrets: [] },
  ...{ revision: 1, createdAt: 0, updatedAt: 0 },
};
const targetOf = () =>
  new TopicTarget({ ...topic, open: () => topic }, 32, new Map(), () => new OriginHealth());
const budgetOf = (openFilesMax: number | null = null) =>
  new CallBudget({ slots: 16, openFilesMax, onSlow: () => {} });
const later = notifierLimits.slowCallMs;

describe('call budget', () => {
  it('a call frees its slot once: when it becomes slow', () => {
    const budget = budgetOf();
    const call = budget.start(targetOf(), false, 0);
    expect(budget.freeSlots).toBe(15);
    budget.sweep(later - 1);
    expect(budget.freeSlots).toBe(15);
    budget.sweep(later);
    expect(budget.freeSlots).toBe(16);
    budget.end(call);
    expect(budget.freeSlots).toBe(16);
  });

  it('slow calls beyond their account keep their slots', () => {
    const budget = budgetOf();
    const calls = Array.from({ length: budget.slowMax + 3 }, () => budget.start(targetOf(), false, 0));
    budget.sweep(later);
    expect(budget.freeSlots).toBe(13);
    for (const call of calls.slice(0, 5)) budget.end(call);
    expect(budget.freeSlots).toBe(16);
  });

  it('a probe beyond the probe account takes a slot', () => {
    const budget = budgetOf();
    const target = targetOf();
    const calls = Array.from({ length: budget.probesMax + 1 }, () => budget.start(target, true, 0));
    expect([budget.freeProbes, budget.freeSlots, target.probes]).toEqual([0, 15, budget.probesMax]);
    for (const call of calls) budget.end(call);
    expect([budget.freeProbes, budget.freeSlots, target.probes]).toEqual([budget.probesMax, 16, 0]);
  });

  it('the limit of open files bounds the slow account', () => {
    expect(budgetOf().slowMax).toBe(16 * limits.slowCallsPerSlot);
    expect(budgetOf(140).slowMax).toBe(105 - limits.descriptorsBesideSlots - 16 - 4);
    expect(budgetOf(64).slowMax).toBe(0);
  });
});

describe('topic target', () => {
  const judged = { isCounted: false, endedAt: 10_000, status: null };

  it('is restricted from an unusual age of a call on, unless a later call succeeded', () => {
    const target = targetOf();
    target.judged({ ...judged, reason: null, startedAt: 9_980 });
    target.becameSlow(9_990);
    expect(target.isRestricted).toBe(false);
    target.becameSlow(10_001);
    expect([target.isRestricted, target.isTrusted]).toEqual([true, false]);
    target.judged({ ...judged, reason: null, startedAt: 10_001, endedAt: 15_001, isCounted: true });
    expect([target.isRestricted, target.isTrusted, target.patienceMs]).toEqual([false, true, 10_000]);
  });

  it('a quick reply of any kind lifts the restriction, a slow one does not', () => {
    const target = targetOf();
    target.becameSlow(0);
    target.judged({ ...judged, reason: 'status', startedAt: 1_000 });
    expect(target.isRestricted).toBe(true);
    target.judged({ ...judged, reason: 'status', startedAt: 9_900 });
    expect(target.isRestricted).toBe(false);
  });

  it('10 attempts without the receiver are an outage, also with replies of a gateway; others end none', () => {
    const rampAfter = (...attempts: (number | null)[]) => {
      const target = targetOf();
      for (const status of attempts) {
        const reason = status === null ? 'connect' : 'status';
        target.judged({ ...judged, reason, status, startedAt: 9_900 });
      }
      target.judged({ ...judged, reason: null, status: 200, startedAt: 9_900 });
      return target.ramp?.part ?? null;
    };
    const many: number = notifierLimits.ailingAttempts;
    const { rampStart } = notifierLimits;
    const all = (status: number | null, count = many) => Array.from({ length: count }, () => status);
    for (const status of [502, 503, 504, null])
      expect(rampAfter(...all(status)), `${status}`).toBe(rampStart);
    expect(rampAfter(...all(503, many - 1))).toBeNull();
    expect(rampAfter(null, 502, ...all(504, many - 2))).toBe(rampStart);
    expect(rampAfter(...all(500))).toBeNull();
    expect(rampAfter(...all(429))).toBeNull();
    expect(rampAfter(...all(503, many - 1), 500, 503)).toBeNull();
    // The application replies again, and its first success ends the outage.
    expect(rampAfter(...all(503), 500)).toBe(rampStart);
    const target = targetOf();
    for (const status of all(503)) target.judged({ ...judged, reason: 'status', status, startedAt: 9_900 });
    expect([target.isRestricted, target.capacity]).toEqual([false, target.share]);
  });
});
