// When topics are called again, what holds unknown ones, and why a notifier calls none.
import { describe, expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { JobStore } from '../../src/ports/job-store.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { between, ids, startRig, startTopic } from './rig.ts';

const hang = () => {};

describe('notifier: slots', () => {
  it('a full topic is called again when a call ends, not at the next poll', async () => {
    const { rig } = await startTopic({ concurrency: 1 });
    await rig.pushAll('t', ids('j', 50));
    // Fifty polls would take fifty minutes.
    await rig.run(createNotifier(rig.context({ config: { pollCeiling: 60_000 } })));
    await until('all are delivered', () => rig.counted('t', 'delivered') === 50);
  });
});

describe('notifier: rhythm', () => {
  it.each(['the topic was full', 'the reserve brings jobs'])(
    'calls that end during a reserve are replaced at once: %s',
    async (situation) => {
      const rig = await startRig();
      const sink = await startSink((arrival, response) => {
        // Every second one later, so that one call ends, one reserve sets out, and then the other call ends.
        setTimeout(() => response.end('{}'), Number(arrival.id.slice(1)) % 2 === 0 ? 0 : 30);
      });
      await rig.topic('t', sink.url, { concurrency: 2 });
      await rig.pushAll('t', ids('j', 30));
      let hint: Parameters<JobStore['onHint']>[0] = () => {};
      const store = between(rig, {
        onHint(listener) {
          hint = listener;
          return () => {};
        },
        async reserve(...asked) {
          const reserved = await rig.store.jobs.reserve(...asked);
          // All calls have ended before the answer of the store arrives.
          await until('nothing runs', () => notifier.inFlight() === 0, { everyMs: 1 });
          if (situation.includes('full') && reserved.jobs.length > 0)
            setImmediate(() => hint({ kind: 'ready', partition: 0 }));
          return reserved;
        },
      });
      const ctx = rig.context({ store, config: { pollCeiling: 60_000 } });
      const notifier = createNotifier(ctx);
      await rig.run(notifier);
      await until('all are delivered', () => rig.counted('t', 'delivered') === 30);
    },
  );
});

describe('notifier: topics', () => {
  it('a job of an unknown topic is held until the topic is registered', async () => {
    const rig = await startRig();
    const sink = await startSink();
    const asked: string[] = [];
    const registry = rig.registry;
    const get = registry.get.bind(registry);
    registry.get = (name) => {
      asked.push(name);
      return get(name);
    };
    await rig.run(createNotifier(rig.context()));
    await rig.push('late', 'a');
    await rig.push('late', 'b');
    await until('it is reported', () => rig.lines.some(({ message }) => message.includes('unknown topic')));
    await until(
      'the jobs are released',
      async () => (await rig.store.jobs.get({ topic: 'late', id: 'a' }))?.state === 'ready',
    );
    expect(asked).toEqual(['late']);
    await rig.topic('late', sink.url);
    await until('both are delivered', () => rig.counted('late', 'delivered') === 2);
    expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });
});

describe('notifier: beside an older one', () => {
  it('names standby, then draining, as the reason why it calls no job', async () => {
    const { rig, sink } = await startTopic({ answer: hang });
    const reasons = () => rig.ask('capacity', { topic: 't' });
    const notifier = await rig.run(createNotifier(rig.context({ takesOver: true })));
    expect(await reasons()).toMatchObject([{ code: 'standby', values: {} }]);
    await notifier.takeOver?.();
    expect(await reasons()).toEqual([]);
    await rig.push('t', 'a');
    await until('the callback runs', () => sink.open().length === 1);
    const drained = notifier.drain(60_000);
    expect((await reasons())?.[0]).toMatchObject({ code: 'draining', values: { running: 1 } });
    sink.finish(sink.open()[0]);
    await drained;
  });
});
