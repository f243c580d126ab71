// Tests the port for clients of ouqiang/delay-queue of a real daemon, on both stores: servers that share it,
// one of which is killed between a pop and its finish; a lease that ends.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { plainHttp } from '../support/plain-http.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const args = ['--ouqiang-port', '0', '--servers', '2'];
const push = { topic: 'order', delay: 1, ttr: 600, body: '{}' };

function portOf(daemon: Daemon): number {
  const run = JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8')) as {
    compat: { ouqiang: string };
  };
  return Number(/^http:\/\/127\.0\.0\.1:(\d+)$/.exec(run.compat.ouqiang)?.[1]);
}

async function served(daemon: Daemon): Promise<void> {
  const port = portOf(daemon);
  const ask = async (path: string, body: object) => {
    const { status, text } = await plainHttp(port, 'POST', path, { body: JSON.stringify(body) });
    expect(status, text).toBe(200);
    return JSON.parse(text) as { code: number; data: { id: string } | null };
  };
  const servers = () => daemon.workers().filter(({ title }) => title.startsWith('dq-server-'));

  // Fifty that wait, at both servers, for jobs that both push.
  const pops = Array.from({ length: 50 }, () => ask('/pop', { topic: 'order' }));
  const ids = Array.from({ length: 50 }, (_, n) => `j${n}`);
  await Promise.all(ids.map((id) => ask('/push', { ...push, id })));
  const popped = (await Promise.all(pops)).map(({ data }) => data?.id);
  expect(popped.sort()).toEqual([...ids].sort());

  // Each server remembers some of them: after its death another one finishes them.
  const [first] = servers();
  if (first === undefined) throw new Error('no server');
  process.kill(first.pid, 'SIGKILL');
  await until('another server replaces it', () => {
    const alive = servers();
    return alive.length === 2 && alive.every(({ pid }) => pid !== first.pid);
  });
  for (const id of ids)
    await until(`${id} is finished`, () =>
      // The killed server may still have accepted a connection.
      ask('/finish', { id }).then(
        ({ code }) => code === 0,
        () => false,
      ),
    );
  expect((await daemon.api('GET', '/v1/jobs?topic=order')).body.items).toEqual([]);

  // A job that is not finished is popped again, by the end of its lease.
  await ask('/push', { ...push, id: 'slow', ttr: 1 });
  expect((await ask('/pop', { topic: 'order' })).data?.id).toBe('slow');
  expect((await ask('/pop', { topic: 'order' })).data?.id).toBe('slow');
  const job = await daemon.api('GET', '/v1/topics/order/jobs/slow');
  // The second lease can have ended, too.
  expect(job.body).toMatchObject({ strikes: 0 });
  expect(job.body.attempt).toBeGreaterThanOrEqual(1);
  expect((await runDq(['fsck', '--url', daemon.url])).code).toBe(0);
}

it('pops are shared by the servers, and finished through another one after a kill', async () => {
  await served(await startDaemon({ args }));
});

it.skipIf(await lacks('redis'))('the same on Redis', async () => {
  const server = await owned('test', startRedis());
  await served(await startDaemon({ args: [...args, '--redis', server.url] }));
});
