import { describe, expect, it } from 'vitest';
import { consoleLimits } from '../../src/console/limits.ts';
import { SignInFailures } from '../../src/console/session-routes.ts';

const { failedSignInsPerMinute: most, signInsWaitingMax } = consoleLimits;

describe('failed sign-ins of an address', () => {
  it('count from their begin, until they are taken back or the minute ends', () => {
    let now = 0;
    const failures = new SignInFailures(() => now);
    const begun = Array.from({ length: most }, () => failures.begin('a'));
    expect(begun).toEqual(begun.map(() => false));
    expect([failures.begin('a'), failures.begin('b')]).toEqual([true, false]);
    for (let n = 0; n < 2; n += 1) failures.takeBack('a');
    expect([failures.begin('a'), failures.begin('a')]).toEqual([false, true]);
    now = 60_000;
    failures.takeBack('a');
    expect(failures.begin('a')).toBe(false);
  });

  it('are checked one after the other above the limit, and a check that rejects holds up no other', async () => {
    const failures = new SignInFailures(() => 0);
    let running = 0;
    const order: number[] = [];
    const check = (n: number) => async () => {
      running += 1;
      expect(running).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      order.push(n);
      if (n === 1) throw new Error('the registry is gone');
      return n;
    };
    const all = [0, 1, 2].map((n) => failures.inTurn(check(n)));
    expect(await Promise.allSettled(all)).toMatchObject([{ value: 0 }, { status: 'rejected' }, { value: 2 }]);
    expect(order).toEqual([0, 1, 2]);
    const many = Array.from({ length: signInsWaitingMax + 1 }, (_, n) => failures.inTurn(check(n + 2)));
    expect(await many.at(-1)).toBeNull();
    expect((await Promise.all(many.slice(0, -1))).includes(null)).toBe(false);
  });
});
