// Tests the restarts of one worker place: their delays, and when repeated deaths end the daemon.
import { describe, expect, it } from 'vitest';
import type { Ending, WorkerProcess } from '../../src/master/workers/worker-process.ts';
import {
  CrashLoop,
  restartDelayMs,
  type SlotHost,
  WorkerSlot,
} from '../../src/master/workers/worker-slot.ts';
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

describe('CrashLoop', () => {
  it('gives up at the tenth hopeless death within a minute', () => {
    const loop = new CrashLoop();
    const verdicts = Array.from({ length: 10 }, (_, n) => loop.died('timer', n * 6_000, true));
    expect(verdicts).toEqual([...Array<string>(9).fill('restart'), 'give_up']);
  });

  it('restarts for ever while deaths are more than a minute apart', () => {
    const loop = new CrashLoop();
    for (let n = 0; n < 30; n += 1) expect(loop.died('timer', n * 6_700, true)).toBe('restart');
  });

  it('restarts while another worker lives, and reports from the tenth death on', () => {
    const loop = new CrashLoop();
    const verdicts = Array.from({ length: 30 }, (_, n) => loop.died('notifier', n, false));
    expect(verdicts).toEqual([
      ...Array<string>(9).fill('restart'),
      ...Array<string>(21).fill('restart_and_report'),
    ]);
    expect(loop.died('notifier', 31, true)).toBe('give_up');
  });

  it('reports every death until a minute without one', () => {
    const loop = new CrashLoop();
    const second = 1_000;
    for (let n = 0; n < 10; n += 1) loop.died('notifier', n, false);
    const later = Array.from({ length: 20 }, (_, n) => loop.died('notifier', (n + 1) * 10 * second, false));
    expect(later).toEqual(Array<string>(20).fill('restart_and_report'));
    expect(loop.died('notifier', 260 * second, false)).toBe('restart');
  });

  it('counts three hangs in a row as a loop, however long each took', () => {
    const loop = new CrashLoop();
    const hang = (n: number, hopeless: boolean) => loop.died('timer', n * 120_000, hopeless, true);
    expect([0, 1, 2].map((n) => hang(n, true))).toEqual(['restart', 'restart', 'give_up']);
    expect(loop.how('timer')).toBe('was not ready in time 3 times in a row');
    expect([3, 4].map((n) => hang(n, false))).toEqual(['restart_and_report', 'restart_and_report']);
    loop.ready('timer');
    expect(hang(5, true)).toBe('restart');
    expect(loop.how('timer')).toBe('died 10 times within 60 s');
  });

  it('counts each role by itself', () => {
    const loop = new CrashLoop();
    for (let n = 0; n < 9; n += 1) loop.died('timer', n, true);
    expect(loop.died('server', 9, true)).toBe('restart');
  });
});

describe('restartDelayMs', () => {
  it('is 0 after a long run, then doubles from 0.1 to 10 s', () => {
    expect([0, 1, 2, 3, 7, 8, 50].map(restartDelayMs)).toEqual([0, 100, 200, 400, 6_400, 10_000, 10_000]);
  });
});
