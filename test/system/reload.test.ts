// Tests dq reload: applied settings, old workers, rejected reloads. Their order is shown by test/sim.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import type { ProcessInfo } from '../../src/process/messages.ts';
import { calling } from '../support/calling.ts';
import { type Daemon, isAlive, startDaemon } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, jobsLeft } from '../support/producing.ts';
import { processesOf, reload, writeConfig } from '../support/reloading.ts';
import { until } from '../support/until.ts';

const pidsOf = (daemon: Daemon) => daemon.workers().map(({ pid }) => pid);
const urlOf = (daemon: Daemon) =>
  (JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8')) as { url: string }).url;
const livez = (url: string) =>
  fetch(`${url}/livez`, { headers: { connection: 'close' } }).then(({ status }) => status);

describe('reload', () => {
  it('applies the file: counts, port, limits, logs; flags and environment stay', async () => {
    const [first, second] = await freePorts(2);
    const daemon = await startDaemon({
      portInFile: true,
      args: ['--notifiers', '1'],
      env: { DQ_TIMER__WORKERS: '2' },
      config: { server: { port: first, workers: 1 }, notifier: { workers: 3 }, timer: { workers: 3 } },
    });
    await addTopic(daemon, 't', 'http://127.0.0.1:9/', { state: 'paused' });
    expect(urlOf(daemon)).toBe(`http://127.0.0.1:${first}`);
    writeConfig(daemon, {
      server: { port: second, workers: 2 },
      notifier: { workers: 3 },
      timer: { workers: 3 },
      limits: { bodyBytes: 1024 },
      log: { level: 'error', request: 'off' },
    });
    const { code, stderr } = await reload(daemon);
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('generation 2') });
    expect(urlOf(daemon)).toBe(`http://127.0.0.1:${second}`);
    expect(stderr).toContain(
      `dq: the HTTP API: now on http://127.0.0.1:${second}; http://127.0.0.1:${first} is closed\n`,
    );
    expect(stderr).not.toContain('the console: ');
    await until('the old port is closed', () =>
      livez(`http://127.0.0.1:${first}`).then(
        () => false,
        () => true,
      ),
    );
    const titles = (await processesOf(daemon)).map(({ title }) => title).sort();
    expect(titles).toEqual([
      'dq-master',
      'dq-notifier-0',
      'dq-server-0',
      'dq-server-1',
      'dq-store',
      'dq-timer-0',
      'dq-timer-1',
      'dq-upkeep',
    ]);
    const push = (bytes: number) =>
      fetch(`${urlOf(daemon)}/v1/topics/t/jobs`, { method: 'POST', body: 'x'.repeat(bytes) });
    expect((await push(1_025)).status).toBe(413);
    const lines = () => daemon.log('request').length;
    const before = lines();
    expect((await push(1_024)).status).toBe(201);
    // A later line of another kind is written, and no line of this push came before it.
    expect(await daemon.stop()).toBe(0);
    expect(lines()).toBe(before);
    const since = daemon.log('notice').filter(({ message }) => message === 'ended');
    expect(since).toEqual([]);
  });

  it('keeps the port picked for 0, even if all servers die later; a stop ends both generations', async () => {
    const daemon = await startDaemon();
    expect((await reload(daemon)).code).toBe(0);
    expect(urlOf(daemon)).toBe(daemon.url);
    process.kill(daemon.pidOf('dq-server-0'), 'SIGKILL');
    await until('it is served again', () => livez(daemon.url).then((status) => status === 200));
    expect((await reload(daemon)).code).toBe(0);
    expect(await livez(daemon.url)).toBe(200);

    const answer = reload(daemon);
    const before = pidsOf(daemon);
    await until('new workers start', () => pidsOf(daemon).length > before.length);
    const all = pidsOf(daemon);
    expect(await daemon.stop()).toBe(0);
    expect(all.filter(isAlive)).toEqual([]);
    expect(await answer).toMatchObject({ code: 1, stderr: expect.stringContaining('is being stopped') });
    expect((await reload(daemon)).code).toBe(3);
  });

  it('names the old notifier that finishes a callback; a stop shortens its time', async () => {
    const daemon = await startDaemon({ config: { shutdownTimeout: '300ms', notifier: { workers: 1 } } });
    const sink = await calling(daemon);
    const caller = daemon.pidOf('dq-notifier-0');
    const { code, stderr } = await reload(daemon);
    expect(code).toBe(0);
    expect(stderr).toContain(
      `dq-notifier-0 (pid ${caller}) of the previous generation finishes its last callbacks`,
    );
    // Each worker reports its calls once a second.
    const old = async () => {
      const { body } = await daemon.api('GET', '/v1/processes');
      return (body.processes as ProcessInfo[]).find(({ pid }) => pid === caller);
    };
    await until('it reports its call', async () => (await old())?.inFlight === 1);
    expect(await old()).toMatchObject({ generation: 1, state: 'draining' });
    const stopped = daemon.stop();
    await until('the callback was cut', () => sink.arrivals[0]?.broken === true);
    expect(await stopped).toBe(0);
    expect(daemon.log('notice')).toContainEqual(
      expect.objectContaining({
        message: 'notifier: callbacks were cut short and their jobs released',
        interrupted: 1,
      }),
    );
  });
});

describe('rejected reload', () => {
  it('names the reason; the old workers continue under load', async () => {
    const [port = 0, otherPort] = await freePorts(2);
    const config = { server: { port } };
    const daemon = await startDaemon({ portInFile: true, config });
    const receiver = await startReceiver();
    await addTopic(daemon, 't', receiver.url, { timeout: '60s' });
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 200 });
    const workers = daemon.workers();
    const refusedFor = async (text: string | Record<string, unknown>, reason: string | RegExp) => {
      writeConfig(daemon, text);
      // Where the machine starts no process in time, a reload shows nothing else.
      const { code, stdout, stderr } = await until('a reload with time', async () => {
        const run = await reload(daemon);
        return run.stderr.includes('not ready within') ? null : run;
      });
      expect({ code, stdout, stderr }).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(reason),
      });
      expect(stderr).toContain('the reload was rejected, nothing has changed');
      await until('the new workers are gone', () => daemon.workers().length === workers.length);
      expect(daemon.workers()).toEqual(workers);
    };
    await refusedFor('server: {port: [', /dq\.yaml:1:\d+/);
    await refusedFor(
      { ...config, notifer: { workers: 3 } },
      /dq\.yaml:4:3 {2}unknown option "notifer\.workers"; did you mean notifier\.workers/,
    );
    const taken = await listening(createServer());
    await refusedFor({ server: { port: taken } }, `dq-server-0: port ${taken} is taken`);
    await refusedFor({ server: { port, host: '0.0.0.0' } }, /needs `dq restart`/);
    await refusedFor(
      { server: { port: otherPort, host: '0.0.0.0' } },
      /dq-store: server\.host: 0\.0\.0\.0 can be reached from other machines/,
    );
    writeConfig(daemon, config);

    const { failures, pushed, acknowledged } = await load.stop();
    expect(failures).toEqual([]);
    expect(acknowledged.size).toBe(pushed);
    await until('every job has ended', async () => (await jobsLeft(daemon)) === 0);
    expect([...receiver.arrivals].filter(([, times]) => times !== 1)).toEqual([]);
    expect(receiver.arrivals.size).toBe(pushed);
  });
});
