// Tests which port the servers of a daemon have with `--port 0`, over a master whose forks are scripted.
import { expect, it } from 'vitest';
import type { Child, ForkOptions } from '../../src/master/workers/fork.ts';
import { Supervisor } from '../../src/master/workers/supervisor.ts';
import { ticker } from '../../src/runtime/second-ticker.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { defaultConfig } from '../role/rig.ts';
import { until } from '../support/until.ts';

interface Forked extends ForkOptions {
  wasKilled: boolean;
}

/** A master that has forked its workers; `ready` answers as a worker of this port. */
function started() {
  const forked: Forked[] = [];
  const unused = () => {
    throw new Error('is not called in a start');
  };
  const master = new Supervisor({
    ...{ instance: 1, storeSocket: 'store.sock', adminToken: 'admin', log: silentLog, ticker: ticker() },
    config: { ...defaultConfig, 'server.port': 0, 'server.workers': 2, 'console.enabled': false },
    fork: (options): Child => {
      const worker = { ...options, wasKilled: false };
      forked.push(worker);
      return {
        ...{ pid: forked.length, send() {} },
        kill() {
          worker.wasKilled = true;
          options.onExit(null, 'SIGKILL');
        },
      };
    },
    drawIncarnation: () => forked.length + 1,
    workerPath: () => 'worker.js',
    onFork() {},
    onExit() {},
    onReady() {},
    onConsole() {},
    self: unused,
    readConfig: unused,
    service: { ready() {}, reloading() {}, stopping() {} },
    onReloaded() {},
    whyRestart: () => null,
    describeConfig: unused,
  });
  master.start();
  const ready = (worker: Forked, port: number | null) =>
    worker.onMessage({
      kind: 'ready',
      version: '',
      url: port === null ? null : `http://127.0.0.1:${port}`,
      note: null,
    });
  const servers = () => forked.filter(({ title }) => title.startsWith('dq-server'));
  return { master, forked, ready, servers };
}

it('a server that got another port than the one that clients know is killed; the next one asks for it', async () => {
  const { master, forked, ready, servers } = started();
  const [store] = forked;
  if (store === undefined) throw new Error('no dq-store');
  ready(store, null);
  const [one, other] = servers();
  if (one === undefined || other === undefined) throw new Error('two servers');
  ready(one, 4_001);
  one.onExit(null, 'SIGKILL');
  ready(other, 4_002);
  expect(other.wasKilled).toBe(true);
  const [, , ...next] = await until('their successors', () => (servers().length === 4 ? servers() : null));
  expect(next.map(({ init }) => init.port)).toEqual([4_001, 4_001]);
  for (const server of next) ready(server, 4_001);
  expect(next.map(({ wasKilled }) => wasKilled)).toEqual([false, false]);
  expect(master.url).toBe('http://127.0.0.1:4001');
  master.stopAtOnce();
  await master.ended;
});
