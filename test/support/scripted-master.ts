// A master whose forks are scripted: a test sees what it forks and sends, and answers as the workers.
import type { Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { Config } from '../../src/config/options.ts';
import type { OpenDoor } from '../../src/master/workers/console-door.ts';
import type { Child, ForkOptions } from '../../src/master/workers/fork.ts';
import { Supervisor } from '../../src/master/workers/supervisor.ts';
import type { ToWorker } from '../../src/process/messages.ts';
import { ticker } from '../../src/runtime/second-ticker.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { defaultConfig } from '../role/rig.ts';

export interface Forked extends ForkOptions {
  wasKilled: boolean;
  readonly sent: ToWorker[];
  readonly connections: Socket[];
  /** `port`: of the server that the worker has opened */
  ready(port: number | null): void;
}

/** Has started, and forks dq-store first. Ends with the test. */
export function scriptedMaster(config: Partial<Config>, openDoor?: OpenDoor) {
  const forked: Forked[] = [];
  const unused = () => {
    throw new Error('is not called in a start');
  };
  const master = new Supervisor({
    ...{ instance: 1, storeSocket: 'store.sock', adminToken: 'admin', log: silentLog, ticker: ticker() },
    config: { ...defaultConfig, 'server.port': 0, ...config },
    ...(openDoor === undefined ? {} : { openDoor }),
    fork: (options): Child => {
      const worker: Forked = {
        ...options,
        ...{ wasKilled: false, sent: [], connections: [] },
        ready: (port) => {
          const url = port === null ? null : `http://127.0.0.1:${port}`;
          options.onMessage({ kind: 'awake' });
          options.onMessage({ kind: 'ready', version: '', url, note: null });
        },
      };
      forked.push(worker);
      return {
        ...{ pid: forked.length, send: (message: ToWorker) => void worker.sent.push(message) },
        pass: (connection) => void worker.connections.push(connection),
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
  onTestFinished(async () => {
    master.stopAtOnce();
    await master.ended;
  });
  master.start();
  return { master, forked };
}
