// Tests the composition of workers: all roles of an instance run in this one process, each as the daemon
// composes it, and leave nothing open.
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { composeRole, type Parts } from '../../src/compose/compose.ts';
import type { Config } from '../../src/config/options.ts';
import type { RoleName } from '../../src/process/messages.ts';
import type { Composed } from '../../src/process/worker-life.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';
import { defaultConfig } from './rig.ts';

const workers = ['server', 'console', 'timer', 'notifier', 'upkeep'] as const;

/** Composes workers of one instance. `closed` resolves when this process has no more open than before. */
function instance(config: Partial<Config> = {}) {
  const { path: dataDir, remove } = temporaryDirectory();
  onTestFinished(remove);
  const before = process.getActiveResourcesInfo();
  const more = () => {
    const left = [...before];
    return process.getActiveResourcesInfo().filter((kind) => {
      const at = left.indexOf(kind);
      if (at >= 0) left.splice(at, 1);
      return at < 0;
    });
  };
  const all = {
    ...defaultConfig,
    ...{ dataDir, logDir: join(dataDir, 'log'), 'server.port': 0, 'console.port': 0 },
  };
  return {
    composed: (role: RoleName, parts: Partial<Parts> = {}): Promise<Composed> =>
      composeRole(
        {
          ...{ kind: 'init', role, config: { ...all, ...config }, index: 0, count: 1 },
          ...{ restarts: 0, instance: 1, incarnation: 1, takesOver: false, isOnTrial: false },
          ...{ isRunning: false, socketPath: join(dataDir, 'store.sock'), adminToken: 'admin' },
        },
        { channel: { send() {}, sent: async () => {}, onMessage() {}, deliver() {} }, ...parts },
      ),
    more,
    closed: () => until('nothing more is open', () => more().length === 0),
  };
}

describe('composed workers', () => {
  it('run beside each other in one process, and close what they opened', async () => {
    const { composed, more, closed } = instance();
    const store = await composed('store');
    await store.start();
    const others: Composed[] = [];
    for (const role of workers) {
      const other = await composed(role);
      await other.start();
      others.unshift(other);
    }
    expect(more()).toContain('TCPServerWrap');
    for (const one of [...others, store]) await one.drain(1_000, true);
    await closed();
  });

  it('close what they opened when the composition fails', async () => {
    const { composed, closed } = instance();
    const log = { ...silentLog, close: vi.fn(silentLog.close) };
    const create = () => {
      throw new Error('no role');
    };
    await expect(composed('server', { log, create })).rejects.toThrow('no role');
    expect(log.close).toHaveBeenCalledOnce();
    await closed();
  });

  it('give up the wait for dq-store when a drain begins, and close what they opened', async () => {
    const { composed, closed } = instance();
    const leaving = new AbortController();
    const worker = await composed('timer', { leaving: leaving.signal });
    const start = worker.start();
    leaving.abort(new Error('a drain begins'));
    await expect(start).rejects.toThrow('a drain begins');
    await worker.drain(0, true);
    await closed();
  });
});
