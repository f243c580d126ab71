// What the commands say about topics in trouble, in one line.
import { describe, expect, it } from 'vitest';
import { causeOf, commandOf, troubleLine } from '../../src/cli/output/topic-words.ts';
import type { SummaryJson, TopicAttentionJson } from '../../src/contract/api/stats.ts';
import { problemWord, stateWord } from '../../src/core/capacity-reasons.ts';

const at = '2030-01-31T08:00:00.000Z';
const none = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
const quiet: TopicAttentionJson = {
  ...{ topic: 't', title: '', state: 'active', reasons: [], since: at, oldest: null, next: null },
  ...{ receiver: 'http://127.0.0.1:9/', calls: null, failure: null, dead: null, late: null, states: none },
  today: { pushed: 0, delivered: 0, retried: 0, dead: 0, expired: 0, cancelled: 0 } as never,
};
const refused = { reason: 'connect', status: null, detail: 'ECONNREFUSED 127.0.0.1:9' } as const;
const lineOf = (line: TopicAttentionJson, now = at): string =>
  troubleLine({ attention: [line], attentionCount: 1, topics: {}, at, now } as unknown as SummaryJson);

describe('the cause of dead letters', () => {
  const dead = {
    ...{ ...quiet, reasons: ['dead_letters'], states: { ...none, dead: 2 } },
    // Of jobs that are delivered again meanwhile.
    failure: refused,
  } satisfies TopicAttentionJson;
  it.each([
    [
      { count: 1, deadReason: 'dead_rule', lastReason: 'dead_rule', status: 200 },
      ', 1 of them: deadIf true (status 200)',
    ],
    [{ count: 2, deadReason: 'attempts_exhausted', lastReason: 'status', status: 500 }, ': status 500'],
    [{ count: 2, deadReason: 'expired', lastReason: null, status: null }, ': expired'],
    [null, ''],
  ] as const)('is that of those that are left: %j', (cause, says) => {
    const line = { ...dead, dead: cause };
    expect(lineOf(line)).toBe(`1 topic needs attention: t has 2 dead letters${says}; dq explain t`);
    expect(causeOf(line)).toBe(says.replace(/^[:,] /, ''));
  });
});

it.each([
  ['active', ['failing', 'late', 'dead_letters'], 'failing', 'failing', 'dq explain t'],
  ['active', ['dead_letters'], 'active', 'dead_letters', 'dq dead groups t'],
  ['active', [], 'active', undefined, 'dq explain t'],
  ['paused', ['failing', 'dead_letters', 'paused'], 'paused', 'paused', 'dq topic resume t'],
  ['paused', ['dead_letters'], 'paused', 'dead_letters', 'dq dead groups t'],
  [null, ['dead_letters', 'not_registered'], 'not_registered', 'not_registered', 'dq explain t'],
  [null, ['unreadable'], 'unreadable', 'unreadable', 'dq explain t'],
] as const)(
  'a topic that is %s with %j has the state %s and the problem %s',
  (state, reasons, word, problem, command) => {
    const topic = { ...quiet, state, reasons: [...reasons] };
    expect([stateWord(topic), problemWord(topic), commandOf(topic)]).toEqual([word, problem, command]);
  },
);

it('a paused topic says since when, at the latest; figures that are not of now say so', () => {
  const paused: TopicAttentionJson = {
    ...{ ...quiet, state: 'paused', reasons: ['failing', 'paused'], states: { ...none, ready: 3 } },
    failure: refused,
  };
  const says = `1 topic needs attention: t is paused (since ${at} or earlier) and holds 3 jobs; dq explain t`;
  expect(lineOf(paused)).toBe(says);
  expect(lineOf(paused, '2030-01-31T08:00:12.700Z')).toBe(`${says}; figures of 12s ago`);
});
