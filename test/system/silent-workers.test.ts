// Tests processes stopped by SIGSTOP: the master replaces a single worker; a stopped master or group
// continues.
import { describe, expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, isAlive, startDaemon } from '../support/daemon.ts';
import { impatientDq, silenceSeconds } from '../support/impatient-dq.ts';
import { addTopic } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

async function stateOf(daemon: Daemon, id: string): Promise<string> {
  return (await daemon.api('GET', `/v1/topics/t/jobs/${id}`)).body.state;
}

const withoutRedis = await lacks('redis');

describe.each(['embedded store', 'Redis'])('a stopped notifier, %s', (store) => {
  it.skipIf(store === 'Redis' && withoutRedis)(
    'is killed and replaced: its leases and its capacity move',
    async () => {
      const redis = store === 'Redis' ? await owned('test', startRedis()) : null;
      const sink = await startSink(() => {});
      const daemon = await startDaemon({
        launcher: impatientDq(),
        args: redis === null ? [] : ['--redis', redis.url],
        config: { notifier: { workers: 2 } },
      });
      // The only slot of the topic is that of notifier 0.
      await addTopic(daemon, 't', sink.url, { timeout: '60s', concurrency: 1 });
      const [first, second] = [daemon.pidOf('dq-notifier-0'), daemon.pidOf('dq-notifier-1')];
      await daemon.push('t', '{}', { id: 'called' });
      await until('the callback is running', () => sink.open().length === 1, 60_000);
      process.kill(first, 'SIGSTOP');
      await daemon.push('t', '{}', { id: 'waiting' });
      sink.answer((arrival) => sink.finish(arrival));
      await until(
        'both are done',
        async () => {
          const states = await Promise.all(['called', 'waiting'].map((id) => stateOf(daemon, id)));
          return states.every((state) => state === 'done');
          // The lease would end by itself after 70 s.
        },
        60_000,
      );
      expect(isAlive(first)).toBe(false);
      expect(daemon.pidOf('dq-notifier-1')).toBe(second);
      await until('the reason is logged', () =>
        daemon
          .log('error')
          .some(
            ({ message }) =>
              message ===
              `dq-notifier-0 (pid ${first}) was ended by SIGKILL: has sent nothing for ${silenceSeconds} s`,
          ),
      );
      // A lost lease is a strike and no attempt.
      expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
    },
  );
});

it('a stopped master, then a stopped process group: every worker survives', async () => {
  const daemon = await startDaemon({ launcher: impatientDq(), group: true });
  const workers = daemon.workers();
  // The elapsed time is the condition under test: longer than the limit of silence.
  for (const pid of [daemon.pid, -daemon.pid]) {
    const stopped = performance.now();
    process.kill(pid, 'SIGSTOP');
    onTestFinished(() => {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // It has ended.
      }
    });
    await until(
      'the limit of silence has passed',
      () => performance.now() - stopped > (silenceSeconds + 2) * 1_000,
    );
    process.kill(pid, 'SIGCONT');
    // The master would have found every worker silent by then.
    const reported = performance.now();
    await until('the master has counted further ticks', () => performance.now() - reported > 3_000);
    expect(daemon.workers()).toEqual(workers);
  }
  expect((await daemon.api('GET', '/readyz')).status).toBe(200);
  expect(daemon.log('error')).toEqual([]);
});
