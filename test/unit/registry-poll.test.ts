// Tests when the caches of one process poll the registry.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Registry } from '../../src/ports/registry.ts';
import { RegistryPoll } from '../../src/registry/registry-poll.ts';
import { ShardBook } from '../../src/registry/shard-book.ts';
import type { Log } from '../../src/telemetry/log.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

it('a change hint refreshes at once, however rare the polls are', async () => {
  const times: number[] = [];
  let hint = () => {};
  const onChange = (listener: () => void) => {
    hint = listener;
    return () => {};
  };
  const registry = { onChange, pollMs: 60_000 } as unknown as Registry;
  const refresh = async () => void times.push(performance.now());
  const poll = new RegistryPoll({ registry, log: {} as Log, what: 'topics', refresh });
  await poll.start();
  await vi.advanceTimersByTimeAsync(5_000);
  const before = times.length;
  hint();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(times.length).toBe(before + 1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(times.length).toBe(before + 2);
  await poll.drain(0);
});

it('caches that start apart poll together, once a second', async () => {
  const times: Record<string, number[]> = { topics: [], tokens: [], sessions: [] };
  const polls = [];
  for (const [what, at] of Object.entries(times)) {
    const registry = { onChange: () => () => {} } as unknown as Registry;
    const log = {} as Log;
    const refresh = async () => void at.push(performance.now());
    const poll = new RegistryPoll({ registry, log, what, refresh });
    polls.push(poll);
    await poll.start();
    await vi.advanceTimersByTimeAsync(230);
  }
  await vi.advanceTimersByTimeAsync(5_000);
  const [topics, tokens, sessions] = Object.values(times).map((at) => at.slice(-3));
  expect([tokens, sessions]).toEqual([topics, topics]);
  const [first = 0, second = 0, third = 0] = topics ?? [];
  expect([second - first, third - second]).toEqual([1_000, 1_000]);
  for (const poll of polls) await poll.drain(0);
});

it('the shard list is read each second: dq-store changes it without a hint', async () => {
  const registry = {
    onChange: () => () => {},
    pollMs: 60_000,
    shards: async () => ({ revision: 0, list: null }),
  } as unknown as Registry;
  const times: number[] = [];
  const whileEmpty = async () => void times.push(performance.now());
  const book = new ShardBook({ registry, log: {} as Log, onList: () => {}, whileEmpty });
  await book.start();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(times.slice(-2).map((at, i) => at - (times.at(i - 3) ?? 0))).toEqual([1_000, 1_000]);
  await book.drain(0);
});
