// Tests the restarts of one worker place.
import { describe, expect, it } from 'vitest';
import type { Ending, WorkerProcess } from '../../src/master/workers/worker-process.ts';
import { type SlotHost, WorkerSlot } from '../../src/master/workers/worker-slot.ts';
import { until } from '../support/until.ts';

/** A host whose forks fail. */
function poorHost(goesOn: () => boolean) {
  const errors: unknown[] = [];
  const host: SlotHost = {
    fork: () => {
      throw new Error('spawn ENOMEM');
    },
    spawnFailed: (_slot, error) => {
      errors.push(error);
      return goesOn();
    },
    died: () => true,
  };
  return { host, errors };
}

/** A host that counts forks and makes no process. */
function countingHost() {
  const born: WorkerProcess[] = [];
  const host: SlotHost = {
    fork: () => {
      const worker = {} as WorkerProcess;
      born.push(worker);
      return worker;
    },
    spawnFailed: () => true,
    died: () => true,
  };
  return { host, born };
}

const place = { role: 'timer', index: 0, count: 1 } as const;

const killed = (readyMs: number, signal: NodeJS.Signals = 'SIGKILL'): Ending => ({
  ...{ code: null, signal, wasReady: readyMs > 0, readyMs, hung: false, reason: 'was ended', refusal: null },
});

describe('worker slot', () => {
  it('retries a failed fork with the same incarnation', async () => {
    let drawn = 0;
    const { host, errors } = poorHost(() => true);
    const slot = new WorkerSlot(place, host, () => ++drawn);
    slot.fill();
    await until('it has tried three times', () => errors.length === 3);
    slot.release();
    expect([slot.worker, slot.nextIncarnation]).toEqual([null, 1]);
  });

  it('stops retrying when its host gives up', () => {
    const { host, errors } = poorHost(() => false);
    const slot = new WorkerSlot(place, host, () => 1);
    slot.fill();
    expect(errors).toMatchObject([{ message: 'spawn ENOMEM' }]);
    slot.release();
  });

  it('forks at once after a long run, after a delay when the worker died early', async () => {
    const { host, born } = countingHost();
    const slot = new WorkerSlot(place, host, () => 1);
    slot.fill();
    slot.exited(born[0] as WorkerProcess, killed(10_001));
    expect(born).toHaveLength(2);
    slot.exited(born[1] as WorkerProcess, killed(9_999));
    expect(born).toHaveLength(2);
    await until('it forks again', () => born.length === 3);
    slot.release();
  });

  it('forks at once after a group signal killed a worker without handlers', () => {
    const { host, born } = countingHost();
    const deaths: string[] = [];
    const slot = new WorkerSlot(place, { ...host, died: () => deaths.push('death') > 0 }, () => 1);
    slot.fill();
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGUSR1', 'SIGUSR2'] as const)
      slot.exited(born.at(-1) as WorkerProcess, killed(0, signal));
    expect([born.length, deaths]).toEqual([5, []]);
    slot.exited(born.at(-1) as WorkerProcess, killed(1, 'SIGHUP'));
    expect([born.length, deaths]).toEqual([5, ['death']]);
    slot.release();
  });

  it('forks no worker after release', () => {
    const { host, born } = countingHost();
    const slot = new WorkerSlot(place, host, () => 1);
    slot.fill();
    slot.release();
    slot.exited(born[0] as WorkerProcess, killed(20_000));
    expect(born).toHaveLength(1);
  });
});
