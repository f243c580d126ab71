// What dq-upkeep keeps of the failures in a row that notifiers count: deaths of notifiers and of dq-upkeep.
import { expect, it } from 'vitest';
import { mergeFailures, notCalled, type TopicFailures } from '../../src/core/endpoint.ts';
import { limits } from '../../src/core/limits.ts';
import { EndpointCalls } from '../../src/notifier/endpoint-calls.ts';
import { processLimits } from '../../src/process/limits.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { FailureRows } from '../../src/upkeep/failure-rows.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';

const start = 60_000_000;
const [t, receiver] = ['t', 'http://a'];

async function setUp() {
  let text: string | null = null;
  const dead = new Set<number>();
  const registered = new Map([[t, receiver]]);
  const file = {
    read: async () => text,
    write: async (fresh: string) => {
      text = fresh;
    },
  };
  const topics = {
    isKnown: true,
    get: (name: string) => {
      const callbackUrl = registered.get(name);
      return callbackUrl === undefined ? undefined : { delivery: 'push', callbackUrl };
    },
    isUnreadable: () => false,
  } as never;
  const clock = { at: start + 10, now: (): number => clock.at };
  const living = { titleOf: (run: number) => (dead.has(run) ? null : '') };
  const parts = { file, living, topics, clock: clock as never, log: silentLog };
  let rows = new FailureRows(parts);
  await rows.start();
  const notifiers = new Map<number, EndpointCalls>();
  return {
    registered,
    clock,
    file,
    receive: (failing: readonly TopicFailures[]) => rows.receive({ run: 1, failing, answered: [] }),
    parts: (names?: readonly string[]) => rows.parts({ topics: ['*'], ...(names && { names }) }),
    judge(run: number, isFailed: boolean, at: number, origin = receiver) {
      const calls = notifiers.get(run) ?? new EndpointCalls(run);
      notifiers.set(run, calls);
      calls.of(t, origin, at)?.judged(isFailed ? 'connect' : null, null, 1, at);
    },
    change(origin: string) {
      registered.set(t, origin);
      for (const calls of notifiers.values()) calls.topicsChanged([t], topics);
    },
    report() {
      for (const calls of notifiers.values()) {
        for (const news of calls.news(start)) rows.receive(news);
      }
    },
    kill(run: number) {
      notifiers.delete(run);
      dead.add(run);
    },
    /** The next dq-upkeep. */
    async restart(isKilled = false) {
      if (!isKilled) await rows.drain(1_000);
      rows = new FailureRows(parts);
      await rows.load();
      await rows.start();
    },
    /** Two halves of a reload: the next dq-upkeep reads the file, and then alone gets the reports. */
    async reload(before: () => void, after: () => void) {
      const old = rows;
      const next = new FailureRows(parts);
      await next.load();
      before();
      rows = next;
      after();
      await old.drain(1_000);
      await next.start();
    },
    rows: () => rows.parts({ topics: ['*'], names: [t] }),
    row() {
      const asked = { topics: ['*'], names: [t] };
      const said = [...notifiers.values()].flatMap((calls) => calls.failures(asked, start));
      const { failuresInRow = 0, since = null } = mergeFailures([...said, ...rows.parts(asked)]).get(t) ?? {};
      return [failuresInRow, since];
    },
  };
}

it('the row of dead notifiers goes on in the next ones, and no failure counts twice', async () => {
  const all = await setUp();
  for (const [run, at] of [
    [1, 0],
    [2, 1],
    [1, 2],
  ] as const)
    all.judge(run, true, start + at);
  all.report();
  expect(all.row()).toEqual([3, start]);
  all.kill(1);
  expect(all.row()).toEqual([3, start]);
  all.judge(3, true, start + 5);
  expect(all.row()).toEqual([4, start]);
  all.report();
  await all.restart();
  for (const run of [2, 3]) all.kill(run);
  await all.restart();
  expect(all.row()).toEqual([4, start]);
});

it('a success ends the row of dead ones for good, also if the notifier that saw it dies', async () => {
  const all = await setUp();
  for (const at of [0, 1]) all.judge(1, true, start + at);
  all.judge(2, false, start + 2);
  all.report();
  expect(all.row()).toEqual([0, null]);
  all.kill(2);
  expect(all.row()).toEqual([0, null]);
  all.kill(1);
  expect(all.row()).toEqual([0, null]);
  all.judge(3, true, start + 7);
  expect(all.row()).toEqual([1, start + 7]);
});

it('a success is kept over a restart, also where its notifier failed first', async () => {
  const all = await setUp();
  all.judge(2, true, start);
  all.judge(1, true, start + 1);
  all.report();
  all.judge(2, false, start + 2);
  all.report();
  await all.restart();
  for (const run of [1, 2]) all.kill(run);
  expect(all.row()).toEqual([0, null]);
});

it.each([
  { fails: 'long ago', succeeds: 'before' },
  { fails: 'long ago', succeeds: 'after' },
  { fails: 'before', succeeds: 'after' },
])('a reload undoes no success: fails $fails, succeeds $succeeds the reports change sides', async (when) => {
  const all = await setUp();
  const happens = (at: string) => () => {
    if (when.fails === at) all.judge(1, true, start);
    if (when.succeeds === at) all.judge(1, false, start + 2);
    all.report();
  };
  happens('long ago')();
  await all.restart();
  await all.reload(happens('before'), happens('after'));
  all.kill(1);
  expect(all.row()).toEqual([0, null]);
});

it.each([
  { isKept: false, when: 'at once' },
  { isKept: true, when: 'after dq-upkeep has looked' },
])('a topic that comes back to its receiver $when fails since then, at each notifier', async ({ isKept }) => {
  const all = await setUp();
  for (const at of [0, 1]) all.judge(1, true, start + at);
  all.report();
  all.change('http://b');
  all.judge(2, false, start + 2, 'http://b');
  all.report();
  if (isKept) await all.restart();
  all.change(receiver);
  expect(all.row()).toEqual([0, null]);
  for (const at of [5, 6]) all.judge(2, true, start + at);
  all.judge(1, true, start + 7);
  expect(all.row()).toEqual([3, start + 5]);
});

it('the row ends with another receiver, and with the topic', async () => {
  const all = await setUp();
  for (const at of [0, 1]) all.judge(1, true, start + at);
  all.report();
  all.registered.set(t, 'http://b');
  expect(all.rows()).toEqual([]);
  all.judge(2, true, start + 3, 'http://b');
  expect(all.row()).toEqual([1, start + 3]);
  all.report();
  for (const run of [1, 2]) all.kill(run);
  all.registered.clear();
  await all.restart();
  expect(all.row()).toEqual([0, null]);
});

it('of too many topics the one that is least in trouble is given up; an answer without names has the worst', async () => {
  const all = await setUp();
  const names = Array.from({ length: upkeepLimits.failureRowsMax + 1 }, (_, n) => `t${n}`);
  const [calm, worst] = [names[5] as string, names.at(-1) as string];
  for (const name of names) all.registered.set(name, receiver);
  all.receive(
    names.map((topic, n) => ({
      ...notCalled(topic),
      ...{ failuresInRow: topic === calm ? 1 : n + 2, since: start, lastFailuresAt: [start] },
    })),
  );
  expect(all.parts([calm])).toEqual([]);
  expect(all.parts(names)).toHaveLength(upkeepLimits.failureRowsMax);
  const answer = all.parts().map(({ topic }) => topic);
  expect(answer).toHaveLength(processLimits.failingTopicsMax);
  expect(answer[0]).toBe(worst);
});

it('a success after the clock was set back ends the row of a dead notifier', async () => {
  const all = await setUp();
  for (const at of [0, 1]) all.judge(1, true, start + at);
  all.report();
  all.kill(1);
  all.clock.at = start / 2;
  expect(all.row()).toEqual([2, start]);
  all.judge(2, false, start / 2);
  all.report();
  expect(all.row()).toEqual([0, null]);
  all.judge(2, true, start / 2 + 1);
  expect(all.row()).toEqual([1, start / 2 + 1]);
});

it('a part whose retried jobs cannot be read is left out', async () => {
  const all = await setUp();
  for (const run of [1, 2]) all.judge(run, true, start + run);
  all.report();
  for (const run of [1, 2]) all.kill(run);
  await all.restart();
  const [part] = JSON.parse((await all.file.read()) ?? '');
  await all.file.write(JSON.stringify([{ ...part, retried: [null] }]));
  await all.restart(true);
  expect(all.row()).toEqual([0, null]);
});

it('retried jobs of dead notifiers whose next attempt is long over make way for those of living ones', async () => {
  const all = await setUp();
  const job = (id: string, at: number) => ({ id, since: start + at, nextAt: start + at });
  const said = (run: number, jobs: readonly ReturnType<typeof job>[]): TopicFailures => ({
    ...{ ...notCalled(t), run, failuresInRow: 1, since: start, lastFailuresAt: [start] },
    retried: jobs,
  });
  all.receive([
    said(
      1,
      ['a', 'b', 'c', 'd'].map((id) => job(id, 0)),
    ),
  ]);
  all.kill(1);
  const living = said(2, [job('e', limits.retriedKeptMs)]);
  const named = () =>
    mergeFailures([living, ...all.rows()])
      .get(t)
      ?.retried?.map(({ id }) => id);
  expect(named()).toEqual(['a', 'b', 'c', 'd']);
  all.clock.at = start + limits.retriedKeptMs;
  expect(named()).toEqual(['e']);
  await all.restart();
  expect(named()).toEqual(['e']);
});
