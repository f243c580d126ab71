// Tests when the caches of one process poll the registry.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Registry } from '../../src/ports/registry.ts';
import { RegistryCache } from '../../src/registry/registry-cache.ts';
import { ShardBook } from '../../src/registry/shard-book.ts';
import type { Log } from '../../src/telemetry/log.ts';

/** Caches nothing: notes when it is refreshed. */
class Noted extends RegistryCache {
  readonly times: number[] = [];

  constructor(registry: Registry, what: string) {
    super({ registry, log: {} as Log, what });
  }

  override async refresh(): Promise<void> {
    this.times.push(performance.now());
  }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

it('a change hint refreshes at once, however rare the polls are', async () => {
  let hint = () => {};
  const onChange = (listener: () => void) => {
    hint = listener;
    return () => {};
  };
  const registry = { onChange, pollMs: 60_000 } as unknown as Registry;
  const cache = new Noted(registry, 'topics');
  const { times } = cache;
  await cache.start();
  await vi.advanceTimersByTimeAsync(5_000);
  const before = times.length;
  hint();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(times.length).toBe(before + 1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(times.length).toBe(before + 2);
  await cache.drain(0);
});

it('caches that start apart poll together, once a second', async () => {
  const registry = { onChange: () => () => {} } as unknown as Registry;
  const caches = ['topics', 'tokens', 'sessions'].map((what) => new Noted(registry, what));
  for (const cache of caches) {
    await cache.start();
    await vi.advanceTimersByTimeAsync(230);
  }
  await vi.advanceTimersByTimeAsync(5_000);
  const [topics, tokens, sessions] = caches.map(({ times }) => times.slice(-3));
  expect([tokens, sessions]).toEqual([topics, topics]);
  const [first = 0, second = 0, third = 0] = topics ?? [];
  expect([second - first, third - second]).toEqual([1_000, 1_000]);
  for (const cache of caches) await cache.drain(0);
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
