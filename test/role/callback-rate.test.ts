// Tests topics with a rate: their calls reach the rate and never exceed it, count no attempt, and delay no
// other topic.
import { describe, expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, owner, startRig } from './rig.ts';

/** The most arrivals within one second. */
function mostInASecond(times: readonly number[]): number {
  return Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));
}

describe('rate', () => {
  it('holds with rare polls, and delays no other topic', async () => {
    const rig = await startRig();
    const [limited, free] = [await startSink(), await startSink()];
    // A call that times out on a busy machine would be retried after a minute.
    await rig.topic('limited', limited.url, { rate: 20, timeoutMs: 60_000 });
    await rig.topic('free', free.url, { timeoutMs: 60_000 });
    // More calls than the longest run of this test makes.
    await rig.pushAll('limited', ids('l', 2_000), { priority: 'high' });
    await rig.pushAll('free', ids('f', 300));
    let reserves = 0;
    const jobs = Object.assign(Object.create(rig.store.jobs), {
      reserve(...asked: Parameters<typeof rig.store.jobs.reserve>) {
        reserves += 1;
        return rig.store.jobs.reserve(...asked);
      },
    });
    const ctx = rig.context({ store: { ...rig.store, jobs }, config: { pollCeiling: 1_000 } });
    const startedAt = performance.now();
    await rig.run(createNotifier(ctx));
    await until('the others are delivered', () => rig.counted('free', 'delivered') === 300);
    expect(limited.arrivals.length).toBeLessThan(40 + (20 * (performance.now() - startedAt)) / 1_000);
    const [from, reservedBefore] = [limited.arrivals.length, reserves];
    const [first] = limited.arrivals.slice(from - 1);
    await until('two seconds of it', () => limited.arrivals.length >= from + 40);
    const last = limited.arrivals[from + 39];
    // 40 calls at 20 a second: not sooner than the rate allows, apart from one burst and the delay of a busy
    // machine.
    expect((last?.arrivedAt ?? 0) - (first?.arrivedAt ?? 0)).toBeGreaterThan(1_000);
    expect(mostInASecond(limited.arrivals.map(({ arrivedAt }) => arrivedAt))).toBeLessThanOrEqual(40);
    // One wake-up per token; the ends of calls add none.
    expect(reserves - reservedBefore).toBeLessThan(2.5 * (limited.arrivals.length - from));
    expect(limited.arrivals.every(({ attempt }) => attempt === 1)).toBe(true);
    expect(await rig.store.jobs.get({ topic: 'limited', id: 'l1999' })).toMatchObject({
      state: 'ready',
      failures: 0,
      strikes: 0,
    });
  });

  it('is shared by the notifiers of an instance', async () => {
    const rig = await startRig();
    const sink = await startSink();
    const other = await startSink();
    await rig.topic('one', sink.url, { rate: 1, timeoutMs: 60_000 });
    await rig.topic('twenty', other.url, { rate: 20, timeoutMs: 60_000 });
    await rig.pushAll('one', ids('j', 10));
    await rig.pushAll('twenty', ids('t', 200));
    const startedAt = Date.now();
    for (const index of [0, 1])
      await rig.run(createNotifier(rig.context({ index, count: 2, owner: owner(index + 1) })));
    await until('five calls', () => sink.arrivals.length >= 5);
    // Four seconds; two, if each notifier had one call a second. Not from the first arrival on, which is late
    // if this process stands still during the call.
    expect((sink.arrivals[4]?.arrivedAt ?? 0) - startedAt).toBeGreaterThan(3_000);
    expect(mostInASecond(other.arrivals.map(({ arrivedAt }) => arrivedAt))).toBeLessThanOrEqual(40);
  });

  it('applies at once after a change, which adds no tokens', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url, { rate: 1, timeoutMs: 60_000 });
    await rig.pushAll('t', ids('j', 30));
    const startedAt = Date.now();
    await rig.run(createNotifier(rig.context({ config: { pollCeiling: 1_000 } })));
    await until('the first call', () => rig.counted('t', 'delivered') === 1);
    for (const title of ['a', 'b', 'c', 'd', 'e'])
      await rig.topic('t', sink.url, { rate: 1, timeoutMs: 60_000, title });
    await until('it is read again', async () => (await rig.registry.get('t'))?.title === 'e');
    const seconds = (Date.now() - startedAt) / 1_000;
    expect(sink.arrivals.length).toBeLessThanOrEqual(2 + Math.floor(seconds));
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    // At one call a second they would take half a minute.
    await until('the rest', () => rig.counted('t', 'delivered') === 30, 15_000);
  });
});
