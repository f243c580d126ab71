// Tests the life of a worker process.
import { expect, it } from 'vitest';
import type { ToWorker } from '../../src/process/messages.ts';
import { runWorker } from '../../src/process/worker-life.ts';

it('SIGTERM leaves a worker that drains already at most shutdownTimeout', async () => {
  let deliver = (_: ToWorker): void => {};
  const hooks = { terminated: false, onTerm() {}, onReopen() {} };
  const own = {
    channel: {
      send() {},
      sent: async () => {},
      onMessage: (listen: typeof deliver) => {
        deliver = listen;
      },
      deliver() {},
    },
    ...{ title: '', exit() {}, onCrash() {}, onMasterGone() {}, warn() {} },
    ...{ usage: () => ({ cpuMs: 0, rssBytes: 0 }), closeDebugger: async () => {} },
  };
  const given: number[] = [];
  const composed = {
    ...{ start: async () => ({ url: null, note: null }), inFlight: () => 0, beat() {}, reopenLogs() {} },
    ...{
      takeOver: async () => ({ note: null, warnings: [] }),
      awaitUsers: async () => {},
      shortenWaits() {},
    },
    drain: (deadlineMs: number) => new Promise<void>(() => given.push(deadlineMs)),
    shortenDrain: (deadlineMs: number) => void given.push(deadlineMs),
  };
  const life = runWorker(async () => composed, hooks, own);
  const config = { shutdownTimeout: 30_000 };
  deliver({ kind: 'init', role: 'notifier', index: 0, config, takesOver: false } as never);
  await life;
  deliver({ kind: 'drain', deadlineMs: 3_600_000, why: 'reload' });
  await Promise.resolve();
  hooks.onTerm();
  expect(given).toEqual([3_600_000, 30_000]);
});
