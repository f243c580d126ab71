import { describe, expect, it } from 'vitest';
import { CrashLoop, restartDelayMs } from '../../src/master/crash-loop.ts';

describe('CrashLoop', () => {
  it('gives up at the tenth hopeless death within a minute', () => {
    const loop = new CrashLoop();
    const verdicts = Array.from({ length: 10 }, (_, n) => loop.died('timer', n * 6_000, true));
    expect(verdicts).toEqual([...Array<string>(9).fill('restart'), 'give_up']);
  });

  it('goes on for ever while the deaths are more than a minute apart', () => {
    const loop = new CrashLoop();
    for (let n = 0; n < 30; n += 1) expect(loop.died('timer', n * 6_700, true)).toBe('restart');
  });

  it('goes on while another worker of the role is alive, and tells from the tenth death on', () => {
    const loop = new CrashLoop();
    const verdicts = Array.from({ length: 30 }, (_, n) => loop.died('notifier', n, false));
    expect(verdicts).toEqual([
      ...Array<string>(9).fill('restart'),
      ...Array<string>(21).fill('restart_and_tell'),
    ]);
    expect(loop.died('notifier', 31, true)).toBe('give_up');
  });

  it('counts each role by itself', () => {
    const loop = new CrashLoop();
    for (let n = 0; n < 9; n += 1) loop.died('timer', n, true);
    expect(loop.died('server', 9, true)).toBe('restart');
  });
});

describe('restartDelayMs', () => {
  it('doubles from 0.1 to 10 s', () => {
    expect([1, 2, 3, 7, 8, 50].map(restartDelayMs)).toEqual([100, 200, 400, 6_400, 10_000, 10_000]);
  });
});
