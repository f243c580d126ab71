import { expect, it } from 'vitest';
import { orAfter, within } from '../../src/runtime/timeout.ts';

const never = new Promise<never>(() => undefined);

it('within: settles as the work does', async () => {
  expect(await within(60_000, Promise.resolve(5), () => new Error('late'))).toBe(5);
  await expect(within(60_000, Promise.reject(new Error('own')), () => new Error('late'))).rejects.toThrow(
    'own',
  );
});

it('within: rejects after the deadline and ignores a later rejection of the work', async () => {
  let reject = (_: Error) => {};
  const work = new Promise<void>((_, rejectWork) => {
    reject = rejectWork;
  });
  await expect(within(1, work, () => new Error('late'))).rejects.toThrow('late');
  reject(new Error('unhandled'));
});

it('orAfter: resolves with the other value after the deadline', async () => {
  expect(await orAfter(1, never, null)).toBe(null);
  expect(await orAfter(60_000, Promise.resolve(1), null)).toBe(1);
});
