// Tests the end and the uses of access tokens in TokenBook.
import { expect, it, onTestFinished } from 'vitest';
import { digestOf, makeToken, type TokenRecord, type TokenUse } from '../../src/core/token.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { TokenBook } from '../../src/registry/token-book.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { until } from '../support/until.ts';

let now = 0;
const { token, id, digest } = makeToken();
const given = digestOf(token);

async function bookOf(life: Pick<TokenRecord, 'expiresAt' | 'usedAt'>, uses: TokenUse[][] = []) {
  let wake = () => {};
  let fails = false;
  let failures = 0;
  const record: TokenRecord = {
    ...{ name: 'a', id, digest, scopes: ['push'], topics: ['*'], createdAt: 0 },
    ...life,
  };
  const registry = {
    tokens: async (since: number) => ({ revision: 1, tokens: since === 1 ? null : [record] }),
    useTokens: async (some: readonly TokenUse[]) => {
      if (fails) {
        failures += 1;
        throw new Error('the registry is unavailable');
      }
      uses.push([...some]);
    },
    onChange: (listener: () => void) => {
      wake = listener;
      return () => {};
    },
  } as unknown as Registry;
  const book = new TokenBook(registry, silentLog, () => now);
  await book.start();
  onTestFinished(() => book.drain(1_000));
  const fail = (next: boolean): void => {
    fails = next;
  };
  return { book, wake: () => wake(), fail, failures: () => failures };
}

it('token book: rejects an expired token, which still counts as one', async () => {
  const { book } = await bookOf({ expiresAt: 5_000, usedAt: null });
  now = 4_999;
  expect(book.rightsOf(token, given)).not.toBeNull();
  expect(book.mayExist(id)).toBe(true);
  now = 5_000;
  expect(book.rightsOf(token, given)).toBeNull();
  expect(book.mayExist(id)).toBe(false);
  expect(book.count).toBe(1);
});

it('token book: records a use at most once a minute, and again after a failed write', async () => {
  const uses: TokenUse[][] = [];
  now = 1_000_000;
  const { book, wake, fail, failures } = await bookOf({ expiresAt: null, usedAt: null }, uses);
  book.rightsOf(token, given);
  wake();
  await until('it is recorded', () => uses.length === 1);
  now += 59_000;
  book.rightsOf(token, given);
  now += 1_000;
  fail(true);
  book.rightsOf(token, given);
  wake();
  // A poll may come at once after the hint, and fail too.
  await until('a write failed', () => failures() > 0);
  fail(false);
  wake();
  await until('the later use is recorded', () => uses.length === 2);
  expect(uses).toEqual([[{ id, usedAt: 1_000_000 }], [{ id, usedAt: 1_060_000 }]]);
});
