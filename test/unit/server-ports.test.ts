// Tests which port the servers of a daemon have with `--port 0`, and the answers of dq-store to a move, over
// a master whose forks are scripted.
import { expect, it } from 'vitest';
import type { Child, ForkOptions } from '../../src/master/workers/fork.ts';
import { Supervisor } from '../../src/master/workers/supervisor.ts';
import type { ToWorker } from '../../src/process/messages.ts';
import { ticker } from '../../src/runtime/second-ticker.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { defaultConfig } from '../role/rig.ts';
import { until } from '../support/until.ts';

interface Forked extends ForkOptions {
  wasKilled: boolean;
  readonly sent: ToWorker[];
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
      const worker = { ...options, wasKilled: false, sent: [] as ToWorker[] };
      forked.push(worker);
      return {
        ...{ pid: forked.length, send: (message: ToWorker) => void worker.sent.push(message) },
        pass() {},
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

it('dq-store answers a move too late: it is not the answer to the next question', async () => {
  const { master, forked, ready } = started();
  const [store] = forked;
  if (store === undefined) throw new Error('no dq-store');
  store.onMessage({ kind: 'awake' });
  ready(store, null);
  const copy = master.moveRegistry('mysql://db/dq', 'copy');
  const undo = master.moveRegistry('mysql://db/dq', 'undo');
  const [first, second] = await until('both questions', () => {
    const calls = store.sent.flatMap((message) => (message.kind === 'move_registry' ? [message.call] : []));
    return calls.length === 2 ? calls : null;
  });
  if (first === undefined || second === undefined) throw new Error('two calls');
  const answer = (call: number, why: string | null) =>
    store.onMessage({ kind: 'registry_moved', call, why, isInForce: false });
  answer(first, 'the copy failed');
  answer(second, null);
  expect(await undo).toMatchObject({ why: null });
  expect(await copy).toMatchObject({ why: 'the copy failed' });
  master.stopAtOnce();
  await master.ended;
});
