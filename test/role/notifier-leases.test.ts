// Tests the outcomes, the isolation and the drain of a notifier. Its leases, also short, lost and late ones,
// are a matter of the simulated worlds.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { FinishOutcome } from '../../src/ports/job-store.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { between, ids, owner, startRig, startTopic } from './rig.ts';

const hang = () => {};

describe('notifier: leases', () => {
  it('an outcome without an answer is sent again, and counted once', async () => {
    const { rig, sink } = await startTopic();
    const failures: FinishOutcome<'acked'>[] = [
      { kind: 'not_stored', code: 'full' },
      { kind: 'unknown', code: 'no_answer' },
    ];
    let tries = 0;
    const store = between(rig, {
      async ack(items) {
        tries += 1;
        const failure = failures.shift();
        if (failure === undefined) return rig.store.jobs.ack(items);
        // The second is applied, and its answer is lost.
        if (failure.kind === 'unknown') await rig.store.jobs.ack(items);
        return items.map(() => failure);
      },
    });
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    await until('it is settled', () => rig.counted('t', 'delivered') === 1);
    expect(tries).toBe(3);
    expect(notifier.inFlight()).toBe(0);
    expect(sink.arrivals).toHaveLength(1);
    expect(rig.lines.some(({ message }) => message.includes('lost'))).toBe(false);
  });
});

describe('notifier: a job that may kill its notifiers', () => {
  it('is followed by 200 more, one by one, without a pause', async () => {
    const rig = await startRig();
    let [running, most] = [0, 0];
    const sink = await startSink((_arrival, response) => {
      running += 1;
      most = Math.max(most, running);
      setImmediate(() => {
        running -= 1;
        response.end('{}');
      });
    });
    await rig.topic('suspect', sink.url);
    await rig.pushAll('suspect', ids('s', 200));
    for (let n = 0; n < limits.strikesIsolated; n += 1) {
      const dead = owner(900 + n);
      await rig.reserve(limits.reserveMax, dead);
      await rig.store.jobs.recoverOwners(0, dead.instance, { dead: dead.incarnation }, limits.recoverMax);
    }
    let skipped = 0;
    const store = between(rig, {
      reserve(partition, request) {
        if (request.topics.get('suspect')?.room === 0) skipped += 1;
        return rig.store.jobs.reserve(partition, request);
      },
    });
    // With a poll after each they would take 200 s.
    await rig.run(createNotifier(rig.context({ store, config: { pollCeiling: 1_000 } })));
    await until('all are delivered', () => rig.counted('suspect', 'delivered') === 200);
    expect(sink.arrivals).toHaveLength(200);
    expect([most, skipped]).toEqual([1, 0]);
  });
});

describe('notifier: a drain', () => {
  it('finishes and settles running calls, and reserves nothing', async () => {
    const { rig, sink } = await startTopic({ answer: hang, timeoutMs: 60_000 });
    const notifier = await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    await until('it runs', () => sink.open().length === 1);
    const drained = notifier.drain(10_000);
    await rig.push('t', 'b');
    sink.finish(sink.arrivals[0]);
    await drained;
    expect(rig.counted('t', 'delivered')).toBe(1);
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toBeNull();
    expect(await rig.store.jobs.get({ topic: 't', id: 'b' })).toMatchObject({ state: 'ready', strikes: 0 });
    expect(sink.arrivals).toHaveLength(1);
  });

  it('interrupts calls at its deadline, and releases their jobs', async () => {
    const { rig, sink } = await startTopic({ answer: hang, timeoutMs: 60_000 });
    const notifier = await rig.run(createNotifier(rig.context()));
    await rig.pushAll('t', ids('j', 5));
    await until('they run', () => sink.open().length === 5);
    await notifier.drain(50);
    await until('the connections are closed', () => sink.open().length === 0);
    expect(sink.arrivals.every(({ broken }) => broken)).toBe(true);
    for (let n = 0; n < 5; n += 1)
      expect(await rig.store.jobs.get({ topic: 't', id: `j${n}` })).toMatchObject({
        state: 'ready',
        failures: 0,
        strikes: 0,
      });
    expect(rig.notified()).toEqual([]);
  });

  it('releases the jobs of a running reserve', async () => {
    const { rig, sink } = await startTopic();
    let answer: (() => void) | null = null;
    const store = between(rig, {
      async reserve(partition, request) {
        const reserved = await rig.store.jobs.reserve(partition, request);
        if (reserved.jobs.length > 0)
          await new Promise<void>((resolve) => {
            answer = resolve;
          });
        return reserved;
      },
    });
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    const giveAnswer = await until('it is reserved', () => answer);
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({ state: 'reserved' });
    const drained = notifier.drain(30_000);
    giveAnswer();
    await drained;
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({ state: 'ready', strikes: 0 });
    expect(sink.arrivals).toEqual([]);
  });

  it('ends while the store does not answer', async () => {
    const time = useJumpingTime();
    const { rig } = await startTopic();
    let isCalled = false;
    const store = between(rig, {
      async ack(items) {
        isCalled = true;
        return items.map(() => ({ kind: 'unknown', code: 'no_answer' }));
      },
    });
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    // A drain would cut a call short whose reply it has not read.
    await until('its call has ended', () => isCalled);
    await time.outlast(notifier.drain(100));
    expect(
      rig.lines.some(({ message, unsettled }) => message.includes('cannot settle jobs') && unsettled === 1),
    ).toBe(true);
  });
});
