// Tests a topic with an unreadable record: its jobs are held, others go on, and it can be replaced or
// removed.
import { expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { getTopic, patchTopic, putTopic } from '../../src/use-cases/change-topic.ts';
import { removeTopic } from '../../src/use-cases/remove-topic.ts';
import { until } from '../support/until.ts';
import { damage, secret, startRig, startTopic } from './rig.ts';

it.each([
  ['settings', '{'],
  ['secrets', 'v1:AAAA'],
])(
  'unreadable topic: holds jobs when its %s are damaged, and delivers them once replaced',
  async (column, text) => {
    const { rig, sink } = await startTopic();
    await rig.topic('other', sink.url);
    damage(rig, column, text);
    await rig.topics.refresh();
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'held');
    await rig.topic('other', sink.url, { title: 'changed' });
    expect(rig.topics.get('other')?.title).toBe('changed');
    await rig.push('other', 'a');
    await until('the other is delivered', () => rig.counted('other', 'delivered') === 1);
    const isNamed = ({ kind, topic }: (typeof rig.lines)[number]) => kind === 'error' && topic === 't';
    await until('it is named', () => rig.lines.some(isNamed));
    expect(sink.arrivals.map(({ id }) => id)).toEqual(['a']);
    const held = await rig.store.jobs.get({ topic: 't', id: 'held' });
    expect([held?.state, held?.failures]).toEqual(['ready', 0]);

    const { registry } = rig;
    await expect(getTopic(registry, 't')).rejects.toThrow(
      'cannot read its stored record; replace it with PUT or remove it',
    );
    await expect(patchTopic(registry, 't', { settings: {} })).rejects.toThrow('cannot read');
    const put = await putTopic(registry, 't', { settings: { callbackUrl: sink.url } });
    // A readable secret is kept.
    expect([put.created, put.topic.secrets[0]?.secret === secret]).toEqual(
      column === 'secrets' ? [true, false] : [false, true],
    );
    await rig.topics.refresh();
    await until('it is delivered', () => rig.counted('t', 'delivered') === 1);
  },
);

it('unreadable topic: is removed; its jobs only by a purge', async () => {
  const rig = await startRig();
  await rig.topic('t', 'http://127.0.0.1:9/');
  await rig.push('t', 'a');
  damage(rig, 'settings', '[]');
  await expect(removeTopic(rig.registry, rig.store.admin, 't', false)).rejects.toThrow('1 jobs');
  expect(await removeTopic(rig.registry, rig.store.admin, 't', true)).toBe(1);
  expect(await rig.registry.remains('t')).toBeNull();
});
