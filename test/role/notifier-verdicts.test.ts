// One attempt against every kind of receiver, from the reserve to the settlement.
import { describe, expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { startRig } from './rig.ts';

describe('notifier', () => {
  it('delivers a job: the pushed bytes, signed, and removes it', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('order', sink.url);
    await rig.run(createNotifier(rig.context()));
    await rig.push('order', 'a 1');
    await until('the job is counted', () => rig.counted('order', 'delivered') === 1);
    const [arrival] = sink.arrivals;
    expect(arrival).toMatchObject({ topic: 'order', id: 'a 1', attempt: 1 });
    expect(await rig.store.jobs.get({ topic: 'order', id: 'a 1' })).toBeNull();
  });
});
