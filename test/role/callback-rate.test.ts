// A topic with a rate: no more calls than it says, no fewer than it allows, no attempt spent, and nobody else slower.
import { describe, expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, owner, startRig } from './rig.ts';

/** The most arrivals that begin within one second of each other. */
function mostInASecond(times: readonly number[]): number {
  return Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));
}

describe('rate', () => {
  it('is kept with polls far apart, while topics without one flow', async () => {
    const rig = await startRig();
    const [limited, free] = [await startSink(), await startSink()];
    await rig.topic('limited', limited.url, { rate: 20 });
    await rig.topic('free', free.url);
    await rig.pushAll('limited', ids('l', 200), { priority: 'high' });
    await rig.pushAll('free', ids('f', 300));
    let reserves = 0;
    const jobs = Object.assign(Object.create(rig.store.jobs), {
      reserve(...asked: Parameters<typeof rig.store.jobs.reserve>) {
        reserves += 1;
        return rig.store.jobs.reserve(...asked);
      },
    });
    const ctx = rig.context({ store: { ...rig.store, jobs }, config: { pollCeiling: 1_000 } });
    await rig.run(createNotifier(ctx));
    await until('the others are delivered', () => rig.counted('free', 'delivered') === 300);
    expect(limited.arrivals.length).toBeLessThan(100);
    const [from, reservedBefore] = [limited.arrivals.length, reserves];
    const [first] = limited.arrivals.slice(from - 1);
    await until('two seconds of it', () => limited.arrivals.length >= from + 40);
    const last = limited.arrivals[from + 39];
    // 40 calls at 20 a second: not sooner than their number says, one burst and a timer's coarseness aside.
    expect((last?.arrivedAt ?? 0) - (first?.arrivedAt ?? 0)).toBeGreaterThan(1_500);
    expect(mostInASecond(limited.arrivals.map(({ arrivedAt }) => arrivedAt))).toBeLessThanOrEqual(30);
    // A wake-up for each piece of the bucket, and the ends of calls bring none.
    expect(reserves - reservedBefore).toBeLessThan(100);
    expect(limited.arrivals.every(({ attempt }) => attempt === 1)).toBe(true);
    expect(await rig.store.jobs.get({ topic: 'limited', id: 'l199' })).toMatchObject({
      state: 'ready',
      failures: 0,
      strikes: 0,
    });
  });

  it('is shared by the notifiers of an instance, and one a second is called by one of them', async () => {
    const rig = await startRig();
    const sink = await startSink();
    const other = await startSink();
    await rig.topic('one', sink.url, { rate: 1 });
    await rig.topic('twenty', other.url, { rate: 20 });
    await rig.pushAll('one', ids('j', 10));
    await rig.pushAll('twenty', ids('t', 200));
    for (const index of [0, 1])
      await rig.run(createNotifier(rig.context({ index, count: 2, owner: owner(index + 1) })));
    await until('three calls', () => sink.arrivals.length === 3);
    const times = sink.arrivals.map(({ arrivedAt }) => arrivedAt);
    expect((times[2] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(1_800);
    expect(mostInASecond(other.arrivals.map(({ arrivedAt }) => arrivedAt))).toBeLessThanOrEqual(30);
  });

  it('that is taken away or changed is another one at once, and a change gives nothing away', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url, { rate: 1 });
    await rig.pushAll('t', ids('j', 30));
    await rig.run(createNotifier(rig.context({ config: { pollCeiling: 1_000 } })));
    await until('the first call', () => rig.counted('t', 'delivered') === 1);
    for (const title of ['a', 'b', 'c', 'd', 'e']) await rig.topic('t', sink.url, { rate: 1, title });
    await until('it is asked again', async () => (await rig.registry.get('t'))?.title === 'e');
    expect(sink.arrivals.length).toBeLessThanOrEqual(2);
    await rig.topic('t', sink.url);
    await until('the rest', () => rig.counted('t', 'delivered') === 30, 3_000);
  });
});
