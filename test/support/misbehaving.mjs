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
  // The waits between the starts of a worker that dies. Deadlines are longer.
  const { setTimeout: wait } = globalThis;
  globalThis.setTimeout = (run, ms, ...rest) => wait(run, ms > 10_000 ? ms : ms / 50, ...rest);
} else if (existsSync(`${orders}/broken.${process.argv[2]}`)) throw new Error('broken by the test');
