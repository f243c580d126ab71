// Removing a topic with its jobs, beside everybody else who uses the store.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { removeTopic } from '../../src/jobs/remove-topic.ts';
import type { StoreAdmin } from '../../src/store/job-store.ts';
import { ids, startRig } from './rig.ts';

describe('removing a topic', () => {
  it('clears it in steps that leave the store to the others in between', async () => {
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
    expect(await removeTopic(rig.registry, admin, 't', true)).toBe(800);
    expect(Math.max(...steps)).toBeLessThanOrEqual(limits.purgeStepMax);
    expect(await rig.registry.get('t')).toBeNull();
    expect((await rig.store.admin.counts()).topics).toEqual({
      other: { delayed: 0, ready: 1, reserved: 0, dead: 0 },
    });
  });

  it('ends when its time is over, says how far it came, and goes on when it is called again', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.pushAll('t', ids('a', limits.purgeStepMax + 50));
    const remove = () => removeTopic(rig.registry, rig.store.admin, 't', true, 0);
    await expect(remove()).rejects.toMatchObject({
      code: 'topic_has_jobs',
      extra: { purged: limits.purgeStepMax, jobs: 50 },
    });
    expect((await rig.registry.get('t'))?.state).toBe('offline');
    expect(await remove()).toBe(50);
    expect(await rig.registry.get('t')).toBeNull();
  });
});
