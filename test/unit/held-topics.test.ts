// Which topics hold their jobs, and why: those that dq calls, or whose clients pull, hold none.
import { expect, it } from 'vitest';
import { HeldSum } from '../../src/api/routes/held-topics.ts';
import { contractLimits } from '../../src/contract/api/limits.ts';
import type { RoleContext } from '../../src/process/role.ts';

const known: Readonly<Record<string, object>> = {
  called: { state: 'active', delivery: 'push' },
  pulled: { state: 'active', delivery: 'pull' },
  paused: { state: 'paused', delivery: 'push' },
  offline: { state: 'offline', delivery: 'pull' },
  published: { state: 'active', delivery: 'mq', target: { broker: 'main' } },
  brokerless: { state: 'active', delivery: 'mq', target: { broker: 'gone' } },
};
const role = {
  topics: {
    isKnown: true,
    get: (name: string) => known[name],
    isUnreadable: (name: string) => name === 'damaged',
  },
  config: { brokers: ['main=amqp091+amqp://127.0.0.1:2'] },
} as unknown as RoleContext;
const heldAmong = (known: RoleContext, stored: Readonly<Record<string, ReturnType<typeof waiting>>>) => {
  const held = new HeldSum(known);
  for (const [topic, states] of Object.entries(stored)) held.add(topic, states);
  return held.sum();
};
const waiting = (delayed: number, ready = 0) => ({ delayed, ready, reserved: 5, dead: 5 });

it('held topics: each has its reason, those with the most jobs come first', () => {
  const stored = {
    ...{ called: waiting(9), pulled: waiting(9), published: waiting(9) },
    ...{ paused: waiting(1), offline: waiting(1, 1), brokerless: waiting(0, 3) },
    ...{ damaged: waiting(4), unknown: waiting(5), 'paused.too': waiting(0) },
  };
  const { topics, jobs, most } = heldAmong(role, stored);
  expect([topics, jobs]).toEqual([5, 15]);
  expect(most.map(({ topic, why, jobs: own }) => `${topic} ${why} ${own}`)).toEqual([
    'unknown not_registered 5',
    'damaged unreadable 4',
    'brokerless unknown_broker 3',
    'offline offline 2',
    'paused paused 1',
  ]);
});

it('held topics: none while the registry is unread', () => {
  const topics = { isKnown: false, get: () => undefined, isUnreadable: () => false };
  const unread = { ...role, topics } as unknown as RoleContext;
  expect(heldAmong(unread, { paused: waiting(1) })).toEqual({ topics: 0, jobs: 0, most: [] });
});

it('held topics: names a bounded number of them, and counts all', () => {
  const number = contractLimits.attentionMax + 1;
  const stored = Object.fromEntries(Array.from({ length: number }, (_, n) => [`t${n}`, waiting(1)]));
  const held = heldAmong(role, stored);
  expect([held.topics, held.jobs, held.most.length]).toEqual([number, number, number - 1]);
});
