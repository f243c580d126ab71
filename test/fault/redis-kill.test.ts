// kill -9 of dq's processes and of Redis under load: acknowledged jobs are delivered, rejected ones never.
import { describe, expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, jobsLeft, startPushing } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

// Above the sum of the waits.
vi.setConfig({ testTimeout: 300_000 });

describe.skipIf(await lacks('redis'))('jobs in Redis', () => {
  it('no acknowledged job is lost when each process and Redis is killed in turn', async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync always'] }));
    const sink = await startSink();
    const daemon = await startDaemon({ args: ['--redis', server.url] });
    await addTopic(daemon, 't', sink.url);
    const producers = startPushing(daemon, 't');
    const moreArePushed = async () => {
      const before = producers.acknowledged.length;
      await until('pushes are acknowledged', () => producers.acknowledged.length > before + 100);
    };
    for (const title of [
      'dq-notifier-0',
      'dq-server-0',
      'redis',
      'dq-timer-0',
      'dq-upkeep',
      'dq-store',
      'redis',
    ]) {
      await moreArePushed();
      if (title === 'redis') {
        await server.process.kill();
        await server.process.start();
        continue;
      }
      const pid = daemon.pidOf(title);
      process.kill(pid, 'SIGKILL');
      await until(`${title} is restarted`, () =>
        daemon.workers().some((worker) => worker.title === title && worker.pid !== pid),
      );
    }
    await moreArePushed();
    await producers.stop();
    const missing = () => {
      const arrived = new Set(sink.arrivals.map(({ id }) => id));
      return producers.acknowledged.filter((id) => !arrived.has(id));
    };
    await until('all acknowledged jobs have arrived', () => missing().length === 0, 90_000, 100);
    await until('nothing is left', async () => (await jobsLeft(daemon)) === 0, 40_000, 100);
    const fsck = await daemon.api('POST', '/v1/fsck');
    expect(fsck.status).toBeLessThan(300);
    const examined = await until('fsck to end', async () => {
      const { body } = await daemon.api('GET', '/v1/fsck');
      return body.state === 'running' ? null : body;
    });
    expect(examined).toMatchObject({ state: 'done', problems: [] });
  });
});
