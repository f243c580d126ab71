// Tests that counters reach the registry once, also over failures and restarts.
import { cpSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import type { Registry, StatDelta } from '../../src/ports/registry.ts';
import type { StoreFailure } from '../../src/ports/store-error.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { StatFiles } from '../../src/process/stat-files.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { StatsRecorder } from '../../src/upkeep/stats-recorder.ts';
import { testDirectory } from '../support/directory.ts';
import { until } from '../support/until.ts';

const day = 20_300_131;
const pushed = (topic: string, n: number): StatDelta => ({ topic, day, name: 'pushed', n });

let directory = '';
let registry: Registry;
/** the next calls to the registry fail like this */
let away: StoreFailure | null = null;
let lostReply = false;
let hanging = false;
let calls: number[] = [];
let messages: string[] = [];
const recorders: StatsRecorder[] = [];

beforeEach(async () => {
  directory = testDirectory();
  registry = await openRegistryDb(join(directory, 'registry.db'));
  [away, lostReply, hanging, calls, messages] = [null, false, false, [], []];
  // The real clock, plus five seconds that the test adds.
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
});
afterEach(async () => {
  hanging = false;
  for (const recorder of recorders.splice(0)) await recorder.drain(0);
  vi.useRealTimers();
  await registry.close();
});

/** The real registry, whose calls can fail. */
function reached(): Registry {
  return {
    ...registry,
    stats: async (...what) => {
      if (away !== null) throw new StoreError(away);
      return registry.stats(...what);
    },
    addStats: async (deltas) => {
      calls.push(deltas.length);
      if (away !== null) throw new StoreError(away);
      if (hanging) return new Promise(() => {});
      await registry.addStats(deltas);
      if (lostReply) throw new StoreError({ kind: 'unknown', code: 'no_answer' });
    },
  } as Registry;
}

async function start(): Promise<StatsRecorder> {
  const log = {
    ...silentLog,
    notice: (message: string) => messages.push(message),
    error: (message: string) => messages.push(message),
  };
  const recorder = new StatsRecorder(reached(), log, new StatFiles(directory));
  recorders.push(recorder);
  await recorder.start();
  return recorder;
}

async function register(...topics: string[]): Promise<void> {
  for (const topic of topics)
    await registry.create({
      ...topicDefaults,
      callbackUrl: 'http://x/',
      topic,
      state: 'active',
      secrets: [],
    });
}

const totalOf = async (topic: string) => (await registry.stats(topic, day))?.total.pushed ?? 0;

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

it('stats-recorder: adds counters to the registry in one call per period', async () => {
  await register('a', 'b');
  const recorder = await start();
  recorder.add([pushed('a', 1), pushed('b', 2)]);
  recorder.add([pushed('a', 4)]);
  await pass(upkeepLimits.countersToRegistryMs - 100);
  expect(calls).toEqual([]);
  await pass(200);
  expect(calls).toEqual([2]);
  expect([await totalOf('a'), await totalOf('b')]).toEqual([5, 2]);
  await pass(3 * upkeepLimits.countersToRegistryMs);
  expect(calls).toEqual([2]);
});

it('stats-recorder: keeps counters while the registry is unavailable, logs it once', async () => {
  await register('a');
  const recorder = await start();
  away = { kind: 'not_stored', code: 'away' };
  recorder.add([pushed('a', 1)]);
  await pass(2 * upkeepLimits.countersToRegistryMs + 100);
  recorder.add([pushed('a', 2)]);
  await pass(upkeepLimits.countersToRegistryMs);
  expect(calls.length).toBeGreaterThan(1);
  expect(messages).toEqual(['stats-recorder: cannot record statistics']);
  away = null;
  await pass(upkeepLimits.countersToRegistryMs + 100);
  await until('it is logged', () => messages.at(-1) === 'stats-recorder: statistics are recorded again');
  expect(await totalOf('a')).toBe(3);
});

it('stats-recorder: never writes counters twice, and writes the rest', async () => {
  const topics = Array.from({ length: upkeepLimits.statsBatchMax + 1 }, (_, i) => `t${i}`);
  await register(...topics);
  const recorder = await start();
  lostReply = true;
  recorder.add(topics.map((topic) => pushed(topic, 1)));
  await pass(upkeepLimits.countersToRegistryMs + 100);
  expect(calls).toEqual([upkeepLimits.statsBatchMax]);
  lostReply = false;
  await pass(upkeepLimits.countersToRegistryMs);
  expect(calls).toEqual([upkeepLimits.statsBatchMax, 1]);
  for (const topic of topics) expect(await totalOf(topic)).toBe(1);
});

it('stats-recorder: keeps a bounded number and logs how many it dropped', async () => {
  const recorder = await start();
  recorder.add(Array.from({ length: upkeepLimits.statsHeldMax + 3 }, (_, i) => pushed(`t${i}`, 1)));
  await pass(upkeepLimits.countersToRegistryMs + 100);
  await until('it is logged', () => messages.includes('stats-recorder: dropped statistics'));
  expect(calls.reduce((sum, n) => sum + n, 0)).toBe(upkeepLimits.statsHeldMax);
});

it('stats-recorder drain: records all counters, also the latest', async () => {
  await register('a');
  const recorder = await start();
  recorder.add([pushed('a', 3)]);
  await recorder.drain(1_000);
  expect(await totalOf('a')).toBe(3);
  expect(messages).toEqual([]);
});

it('stats-recorder drain: ends at its deadline if the registry does not answer', async () => {
  const recorder = await start();
  recorder.add([pushed('a', 3)]);
  hanging = true;
  let ended = false;
  const draining = recorder.drain(1_000).then(() => {
    ended = true;
  });
  await pass(900);
  expect(ended).toBe(false);
  await pass(200);
  await draining;
  expect(messages).toEqual(['stats-recorder: cannot record the last statistics']);
});

const keptFiles = () =>
  readdirSync(join(directory, 'statistics')).map((name) => join(directory, 'statistics', name));

it('stats-recorder drain: unrecorded counters wait on disk and are added once', async () => {
  await register('a', 'b');
  away = { kind: 'not_stored', code: 'away' };
  const first = await start();
  first.add([pushed('a', 3)]);
  await pass(upkeepLimits.countersToRegistryMs + 100);
  first.add([pushed('a', 1), pushed('b', 5)]);
  await first.drain(1_000);
  // The first one ended as soon as the registry was unavailable.
  const second = await start();
  second.add([pushed('b', 2)]);
  await second.drain(1_000);
  expect(keptFiles()).toHaveLength(2);
  expect(statSync(keptFiles()[0] ?? '').mode & 0o777).toBe(0o600);

  const [third, fourth] = [await start(), await start()];
  await pass(2 * upkeepLimits.countersToRegistryMs);
  expect(keptFiles()).toHaveLength(2);
  away = null;
  await pass(upkeepLimits.countersToRegistryMs);
  await until('both files are gone', () => keptFiles().length === 0);
  for (const recorder of [third, fourth]) await recorder.drain(1_000);
  expect([await totalOf('a'), await totalOf('b')]).toEqual([4, 7]);
  await (await start()).drain(1_000);
  await pass(2 * upkeepLimits.countersToRegistryMs);
  expect([await totalOf('a'), await totalOf('b')]).toEqual([4, 7]);
});

it('stats-recorder drain: counters that may be written do not go to disk', async () => {
  const topics = Array.from({ length: upkeepLimits.statsBatchMax + 1 }, (_, i) => `t${i}`);
  await register(...topics);
  const recorder = await start();
  lostReply = true;
  recorder.add(topics.map((topic) => pushed(topic, 1)));
  await recorder.drain(1_000);
  lostReply = false;
  await start();
  await pass(upkeepLimits.countersToRegistryMs + 100);
  await until('the file is gone', () => keptFiles().length === 0);
  for (const topic of topics) await until('it is counted', async () => (await totalOf(topic)) === 1);
});

it('stats-recorder: removes and logs a damaged file', async () => {
  await register('a');
  mkdirSync(join(directory, 'statistics'));
  writeFileSync(join(directory, 'statistics', `${'0'.repeat(16)}-1-1.json`), '[{"topic":"a"}]');
  const recorder = await start();
  recorder.add([pushed('a', 1)]);
  await pass(upkeepLimits.countersToRegistryMs + 100);
  await until('it is logged', () => messages.length === 1);
  recorder.add([pushed('a', 1)]);
  await pass(upkeepLimits.countersToRegistryMs + 1_100);
  await until('it is counted', async () => (await totalOf('a')) === 2);
  expect(keptFiles()).toEqual([]);
});

it('stats-recorder: an unreadable file stays, is logged once, delays no other', async () => {
  await register('a');
  const unreadable = join(directory, 'statistics', `${'0'.repeat(16)}-1-1.json`);
  mkdirSync(unreadable, { recursive: true });
  await new StatFiles(directory).write([pushed('a', 4)]);
  const recorder = await start();
  await pass(upkeepLimits.countersToRegistryMs + 100);
  await until('the younger one is counted', async () => (await totalOf('a')) === 4);
  await until('it is logged', () => messages.length === 1);
  await pass(2 * upkeepLimits.countersToRegistryMs);
  recorder.add([pushed('a', 1)]);
  await recorder.drain(1_000);
  expect(await totalOf('a')).toBe(5);
  expect(messages).toEqual(['stats-recorder: cannot read statistics from disk']);
  expect(keptFiles()).toEqual([unreadable]);
});

it('stats-recorder: ignores files copied with their data directory', async () => {
  await register('a');
  await new StatFiles(directory).write([pushed('a', 4)]);
  const [kept = ''] = keptFiles();
  const copy = join(directory, 'copy');
  cpSync(join(directory, 'statistics'), join(copy, 'statistics'), { recursive: true });
  const copied = join(copy, 'statistics', basename(kept));
  const shared = new StatFiles(copy, true);
  expect([await shared.isEmpty(), await shared.take(), await shared.copied()]).toEqual([true, [], [copied]]);
  // Each has its own registry; the copy's registry has no such counters either.
  const alone = new StatFiles(copy);
  expect(await alone.copied()).toEqual([]);
  expect(await alone.take()).toEqual([pushed('a', 4)]);
  const original = new StatFiles(directory, true);
  expect([await original.copied(), await original.take()]).toEqual([[], [pushed('a', 4)]]);
});
