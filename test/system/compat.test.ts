// Tests the ports for clients of other queues of a real daemon: PHP itself, a frozen store, reloads under
// calls, servers that are killed. The ports do not know the kind of store. Without Redis:
// role/redis-unreached.
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { compatLimits } from '../../src/compat/limits.ts';
import { masterLimits } from '../../src/master/limits.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { type GrpcClient, grpcClient } from '../support/grpc-client.ts';
import { listening } from '../support/listening.ts';
import { fail, frame, type PhpClient, phpClient, succ } from '../support/php-client.ts';
import { plainHttp } from '../support/plain-http.ts';
import { reload, writeConfig } from '../support/reloading.ts';
import { commandsOf, type Run, runDq } from '../support/run-dq.ts';
import { lacks } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const hasPhp = spawnSync('php', ['-v']).status === 0;
const hasGrpc = !(await lacks('grpc'));
const args = ['--tcp-port', '0', '--ouqiang-port', '0', '--servers', '2'];
const add = (id: string, more = {}) => ({ cmd: 'add', topic: 't', id, body: { id }, ...more });

function portOf(daemon: Daemon, protocol: 'php' | 'ouqiang' | 'grpc' = 'php'): number {
  const run = JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8')) as {
    compat: Record<string, string>;
  };
  return Number(/^(?:tcp|http):\/\/127\.0\.0\.1:(\d+)$/.exec(run.compat[protocol] ?? '')?.[1]);
}

async function php(port: number, requests: readonly object[]): Promise<unknown[]> {
  const script = join(import.meta.dirname, '../support/php-client.php');
  const { stdout } = await promisify(execFile)('php', [
    script,
    String(port),
    ...requests.map((request) => JSON.stringify(request)),
  ]);
  return stdout
    .trim()
    .split('\n')
    .map((line) => (line === 'broken' ? line : JSON.parse(line)));
}

/** Sends this add on new connections until one is stored in time, and returns that connection: dq closes
 *  one that it could not answer within `answerMs`, as on a busy machine. */
async function added(port: number, id: string): Promise<PhpClient> {
  return until(`${id} is added`, async () => {
    const client = phpClient(port);
    return (await client.ask(add(id))) === succ ? client : null;
  });
}

/** Times and checks an add while the store is frozen. */
async function closedWithoutReply(port: number, froze: () => Promise<void> | void): Promise<number> {
  const client = await added(port, 'before');
  await froze();
  const from = performance.now();
  client.send(frame(add('frozen')));
  expect(await client.closed()).toBe(succ);
  return performance.now() - from;
}

async function addTopic(daemon: Daemon, callbackUrl: string): Promise<void> {
  const topic = { topic: 't', callbackUrl, delay: '0s', format: 'form', method: 'GET', maxAttempts: 12 };
  expect((await daemon.api('POST', '/v1/topics', topic)).status).toBe(201);
}

async function phpIsServed(daemon: Daemon): Promise<void> {
  const sink = await startSink();
  await addTopic(daemon, sink.url);
  const port = portOf(daemon);
  const succeeded = { code: 1, msg: 'succ', data: [] };
  const failed = { code: 0, msg: 'fail', data: [] };
  if (hasPhp) {
    const later = add('l', { body: { text: '会员/é' }, fix_time: '2035-01-31 09:00:00' });
    const replies = await php(port, [
      add('now', { body: { order: 4711, list: [1] } }),
      later,
      { cmd: 'get', topic: 't', id: 'l' },
      { cmd: 'del', topic: 't', id: 'l' },
      { cmd: 'get', topic: 't', id: 'l' },
      add('x', { topic: 'unknown' }),
    ]);
    const data = expect.objectContaining({ text: '会员/é', notify_time: '2035-01-31 09:00:00' });
    const got = { ...succeeded, data };
    expect(replies).toEqual([succeeded, succeeded, got, succeeded, failed, failed]);
    const call = await until('the callback', () => sink.arrivals[0]);
    const query = new URL(call.path, sink.url).searchParams;
    expect([query.get('order'), query.get('list')]).toEqual(['4711', '[1]']);
    // One of them is the due time, in whole seconds: the other can be in the second before.
    const timeOf = (name: string) => Date.parse(query.get(name) ?? '');
    expect(Math.abs(timeOf('notify_time') - timeOf('dq_set_time'))).toBeLessThanOrEqual(1_000);
  }
  const metrics = await fetch(`${daemon.url}/metrics`).then((reply) => reply.text());
  expect(metrics).toContain('dq_compat_requests_total{protocol="php",verb="add",outcome="ok"}');
}

async function ouqiangIsServed(daemon: Daemon): Promise<void> {
  const port = portOf(daemon, 'ouqiang');
  const push = { topic: 'order', delay: 1, ttr: 600, body: '{}' };
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

/** Pushes with ids, `pushers` at once, until stop(); and one pull that waits. Returns the pushed ids.
 *  `repeats`: also those that were answered UNAVAILABLE. */
function pushing(client: GrpcClient, { repeats = false, prefix = '', pushers = 8 } = {}) {
  const pushed: string[] = [];
  const failures: object[] = [];
  let isOver = false;
  const pusher = async (name: number) => {
    for (let n = 0; !isOver; n++) {
      const id = `${prefix}${name}-${n}`;
      const push = () => client.queue('Push', { topic: 'grpc', id, delay: '1h' });
      let answer = await push();
      // Its server was killed after it had begun to answer: then the library does not repeat the call.
      while (repeats && answer.code === 'UNAVAILABLE') answer = await push();
      if (answer.code === 'OK') pushed.push(id);
      else failures.push(answer);
    }
  };
  const puller = async () => {
    while (!isOver) {
      const answer = await client.queue('Pull', { topics: ['grpc'], wait: '2s' });
      if (answer.code !== 'OK' && !(repeats && answer.code === 'UNAVAILABLE')) failures.push(answer);
    }
  };
  const loops = [...Array.from({ length: pushers }, (_, name) => pusher(name)), puller()];
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
    const { body } = await daemon.api('GET', `/v1/jobs?topic=grpc&limit=1000${cursor}`);
    ids.push(...body.items.map(({ id }: { id: string }) => id));
    if (body.nextCursor === null) return ids;
    cursor = `&cursor=${encodeURIComponent(body.nextCursor)}`;
  }
}

/** An add while the store is frozen is closed without a reply, in time; the next one is stored. */
async function frozenStoreCloses(daemon: Daemon, freeze: () => unknown, thaw: () => void): Promise<void> {
  const ms = await closedWithoutReply(portOf(daemon), async () => void (await freeze()));
  thaw();
  expect(ms).toBeGreaterThan(890);
  await added(portOf(daemon), 'after');
}

describe('on the embedded store', async () => {
  const grpcArgs = hasGrpc ? ['--grpc-port', '0'] : [];
  const env = { DQ_TIMEZONE: 'UTC' };
  const daemon = await startDaemon({ args: [...args, ...grpcArgs], env, scope: 'file' });
  await daemon.api('POST', '/v1/topics', { topic: 'grpc', delivery: 'pull', lease: '10m' });

  it('php-delayqueue: served, and through a frozen dq-store', async () => {
    const port = portOf(daemon);
    const line = `\nphp-delayqueue tcp://127.0.0.1:${port}\n`;
    await until('the start line', () => daemon.output().includes(line));
    expect((await commandsOf(daemon)(['status'])).stderr).toContain(line);
    await phpIsServed(daemon);
    const store = daemon.pidOf('dq-store');
    const thaw = () => process.kill(store, 'SIGCONT');
    try {
      await frozenStoreCloses(daemon, () => process.kill(store, 'SIGSTOP'), thaw);
    } finally {
      thaw();
    }
    // No callback goes to the port itself.
    const callbackUrl = `http://127.0.0.1:${port}/`;
    const own = await daemon.api('POST', '/v1/topics', { topic: 'own', callbackUrl });
    expect([own.status, own.body.detail]).toEqual([400, expect.stringContaining("dq's own endpoints")]);
  });

  it('ouqiang: servers share the pops, and finish those of a killed one', () => ouqiangIsServed(daemon));

  it.skipIf(!hasGrpc)(
    'gRPC, kill -9 of a server: the client repeats its calls, and nothing doubles',
    async () => {
      const client = await grpcClient(portOf(daemon, 'grpc'), { retries: true });
      const load = pushing(client, { repeats: true });
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
    },
  );

  it('reload under requests of php on kept and new connections, and under calls of gRPC: none fails', async () => {
    const port = portOf(daemon);
    // An earlier test may have made it.
    await daemon.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9/' });
    const load = hasGrpc
      ? pushing(await grpcClient(portOf(daemon, 'grpc')), { prefix: 'r', pushers: 2 })
      : null;
    const old = daemon.workers().map(({ pid }) => pid);
    const errorsBefore = daemon.log('error').length;
    let late = 0;
    const begun = performance.now();
    /** On a busy machine dq can take longer than it may, and closes. So can the reload: after half of the
     *  time that servers have to drain, dq ends a connection behind a reply. Any earlier end is a failure. */
    const push = async (client: PhpClient, id: string): Promise<boolean> => {
      const sentAt = performance.now();
      const reply = await client.ask(add(id, { fix_time: '2035-01-01' })).catch(() => null);
      if (reply === null) {
        const now = performance.now();
        if (now - begun < masterLimits.serverDrainMs / 2)
          expect(now - sentAt).toBeGreaterThan(compatLimits.answerMs - 100);
        late += 1;
        return false;
      }
      expect(reply).toBe(succ);
      return true;
    };
    let client = phpClient(port);
    const pushOn = async (id: string): Promise<void> => {
      while (!(await push(client, id))) client = phpClient(port);
    };
    await pushOn('first');
    let ended = false;
    // On a busy machine a new server may not be ready in time: then nothing has changed.
    const inTime = async (): Promise<Run> => {
      const run = await reload(daemon);
      return run.code !== 0 && run.stderr.includes('not ready within') ? inTime() : run;
    };
    const reloaded = inTime().finally(() => {
      ended = true;
    });
    const short = async (): Promise<number> => {
      let n = 0;
      for (; !ended; n += 1) {
        const one = phpClient(port);
        if (!(await push(one, `s${n}`))) continue;
        one.socket.end();
        await one.closed();
      }
      return n;
    };
    const shorts = short();
    // Its old server has begun to drain before the last requests; on a busy machine the reload may be over.
    const drains = () => daemon.workers().some(({ title }) => /^dq-server-\d \(draining\)/.test(title));
    for (let n = 0; n < 200; n += 1) await pushOn(`j${n}`);
    await until('an old server drains', async () => {
      await pushOn('kept');
      return drains() || ended;
    });
    for (let n = 200; n < 300; n += 1) await pushOn(`j${n}`);
    const { code, stderr } = await reloaded;
    expect(code, stderr).toBe(0);
    expect(await shorts).toBeGreaterThan(10);
    await until('the old servers have exited', () =>
      daemon.workers().every(({ title, pid }) => !title.startsWith('dq-server') || !old.includes(pid)),
    );
    const { pushed, failures } = (await load?.stop()) ?? { pushed: [], failures: [] };
    expect(failures).toEqual([]);
    const stored = (await storedIds(daemon)).filter((id) => id.startsWith('r'));
    expect(stored.sort()).toEqual([...pushed].sort());
    // The same port after the reload, though 0 was asked for.
    expect(portOf(daemon)).toBe(port);
    const errors = daemon
      .log('error')
      .slice(errorsBefore)
      .map(({ message }) => String(message));
    const isLate = (message: string) =>
      message.includes('not ready within') || (late > 0 && message.startsWith('php: no outcome'));
    expect(errors.filter((message) => !isLate(message))).toEqual([]);
  });
});

it('ports: a taken one rejects the reload, an exposed one the start; a reload opens and closes one', async () => {
  const [port = 0, other = 0] = await freePorts(2);
  const server = { host: '127.0.0.1', port };
  const daemon = await startDaemon({ config: { server }, portInFile: true });
  const taken = await listening(createServer());
  writeConfig(daemon, { server, compat: { php: { port: taken } } });
  const rejected = await reload(daemon);
  expect([rejected.code, rejected.stderr]).toEqual([
    1,
    expect.stringContaining(`port ${taken} is taken; choose another one with --tcp-port (compat.php.port)`),
  ]);
  expect((await daemon.api('GET', '/livez')).status).toBe(200);
  writeConfig(daemon, { server, compat: { php: { port: other } } });
  expect((await reload(daemon)).code).toBe(0);
  expect(await phpClient(other).ask({})).toBe(fail);
  writeConfig(daemon, { server });
  expect((await reload(daemon)).code).toBe(0);
  const gone = phpClient(other);
  expect(await gone.closed()).toBe('(reset)');
  const exposed = await runDq(['start', '--tcp-port', '0', '--compat-host', '0.0.0.0', '--port', '0'], {
    cwd: daemon.directory,
  });
  expect([exposed.code, exposed.stderr]).toEqual([
    78,
    expect.stringContaining('list the callers in compat.allow'),
  ]);
});
