// Tests the removal of a topic with its jobs, beside other calls of the store.
import { describe, expect, it, onTestFinished } from 'vitest';
import type { JobState } from '../../src/core/job.ts';
import type { StoreAdmin } from '../../src/ports/job-store.ts';
import { RemovalWatch } from '../../src/upkeep/removal-watch.ts';
import { endRemoval, patchTopic } from '../../src/use-cases/change-topic.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
import { removeTopic } from '../../src/use-cases/remove-topic.ts';
import type { StoreUnderTest } from '../conformance/store-under-test.ts';
import { Trial } from '../conformance/trial.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { openEmpty } from '../support/redis-store.ts';
import { lacks, workerRedis } from '../support/services.ts';
import { openSqliteStore } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';
import { ids, type Rig, startRig } from './rig.ts';

describe('removing a topic', () => {
  it('purges in steps, between which the store serves other calls', async () => {
    const time = useJumpingTime();
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.topic('other', 'http://127.0.0.1:9/');
    for (const letter of ['a', 'b', 'c', 'd']) await rig.pushAll('t', ids(letter, 200));
    await rig.push('other', 'x');
    const steps: number[] = [];
    const admin: StoreAdmin = {
      ...rig.store.admin,
      async purgeTopic(topic, max) {
        const step = await rig.store.admin.purgeTopic(topic, max);
        steps.push(step.purged);
        return step;
      },
    };
    expect(await time.outlast(removeTopic(rig.registry, admin, 't', true))).toBe(800);
    expect(Math.max(...steps)).toBeLessThanOrEqual(useCaseLimits.purgeStepMax);
    expect(await rig.registry.get('t')).toBeNull();
    expect((await rig.store.admin.counts()).topics).toEqual({
      other: { delayed: 0, ready: 1, reserved: 0, dead: 0 },
    });
  });

  it('ends at its time limit with the counts, and continues when repeated', async () => {
    const time = useJumpingTime();
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.pushAll('t', ids('a', useCaseLimits.purgeStepMax + 50));
    const remove = () => time.outlast(removeTopic(rig.registry, rig.store.admin, 't', true, null, 0));
    await expect(remove()).rejects.toMatchObject({
      code: 'topic_has_jobs',
      extra: { purged: useCaseLimits.purgeStepMax, jobs: 50 },
    });
    expect((await rig.registry.get('t'))?.state).toBe('offline');
    expect(await remove()).toBe(50);
    expect(await rig.registry.get('t')).toBeNull();
  });
});

const stores: [string, boolean, () => Promise<StoreUnderTest>][] = [
  [
    'embedded store',
    false,
    async () => {
      const { client, dump, close } = await openSqliteStore();
      return { store: client.store, dump: async () => dump(), close };
    },
  ],
  ['Redis', await lacks('redis'), async () => openEmpty(await workerRedis())],
];

for (const [name, isMissing, open] of stores)
  describe.skipIf(isMissing)(`removing a topic with jobs, ${name}`, () => {
    it.each<JobState>(['delayed', 'ready', 'reserved', 'dead'])(
      'is rejected for a %s one, and the topic stays as it was',
      async (state) => {
        const rig = await startRig();
        await rig.topic('t', 'http://127.0.0.1:9/', { state: 'paused' });
        const before = await rig.registry.get('t');
        const under = await open();
        onTestFinished(() => under.close());
        await new Trial(under).seed(state, 'x', { topic: 't' });
        await expect(removeTopic(rig.registry, under.store.admin, 't', false)).rejects.toMatchObject({
          code: 'topic_has_jobs',
          extra: { purged: 0, jobs: 1 },
        });
        expect(await rig.registry.get('t')).toEqual(before);
      },
    );

    it('ends when a job arrives after the first count, and restores the state', async () => {
      const time = useJumpingTime();
      const rig = await startRig();
      await rig.topic('t', 'http://127.0.0.1:9/', { state: 'paused' });
      const under = await open();
      onTestFinished(() => under.close());
      const removing = removeTopic(rig.registry, under.store.admin, 't', false);
      const outcome = expect(removing).rejects.toMatchObject({ code: 'topic_has_jobs' });
      await until('it is offline', async () => (await rig.registry.get('t'))?.state === 'offline', {
        everyMs: 5,
      });
      // From a process that has not read the change yet.
      await new Trial(under).push('late', { topic: 't' });
      await time.outlast(outcome);
      expect(await rig.registry.get('t')).toMatchObject({ state: 'paused' });
      expect((await rig.registry.get('t'))?.removal).toBeUndefined();
      expect((await under.store.admin.counts()).topics['t']?.ready).toBe(1);
    });
  });

describe('an interrupted removal', () => {
  /** The state after a crash behind the first write: the topic is offline, and nothing continues. */
  async function cutOff(rig: Rig): Promise<void> {
    let looks = 0;
    const admin: StoreAdmin = {
      ...rig.store.admin,
      counts: (...args) => {
        looks += 1;
        return looks === 1 ? rig.store.admin.counts(...args) : new Promise(() => {});
      },
    };
    void removeTopic(rig.registry, admin, 't', false);
    await until('it is offline', async () => (await rig.registry.get('t'))?.state === 'offline');
  }
  const watch = (rig: Rig, staleMs: number) => {
    const { topics, log, registry } = rig.context();
    const started = new RemovalWatch({ registry, topics, log, times: { everyMs: 10, staleMs } });
    onTestFinished(() => started.drain(1_000));
    return started.start();
  };

  it('dq-upkeep restores the state, also after other changes', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9/', { state: 'paused' });
    await cutOff(rig);
    await patchTopic(rig.registry, 't', { settings: { title: 'x' } });
    await watch(rig, 200);
    const restored = await until('it is as before', async () => {
      await rig.context().topics.refresh();
      const topic = await rig.registry.get('t');
      return topic?.state === 'paused' ? topic : null;
    });
    expect([restored.title, restored.removal]).toEqual(['x', undefined]);
    expect(rig.lines.filter(({ message }) => message.startsWith('removal-watch: restored'))).toEqual([
      expect.objectContaining({ kind: 'notice', topic: 't', state: 'paused' }),
    ]);
  });

  it('is forgotten when a caller sets the state', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await cutOff(rig);
    await patchTopic(rig.registry, 't', { settings: {}, state: 'offline' });
    expect(await endRemoval(rig.registry, 't')).toBeNull();
    expect((await rig.registry.get('t'))?.state).toBe('offline');
  });
});
