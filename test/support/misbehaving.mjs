// Loaded by `node --import` before the code of dq, in the master and, by it, in its workers: they crash where
// a test says so, and the short waits of the master shrink. misbehaving.ts writes the orders.
import cluster from 'node:cluster';
import { existsSync } from 'node:fs';

const orders = process.env['DQ_TEST_ORDERS'];

process.on('SIGWINCH', () => {
  throw new Error('broken by the test', { cause: new Error('a deeper reason') });
});
process.on('SIGURG', () => {
  void Promise.reject(new Error('left alone by the test'));
});

if (cluster.isPrimary) {
  const { setupPrimary } = cluster;
  // A fork calls it without settings: the earlier ones stay.
  cluster.setupPrimary = (settings) =>
    setupPrimary.call(
      cluster,
      settings && { ...settings, execArgv: [...settings.execArgv, '--import', import.meta.url] },
    );
  // The waits between the starts of a worker that dies, and no other: a second of the master must stay one.
  const shrunk = new Set([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]);
  const { setTimeout: wait } = globalThis;
  globalThis.setTimeout = (run, ms, ...rest) => wait(run, shrunk.has(ms) ? ms / 50 : ms, ...rest);
} else if (existsSync(`${orders}/broken.${process.argv[2]}`)) throw new Error('broken by the test');
