// Many hanging topics beside healthy ones: the slots and probes that they hold.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startHanging } from '../support/hanging.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

const hang = () => {};
const never = { type: 'ladder', stepsMs: [600_000] } as const;

describe('notifier: many hanging topics', () => {
  it('a healthy topic is delivered while 70 topics in good standing start to hang', async () => {
    const count = 70;
    const rig = await startRig();
    const hanging = await startHanging();
    const sink = await startSink();
    const names = ids('bad', count);
    for (const [n, name] of names.entries())
      await rig.topic(name, hanging.urlOf(n), { timeoutMs: 60_000, backoff: never, concurrency: 1 });
    await rig.topic('fine', sink.url);
    await rig.run(createNotifier(rig.context({ config: { 'notifier.slots': 16 } })));
    for (const name of ['fine', ...names]) await rig.push(name, 'first');
    await until('all are delivered', () =>
      ['fine', ...names].every((each) => rig.counted(each, 'delivered') === 1),
    );
    hanging.hang();
    for (const name of names) await rig.pushAll(name, ids('j', 5));
    // Each time behind the others in every queue, and long before the end of their first calls.
    for (let n = 0; n < 20; n += 1) {
      const before = rig.counted('fine', 'delivered');
      await rig.push('fine', `j${n}`);
      await until('it is delivered', () => rig.counted('fine', 'delivered') > before);
    }
    const most = Math.min(16 * (1 + limits.slowCallsPerSlot + limits.probesPerSlot), count);
    await until('the others hold their maximum', () => hanging.open() >= most - 4);
    const before = rig.counted('fine', 'delivered');
    await rig.push('fine', 'last');
    await until('it is delivered', () => rig.counted('fine', 'delivered') > before);
  });

  it('more restricted topics than probes are probed in turn', async () => {
    const time = useJumpingTime();
    const rig = await startRig();
    const hanging = await startHanging();
    const names = ids('bad', 40);
    for (const [n, name] of names.entries())
      await rig.topic(name, hanging.urlOf(n), { timeoutMs: 600, backoff: never });
    for (const name of names) await rig.pushAll(name, ids('j', 40));
    hanging.hang();
    const notifier = createNotifier(rig.context({ config: { 'notifier.slots': 16 } }));
    await rig.run(notifier);
    await time.passUntil('each was called', () => new Set(hanging.called).size === 40);
    await time.passUntil('all calls are probes', () => notifier.inFlight() <= 4);
    const from = hanging.called.length;
    await time.passUntil('each was probed', () => new Set(hanging.called.slice(from)).size === 40);
    const times = names.map((name) => hanging.called.slice(from).filter((topic) => topic === name).length);
    expect(Math.max(...times)).toBeLessThanOrEqual(4);
  });

  it('the topics of a dead origin share a few probes, in turn', async () => {
    const time = useJumpingTime();
    const rig = await startRig();
    const hanging = await startHanging();
    const names = ids('bad', 20);
    for (const name of names) await rig.topic(name, hanging.urlOf(0), { timeoutMs: 600, backoff: never });
    for (const name of names) await rig.pushAll(name, ids('j', 100));
    hanging.hang();
    const notifier = createNotifier(rig.context({ config: { 'notifier.slots': 128 } }));
    await rig.run(notifier);
    await time.passUntil('each was called', () => new Set(hanging.called).size === 20);
    await time.passUntil(
      'a few probes run',
      () => notifier.inFlight() <= notifierLimits.ailingOriginCallsMax,
    );
    const from = hanging.called.length;
    let most = 0;
    await time.passUntil('each was probed', () => {
      most = Math.max(most, notifier.inFlight());
      return new Set(hanging.called.slice(from)).size === 20;
    });
    expect(most).toBeLessThanOrEqual(notifierLimits.ailingOriginCallsMax);
  });

  it('a healthy topic whose calls take long keeps its concurrency', async () => {
    const time = useJumpingTime();
    const rig = await startRig();
    const sink = await startSink(hang);
    const answerAll = () => {
      for (const open of sink.open()) sink.finish(open);
    };
    await rig.topic('long', sink.url, { concurrency: 8, timeoutMs: 60_000 });
    await rig.run(createNotifier(rig.context({ config: { 'notifier.slots': 16 } })));
    await rig.pushAll('long', ids('j', 4));
    await until('their calls run', () => sink.open().length === 4);
    await time.jump(2 * notifierLimits.slowCallMs);
    await rig.pushAll('long', ids('k', 20));
    await until('all of its concurrency is used beside them', () => sink.open().length === 8);
    await time.passUntil('all are delivered', () => {
      answerAll();
      return rig.counted('long', 'delivered') === 24;
    });
  });
});
