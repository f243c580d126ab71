import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import {
  addFacts,
  addReason,
  addTime,
  everyTopic,
  type Facts,
  noFacts,
  packFacts,
  unpackFacts,
} from '../../src/core/series.ts';
import type { Registry, SeriesRow } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { TopicBook } from '../../src/registry/topic-book.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { SeriesRecorder } from '../../src/upkeep/series-recorder.ts';
import { testDirectory } from '../support/directory.ts';
import { until } from '../support/until.ts';
import { draft } from './registry/case.ts';

const begin = Date.UTC(2030, 0, 1, 8, 0);
const second = begin / 1_000;
const minuteMs = 60_000;

let directory = '';
let registry: Registry;
let topics: TopicBook;
let now = begin;
let failure: 'none' | 'away' | 'lost reply' = 'none';
/** incarnation of a process that no longer reaches the registry */
let killed = 0;
let calls = 0;
let rowsWritten = 0;
let incarnation = 0;
const recorders: SeriesRecorder[] = [];

beforeEach(async () => {
  directory = testDirectory();
  registry = await openRegistryDb(join(directory, 'registry.db'));
  [now, failure, calls, rowsWritten, killed] = [begin, 'none', 0, 0, 0];
  topics = new TopicBook(registry, silentLog);
  // The real clock, plus the seconds that the test adds.
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
});
afterEach(async () => {
  for (const recorder of recorders.splice(0)) await recorder.drain(0);
  vi.useRealTimers();
  await registry.close();
});

function reached(by: number): Registry {
  return Object.assign(Object.create(registry), {
    putSeries: async (...what: Parameters<Registry['putSeries']>) => {
      calls += 1;
      if (killed === by) throw new StoreError({ kind: 'not_stored', code: 'closed' });
      if (failure === 'away') throw new StoreError({ kind: 'not_stored', code: 'unreachable' });
      const sweptTo = await registry.putSeries(...what);
      rowsWritten += what[0].length;
      if (failure === 'lost reply') throw new StoreError({ kind: 'unknown', code: 'timeout' });
      return sweptTo;
    },
  });
}

/** As the next dq-upkeep of instance 7. */
async function startRecorder(): Promise<SeriesRecorder> {
  await topics.refresh();
  incarnation += 1;
  const recorder = new SeriesRecorder({
    registry: reached(incarnation),
    topics,
    log: silentLog,
    owner: { instance: 7, incarnation },
    clock: { now: () => now, read: async () => now, known: async () => now },
  });
  recorders.push(recorder);
  await recorder.start();
  return recorder;
}

const rowsOf = (topic: string, step = 60): Promise<readonly SeriesRow[]> =>
  registry.series({ topics: [topic], step, from: 0, to: second * 2 });

async function factsOf(topic: string, step = 60): Promise<Facts> {
  const sum = noFacts();
  for (const { packed } of await rowsOf(topic, step)) addFacts(sum, unpackFacts(packed) as Facts);
  return sum;
}

/** Moves both clocks. */
async function pass(ms: number): Promise<void> {
  now += ms;
  await vi.advanceTimersByTimeAsync(Math.max(ms, upkeepLimits.seriesAgainMs));
}
const written = (topic: string, rows: number) =>
  until('the rows are written', async () => {
    await vi.advanceTimersByTimeAsync(upkeepLimits.seriesTurnMs);
    return (await rowsOf(topic)).length === rows;
  });

const pushed = (topic: string, n: number) => [{ topic, day: 20_300_101, name: 'pushed', n } as const];

it('a minute becomes a row of its topic and of all topics, in each step', async () => {
  for (const name of ['a', 'b']) await registry.create(draft(name));
  const recorder = await startRecorder();
  recorder.counted(pushed('a', 3));
  recorder.counted(pushed('gone', 4));
  const seen = noFacts();
  addTime(seen.lateness, 41);
  addReason(seen, 502);
  recorder.observed([
    ['a', packFacts(seen)],
    ['_other', packFacts(seen)],
    ['b', 'damaged'],
  ]);
  const counts = { delayed: 5, ready: 1, reserved: 0, dead: 2 };
  recorder.stored({ a: counts, idle: counts }, 900);
  await pass(minuteMs);
  await written('a', 1);
  for (const step of [60, 600, 7_200]) {
    const all = await factsOf(everyTopic, step);
    expect(all.counts.pushed).toBe(7);
    expect(all.lateness.max).toBe(41);
    expect(all.reasons).toEqual(new Map([[502, 2]]));
    expect(all.stored).toEqual({ delayed: 10, ready: 2, reserved: 0, dead: 4, oldestOverdueMs: 900 });
    expect(all.isComplete).toBe(true);
    const own = await factsOf('a', step);
    expect(own.counts.pushed).toBe(3);
    expect(own.stored).toEqual({ ...counts, oldestOverdueMs: null });
  }
  expect((await rowsOf('a'))[0]).toMatchObject({ at: second, instance: 7, incarnation });
  expect(await rowsOf('gone')).toEqual([]);
  expect(await rowsOf('b')).toEqual([]);
});

it('minutes add up in the longer steps; a step that begins is another row', async () => {
  await registry.create(draft('a'));
  const recorder = await startRecorder();
  for (let minute = 1; minute <= 11; minute += 1) {
    recorder.counted(pushed('a', 1));
    await pass(minuteMs);
    await written('a', minute);
  }
  expect((await rowsOf('a', 600)).map(({ at, packed }) => [at, unpackFacts(packed)?.counts.pushed])).toEqual([
    [second, 10],
    [second + 600, 1],
  ]);
  expect((await factsOf('a', 7_200)).counts.pushed).toBe(11);
});

it('a write whose reply was lost is repeated and counts once', async () => {
  await registry.create(draft('a'));
  const recorder = await startRecorder();
  recorder.counted(pushed('a', 3));
  failure = 'lost reply';
  await pass(minuteMs);
  await until('it was repeated', async () => {
    await vi.advanceTimersByTimeAsync(upkeepLimits.seriesAgainMs);
    return calls >= 2;
  });
  failure = 'none';
  await pass(minuteMs);
  await written(everyTopic, 2);
  expect((await factsOf('a')).counts.pushed).toBe(3);
  expect((await factsOf('a', 600)).counts.pushed).toBe(3);
});

it('a killed dq-upkeep loses the open minute only; the next one adds rows of its own', async () => {
  await registry.create(draft('a'));
  const first = await startRecorder();
  first.counted(pushed('a', 3));
  await pass(minuteMs);
  await written('a', 1);
  first.counted(pushed('a', 100));
  killed = incarnation;
  const next = await startRecorder();
  next.counted(pushed('a', 4));
  await pass(minuteMs);
  await written('a', 2);
  expect((await factsOf('a')).counts.pushed).toBe(7);
  expect((await rowsOf('a', 600)).map(({ at }) => at)).toEqual([second, second]);
  expect((await factsOf('a', 600)).counts.pushed).toBe(7);
});

it('a drain writes the open minute', async () => {
  await registry.create(draft('a'));
  const recorder = await startRecorder();
  recorder.counted(pushed('a', 3));
  await recorder.drain(2_000);
  expect((await factsOf('a')).counts.pushed).toBe(3);
});

it('rows of an unavailable registry are held, the newest seriesHeldMinutes of 200 topics', async () => {
  await registry.create(draft('a'));
  const recorder = await startRecorder();
  failure = 'away';
  const rowsMax = upkeepLimits.seriesHeldMinutes * (upkeepLimits.seriesTopicsMax + 1);
  // Two rows a minute, and few of the longer steps.
  const minutes = rowsMax / 2 + 100;
  for (let minute = 0; minute < minutes; minute += 1) {
    recorder.counted(pushed('a', 1));
    now += minuteMs;
  }
  failure = 'none';
  await pass(0);
  await until('all are written', async () => {
    await vi.advanceTimersByTimeAsync(upkeepLimits.seriesAgainMs);
    return (await rowsOf('a')).some(({ at }) => at === now / 1_000 - 60);
  });
  expect(rowsWritten).toBe(rowsMax);
});

it('expired rows are removed', async () => {
  await registry.create(draft('a'));
  const recorder = await startRecorder();
  recorder.counted(pushed('a', 1));
  await pass(minuteMs);
  await written('a', 1);
  now += 4 * 3_600_000;
  await pass(minuteMs);
  await until('the minute of the topic is gone', async () => {
    await vi.advanceTimersByTimeAsync(upkeepLimits.seriesTurnMs);
    return (await rowsOf('a')).length === 0;
  });
  expect((await rowsOf(everyTopic))[0]?.at).toBe(second);
  expect((await rowsOf('a', 600)).length).toBe(1);
  now += 24 * 3_600_000;
  await pass(minuteMs);
  await until('the minute of all topics is gone', async () => {
    await vi.advanceTimersByTimeAsync(upkeepLimits.seriesTurnMs);
    return (await rowsOf(everyTopic))[0]?.at !== second;
  });
});

it('a clock that goes back by a moment opens no earlier minute', async () => {
  await registry.create(draft('a'));
  const recorder = await startRecorder();
  recorder.counted(pushed('a', 3));
  now = begin + minuteMs;
  recorder.counted(pushed('a', 4));
  now = begin + minuteMs - 5;
  recorder.counted(pushed('a', 5));
  now = begin + 2 * minuteMs;
  await pass(0);
  await written('a', 2);
  expect((await rowsOf('a')).map(({ packed }) => unpackFacts(packed)?.counts.pushed)).toEqual([3, 9]);
});
