// Tests a healthy topic beside many with hanging endpoints, in a real daemon on both stores.
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { startHanging } from '../support/hanging.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

it.for(['embedded', 'redis'])(
  'neighbours: 150 hanging topics delay no healthy topic (%s)',
  async (store, { skip }) => {
    if (store === 'redis' && (await lacks('redis'))) skip();
    const args = store === 'redis' ? ['--redis', (await owned('test', startRedis())).url] : [];
    const hanging = await startHanging();
    const sink = await startSink();
    hanging.hang();
    const daemon = await startDaemon({ args, config: { notifier: { slots: 32 } } });
    await addTopic(daemon, 'fine', sink.url);
    await forAll(numbers(150), (n) => addTopic(daemon, `bad-${n}`, hanging.urlOf(n), { timeout: '60s' }));
    // More jobs than one reserve of each notifier can take.
    for (const round of numbers(3)) {
      const batch = numbers(150).map((n) => ({ topic: `bad-${n}`, body: round }));
      expect((await daemon.api('POST', '/v1/jobs', batch)).status).toBe(200);
    }
    for (const n of numbers(15)) {
      expect((await daemon.push('fine', `${n}`)).status).toBe(201);
      // Their calls end after 60 s.
      await until('it is delivered', () => sink.arrivals.length === n + 1, 20_000);
    }
    await until('each of the others was called', () => new Set(hanging.called).size === 150);
    expect((await daemon.push('fine', '"last"')).status).toBe(201);
    await until('it is delivered', () => sink.arrivals.length === 16, 20_000);
  },
);
