import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Origins } from '../../src/config/cross-checks.ts';
import { loadConfig } from '../../src/config/load.ts';
import { Reload } from '../../src/master/reload.ts';
import { Fleet } from '../../src/master/workers/fleet.ts';
import { Generation } from '../../src/master/workers/generation.ts';
import { readyMsOf } from '../../src/master/workers/worker-process.ts';
import type { SlotHost } from '../../src/master/workers/worker-slot.ts';

const loaded = loadConfig({ flags: {}, env: {}, cwd: '/' });
if (!loaded.ok) throw new Error('the defaults are valid');
const { config: defaults } = loaded;
/** of the roles that read the topics */
const readyMs = readyMsOf('server', defaults);
/** afterRunning() counts ten slices of whole ms. */
const slackMs = 10;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A generation whose workers never become ready, and of which no process is made. */
const silentGeneration = (number: number, config = defaults): Generation =>
  ({
    number,
    config,
    slots: [],
    startFirst: () => {},
    isReady: () => false,
    workers: () => [],
    release: () => {},
  }) as unknown as Generation;

function startReload(config = defaults, next: () => Generation = () => silentGeneration(2, config)) {
  const fleet = new Fleet(silentGeneration(1, config));
  const reload = new Reload({
    fleet,
    readConfig: () => ({ ok: true, config, origins: {} as Origins, file: null, warnings: [] }),
    makeGeneration: next,
    prepare: async () => null,
    onChanged: () => {},
    report: () => {},
  });
  const ended = vi.fn();
  void reload.run().then(ended);
  return { reload, ended };
}

describe('the time of a new worker to become ready', () => {
  it.each([
    ['the embedded store', ''],
    ['MySQL, where the topics may take longer to read', 'mysql://127.0.0.1/dq'],
  ])('ends the reload with %s, and is that of a start', async (_, mysql) => {
    const config = { ...defaults, 'mysql.url': mysql };
    const { ended } = startReload(config);
    await vi.advanceTimersByTimeAsync(readyMsOf('server', config) - slackMs);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(slackMs);
    expect(ended).toHaveBeenCalledWith({ kind: 'refused', reason: expect.stringMatching(/not ready/) });
  });

  it('starts again with a worker that replaces one killed by a signal to the process group', async () => {
    const { reload, ended } = startReload();
    await vi.advanceTimersByTimeAsync(readyMs - 1);
    reload.forked();
    await vi.advanceTimersByTimeAsync(readyMs - 1);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toHaveBeenCalled();
    reload.forked();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a rejection names the processes that a reload waits for', async () => {
    const unready = { state: 'starting', kill: () => {}, drain: () => {}, ended: Promise.resolve() };
    const host = {
      fork: ({ role }: { role: string }) => ({
        ...unready,
        role,
        ...(role === 'store' && { state: 'ready' }),
      }),
    };
    const { ended } = startReload(
      defaults,
      () => new Generation(defaults, host as unknown as SlotHost, () => 1, null),
    );
    await vi.advanceTimersByTimeAsync(readyMs + slackMs);
    const reason = `dq-upkeep, dq-timer-0, dq-notifier-0, dq-server-0 are not ready within ${readyMs / 1_000} s`;
    expect(ended).toHaveBeenCalledWith({ kind: 'refused', reason });
  });
});
