// What the commands say about topics in trouble, in one line.
import { describe, expect, it } from 'vitest';
import { causeOf, troubleLine } from '../../src/cli/output/topic-words.ts';
import type { SummaryJson, TopicAttentionJson } from '../../src/contract/api/stats.ts';

const at = '2030-01-31T08:00:00.000Z';
const none = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
const quiet: TopicAttentionJson = {
  ...{ topic: 't', title: '', state: 'active', reasons: [], since: at, oldest: null, next: null },
  ...{ receiver: 'http://127.0.0.1:9/', calls: null, failure: null, dead: null, late: null, states: none },
  today: { pushed: 0, delivered: 0, retried: 0, dead: 0, expired: 0, cancelled: 0 } as never,
};
const refused = { reason: 'connect', status: null, detail: 'ECONNREFUSED 127.0.0.1:9' } as const;
const lineOf = (line: TopicAttentionJson, now = at): string =>
  troubleLine({ attention: [line], attentionCount: 1, topics: {}, now } as unknown as SummaryJson);

describe('the cause of dead letters', () => {
  const dead = {
    ...{ ...quiet, reasons: ['dead_letters'], states: { ...none, dead: 2 } },
    // Of jobs that are delivered again meanwhile.
    failure: refused,
  } satisfies TopicAttentionJson;
  it.each([
    [{ count: 1, reason: 'dead_rule', lastReason: 'dead_rule', status: 200 }, ', 1 of them: deadIf true (status 200)'],
    [{ count: 2, reason: 'attempts_exhausted', lastReason: 'status', status: 500 }, ': status 500'],
    [{ count: 2, reason: 'expired', lastReason: null, status: null }, ': expired'],
    [null, ''],
  ] as const)('is that of those that are left: %j', (cause, says) => {
    const line = { ...dead, dead: cause };
    expect(lineOf(line)).toBe(`1 topic needs attention: t has 2 dead letters${says}; dq explain t`);
    expect(causeOf(line)).toBe(says.replace(/^[:,] /, ''));
  });
});
