// Tests the port for clients of php-delayqueue of a real daemon, on both stores: PHP itself, frozen stores,
// reloads.
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { compatLimits } from '../../src/intake/compat/limits.ts';
import { masterLimits } from '../../src/master/limits.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { fail, frame, type PhpClient, phpClient, succ } from '../support/php-client.ts';
import { reload, writeConfig } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const hasPhp = spawnSync('php', ['-v']).status === 0;
const add = (id: string, more = {}) => ({ cmd: 'add', topic: 't', id, body: { id }, ...more });

function portOf(daemon: Daemon): number {
  const run = JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8')) as {
    compat: { php: string };
  };
  return Number(/^tcp:\/\/127\.0\.0\.1:(\d+)$/.exec(run.compat.php)?.[1]);
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

async function served(daemon: Daemon): Promise<void> {
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

it('php-delayqueue: served on the embedded store, and through a frozen dq-store', async () => {
  const daemon = await startDaemon({ args: ['--tcp-port', '0'], env: { DQ_TIMEZONE: 'UTC' } });
  const port = portOf(daemon);
  await until('the start line', () => daemon.output().includes(`\nphp-delayqueue tcp://127.0.0.1:${port}\n`));
  const { stderr } = await runDq(['status', '--data-dir', daemon.dataDir]);
  expect(stderr).toContain(`\nphp-delayqueue tcp://127.0.0.1:${port}\n`);
  await served(daemon);
  const store = daemon.pidOf('dq-store');
  onTestFinished(() => thaw(store));
  const ms = await closedWithoutReply(port, () => void process.kill(store, 'SIGSTOP'));
  process.kill(store, 'SIGCONT');
  expect(ms).toBeGreaterThan(890);
  await added(port, 'after');
  // No callback goes to the port itself.
  const own = await daemon.api('POST', '/v1/topics', {
    topic: 'own',
    callbackUrl: `http://127.0.0.1:${port}/`,
  });
  expect([own.status, own.body.detail]).toEqual([400, expect.stringContaining("dq's own endpoints")]);
});

function thaw(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // It has ended.
  }
}

it.skipIf(await lacks('redis'))('php-delayqueue: served on Redis, and through a frozen one', async () => {
  const server = await owned('test', startRedis());
  const args = ['--tcp-port', '0', '--redis', server.url];
  const daemon = await startDaemon({ args, env: { DQ_TIMEZONE: 'UTC' } });
  await served(daemon);
  const ms = await closedWithoutReply(portOf(daemon), () => server.process.freeze());
  server.process.thaw();
  expect(ms).toBeGreaterThan(890);
  await added(portOf(daemon), 'after');
});

it('reload: 500 requests on one connection, and new connections all the time: none fails', async () => {
  const daemon = await startDaemon({ args: ['--tcp-port', '0', '--servers', '2'] });
  await addTopic(daemon, 'http://127.0.0.1:9/');
  const port = portOf(daemon);
  let late = 0;
  const begun = performance.now();
  /** On a busy machine dq can take longer than it may, and closes. So can the reload: after half of the time
   *  that servers have to drain, dq ends a connection behind a reply. Any earlier end is a failure. */
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
  const reloaded = reload(daemon).finally(() => {
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
  for (let n = 0; n < 400; n += 1) await pushOn(`j${n}`);
  await until('an old server drains', async () => {
    await pushOn('kept');
    return drains() || ended;
  });
  for (let n = 400; n < 500; n += 1) await pushOn(`j${n}`);
  const { code, stderr } = await reloaded;
  expect(code, stderr).toBe(0);
  expect(await shorts).toBeGreaterThan(10);
  // The same port after the reload, though 0 was asked for.
  expect(portOf(daemon)).toBe(port);
  const errors = daemon.log('error').map(({ message }) => String(message));
  expect(errors.filter((message) => late === 0 || !message.startsWith('php: no outcome'))).toEqual([]);
});

it('ports: a taken one rejects the reload or the start; a change between listeners needs a restart', async () => {
  const [port = 0, other = 0] = await freePorts(2);
  const server = { host: '127.0.0.1', port };
  const daemon = await startDaemon({ config: { server }, portInFile: true });
  const holder = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void holder.close());
  await until('the other program listens', () => holder.listening);
  const taken = (holder.address() as { port: number }).port;
  writeConfig(daemon, { server, compat: { php: { port: taken } } });
  const rejected = await reload(daemon);
  expect([rejected.code, rejected.stderr]).toEqual([
    1,
    expect.stringContaining(`port ${taken} is taken; choose another one with --tcp-port (compat.php.port)`),
  ]);
  expect((await daemon.api('GET', '/livez')).status).toBe(200);
  writeConfig(daemon, { server: { ...server, port: other }, compat: { php: { port } } });
  const exchanged = await reload(daemon);
  expect([exchanged.code, exchanged.stderr]).toEqual([
    1,
    expect.stringContaining('which the HTTP API uses: needs `dq restart`'),
  ]);
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
