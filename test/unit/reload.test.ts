import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Origins } from '../../src/config/cross-checks.ts';
import { loadConfig } from '../../src/config/load.ts';
import { masterLimits } from '../../src/master/limits.ts';
import { Reload } from '../../src/master/reload.ts';
import { Fleet } from '../../src/master/workers/fleet.ts';
import type { Generation } from '../../src/master/workers/generation.ts';

const loaded = loadConfig({ flags: {}, env: {}, cwd: '/' });
if (!loaded.ok) throw new Error('the defaults are valid');
const { config } = loaded;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A generation whose workers never become ready, and of which no process is made. */
const silentGeneration = (number: number): Generation =>
  ({
    number,
    config: config,
    slots: [],
    startFirst: () => {},
    isReady: () => false,
    workers: () => [],
    release: () => {},
  }) as unknown as Generation;

function startReload() {
  const fleet = new Fleet(silentGeneration(1));
  const reload = new Reload({
    fleet,
    readConfig: () => ({ ok: true, config, origins: {} as Origins, file: null, warnings: [] }),
    makeGeneration: () => silentGeneration(2),
    onChanged: () => {},
    report: () => {},
  });
  const ended = vi.fn();
  void reload.run().then(ended);
  return { reload, ended };
}

describe('the time of a new worker to become ready', () => {
  it('ends the reload', async () => {
    const { ended } = startReload();
    await vi.advanceTimersByTimeAsync(masterLimits.reloadReadyMs - 1);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toHaveBeenCalledWith({ kind: 'refused', reason: expect.stringMatching(/not ready/) });
  });

  it('starts again with a worker that replaces one killed by a signal to the process group', async () => {
    const { reload, ended } = startReload();
    await vi.advanceTimersByTimeAsync(masterLimits.reloadReadyMs - 1);
    reload.forked();
    await vi.advanceTimersByTimeAsync(masterLimits.reloadReadyMs - 1);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toHaveBeenCalled();
    reload.forked();
    expect(vi.getTimerCount()).toBe(0);
  });
});
