// The accounts that running calls are booked on.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { type Topic, topicDefaults } from '../../src/core/topic/topic.ts';
import { CallBudget } from '../../src/notifier/call-budget.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { OriginHealth } from '../../src/notifier/origin-health.ts';
import { TopicTarget } from '../../src/notifier/topic-target.ts';

const topic: Topic = {
  ...topicDefaults,
  ...{ topic: 't', callbackUrl: 'http://127.0.0.1/', state: 'active', secrets: [] },
  ...{ revision: 1, createdAt: 0, updatedAt: 0 },
};
const laneOf = () => new TopicTarget({ ...topic, open: () => topic }, 32, () => new OriginHealth());
const budgetOf = (openFilesMax: number | null = null) =>
  new CallBudget({ slots: 16, openFilesMax, onSlow: () => {} });
const later = notifierLimits.slowCallMs;

describe('call budget', () => {
  it('a call frees its slot when it has become slow, and only once', () => {
    const budget = budgetOf();
    const call = budget.start(laneOf(), false, 0);
    expect(budget.freeSlots).toBe(15);
    budget.sweep(later - 1);
    expect(budget.freeSlots).toBe(15);
    budget.sweep(later);
    expect(budget.freeSlots).toBe(16);
    budget.end(call);
    expect(budget.freeSlots).toBe(16);
  });

  it('slow calls beyond their account keep their slots until others end', () => {
    const budget = budgetOf();
    const calls = Array.from({ length: budget.slowMax + 3 }, () => budget.start(laneOf(), false, 0));
    budget.sweep(later);
    expect(budget.freeSlots).toBe(13);
    for (const call of calls.slice(0, 5)) budget.end(call);
    expect(budget.freeSlots).toBe(16);
  });

  it('probes have an account of their own; one beyond it takes a slot', () => {
    const budget = budgetOf();
    const lane = laneOf();
    const calls = Array.from({ length: budget.probesMax + 1 }, () => budget.start(lane, true, 0));
    expect([budget.freeProbes, budget.freeSlots, lane.probes]).toEqual([0, 15, budget.probesMax]);
    for (const call of calls) budget.end(call);
    expect([budget.freeProbes, budget.freeSlots, lane.probes]).toEqual([budget.probesMax, 16, 0]);
  });

  it('the slow account is as large as the open files allow', () => {
    expect(budgetOf().slowMax).toBe(16 * limits.slowCallsPerSlot);
    expect(budgetOf(140).slowMax).toBe(105 - limits.descriptorsBesideSlots - 16 - 4);
    expect(budgetOf(64).slowMax).toBe(0);
  });
});

describe('lane', () => {
  const judged = { isCounted: false, endedAt: 10_000 };

  it('is suspect from an unusual age on, unless a later call has succeeded', () => {
    const lane = laneOf();
    lane.judged({ ...judged, reason: null, startedAt: 9_980 });
    lane.suspect(9_990);
    expect(lane.isRestricted).toBe(false);
    lane.suspect(10_001);
    expect([lane.isRestricted, lane.isTrusted]).toEqual([true, false]);
    lane.judged({ reason: null, startedAt: 10_001, endedAt: 15_001, isCounted: true });
    expect([lane.isRestricted, lane.isTrusted, lane.patienceMs]).toEqual([false, true, 10_000]);
  });

  it('is no longer suspect after a quick reply of any kind, and is after a slow one', () => {
    const lane = laneOf();
    lane.suspect(0);
    lane.judged({ ...judged, reason: 'status', startedAt: 1_000 });
    expect(lane.isRestricted).toBe(true);
    lane.judged({ ...judged, reason: 'status', startedAt: 9_900 });
    expect(lane.isRestricted).toBe(false);
  });
});
