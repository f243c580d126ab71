// Tests when repeated deaths end the daemon, and the restart delays.
import { describe, expect, it } from 'vitest';
import { CrashLoop, restartDelayMs } from '../../src/master/workers/worker-slot.ts';

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
