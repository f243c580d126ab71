// Tests the gRPC port of a real daemon: reloads under calls, and a server that is killed.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { type GrpcClient, grpcClient } from '../support/grpc-client.ts';
import { reload } from '../support/reloading.ts';
import { lacks } from '../support/services.ts';
import { until } from '../support/until.ts';

const reloads = Number(process.env['DQ_GRPC_RELOADS'] ?? 1);
const isMissing = await lacks('grpc');

async function start(): Promise<Daemon & { readonly client: GrpcClient; readonly grpcPort: number }> {
  const daemon = await startDaemon({ args: ['--grpc-port', '0', '--servers', '2'] });
  await daemon.api('POST', '/v1/topics', { topic: 't', delivery: 'pull', lease: '10m' });
  const run = JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8'));
  const grpcPort = Number(/^http:\/\/127\.0\.0\.1:(\d+)$/.exec(run.compat.grpc)?.[1]);
  return { ...daemon, grpcPort, client: await grpcClient(grpcPort) };
}

/** Pushes with ids, eight at once, until stop(); and one pull that waits. Returns the pushed ids. `repeats`:
 *  also those that were answered UNAVAILABLE. */
function pushing(client: GrpcClient, { repeats = false } = {}) {
  const pushed: string[] = [];
  const failures: object[] = [];
  let isOver = false;
  const pusher = async (name: number) => {
    for (let n = 0; !isOver; n++) {
      const id = `${name}-${n}`;
      const push = () => client.queue('Push', { topic: 't', id, delay: '1h' });
      let answer = await push();
      // Its server was killed after it had begun to answer: then the library does not repeat the call.
      while (repeats && answer.code === 'UNAVAILABLE') answer = await push();
      if (answer.code === 'OK') pushed.push(id);
      else failures.push(answer);
    }
  };
  const puller = async () => {
    while (!isOver) {
      const answer = await client.queue('Pull', { topics: ['t'], wait: '2s' });
      if (answer.code !== 'OK' && !(repeats && answer.code === 'UNAVAILABLE')) failures.push(answer);
    }
  };
  const loops = [...Array.from({ length: 8 }, (_, name) => pusher(name)), puller()];
  return {
    pushed,
    async stop() {
      isOver = true;
      await Promise.all(loops);
      return { pushed, failures };
    },
  };
}

async function storedIds(daemon: Daemon): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor = ''; ; ) {
    const { body } = await daemon.api('GET', `/v1/jobs?topic=t&limit=1000${cursor}`);
    ids.push(...body.items.map(({ id }: { id: string }) => id));
    if (body.nextCursor === null) return ids;
    cursor = `&cursor=${encodeURIComponent(body.nextCursor)}`;
  }
}

it.skipIf(isMissing)('reloads under calls: none fails, and each push is stored once', async () => {
  const daemon = await start();
  const load = pushing(daemon.client);
  for (let n = 0; n < reloads; n++) {
    const before = load.pushed.length;
    await until('pushes go on', () => load.pushed.length > before + 100);
    const old = daemon.workers().map(({ pid }) => pid);
    const { code, stderr } = await reload(daemon);
    expect(code, stderr).toBe(0);
    await until('the old servers have exited', () =>
      daemon.workers().every(({ title, pid }) => !title.startsWith('dq-server') || !old.includes(pid)),
    );
  }
  const { pushed, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect((await storedIds(daemon)).sort()).toEqual([...pushed].sort());
  expect(daemon.log('error')).toEqual([]);
});

it.skipIf(isMissing)('kill -9 of a server: the client repeats its calls, and nothing doubles', async () => {
  const daemon = await start();
  const load = pushing(await grpcClient(daemon.grpcPort, { retries: true }), { repeats: true });
  await until('pushes go on', () => load.pushed.length > 100);
  for (const title of ['dq-server-0', 'dq-server-1']) {
    const pid = daemon.pidOf(title);
    process.kill(pid, 'SIGKILL');
    await until('another server replaces it', () =>
      daemon.workers().some((worker) => worker.title === title && worker.pid !== pid),
    );
    const before = load.pushed.length;
    await until('pushes go on', () => load.pushed.length > before + 100);
  }
  const { pushed, failures } = await load.stop();
  expect(failures).toEqual([]);
  // The second server can die before the first has its successor, which serves gRPC before HTTP.
  await until('HTTP is served', () => daemon.api('GET', '/livez'));
  expect((await storedIds(daemon)).sort()).toEqual([...pushed].sort());
});
