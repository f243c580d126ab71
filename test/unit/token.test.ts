// Tests access tokens: text, digest, scopes, topics.
import { describe, expect, it } from 'vitest';
import {
  coversGlob,
  digestOf,
  grants,
  isSameDigest,
  makeToken,
  type Rights,
  reaches,
  reachesEveryTopic,
  scopes,
  tokenIdOf,
} from '../../src/core/token.ts';

const rights = (more: Partial<Rights>): Rights => ({ scopes: ['push'], topics: ['*'], ...more });

describe('makeToken', () => {
  it('makeToken: a readable id, 256 random bits, the digest of both', () => {
    const { token, id, digest } = makeToken();
    expect(token).toMatch(/^dqk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
    expect(Buffer.from(token.slice(-43), 'base64url')).toHaveLength(32);
    expect(tokenIdOf(token)).toBe(id);
    expect(digest).toBe(digestOf(token).toString('hex'));
    expect(new Set(Array.from({ length: 100 }, () => makeToken().token)).size).toBe(100);
  });

  it('tokenIdOf: null for other text', () => {
    const { token } = makeToken();
    for (const text of [
      '',
      'dqk_',
      token.slice(1),
      token.slice(0, -1),
      `${token}x`,
      ` ${token}`,
      token.toUpperCase(),
    ])
      expect(tokenIdOf(text), text).toBeNull();
  });
});

it('isSameDigest: false for a difference in any byte', () => {
  const known = digestOf('a');
  expect(isSameDigest(digestOf('a'), known)).toBe(true);
  for (let at = 0; at < known.length; at++) {
    const other = Buffer.from(known);
    other[at] = (other[at] as number) ^ 1;
    expect(isSameDigest(other, known)).toBe(false);
  }
});

it('scopes: admin includes all, the others only themselves', () => {
  for (const held of scopes)
    for (const asked of scopes)
      expect(grants(rights({ scopes: [held] }), asked), `${held} for ${asked}`).toBe(
        held === asked || held === 'admin',
      );
  expect(grants(rights({ scopes: [] }), 'read')).toBe(false);
  expect(grants(rights({ scopes: ['push', 'read'] }), 'read')).toBe(true);
});

describe('topics', () => {
  it.each([
    [
      'order.*',
      ['order.', 'order.close', 'order.a.b'],
      ['order', 'xorder.close', 'orders.close', 'ORDER.close'],
    ],
    ['*', ['a', 'order.close'], []],
    ['order', ['order'], ['order.', 'orders', 'a']],
    ['*.close', ['.close', 'order.close'], ['close', 'order.close2']],
    ['a*b*c', ['abc', 'aXbYc', 'abbcc', 'abcbc'], ['ab', 'acb', 'ac', 'abcd']],
    ['a*a', ['aa', 'aba'], ['a', 'ab']],
    ['ab*ba', ['abba', 'abXba'], ['aba', 'ab']],
    ['a**b', ['ab', 'axb'], ['a', 'b']],
    ['a.b', ['a.b'], ['aXb']],
    ['a-[b]', [], ['a-b']],
  ])('%s', (glob, inside, outside) => {
    for (const name of inside) expect(reaches(rights({ topics: [glob] }), name), name).toBe(true);
    for (const name of outside) expect(reaches(rights({ topics: [glob] }), name), name).toBe(false);
  });

  it('globs: one match suffices; no glob matches nothing', () => {
    expect(reaches(rights({ topics: ['a', 'b.*'] }), 'b.c')).toBe(true);
    expect(reaches(rights({ topics: [] }), 'a')).toBe(false);
  });

  it('globs: no exponential backtracking', () => {
    const glob = `${'*a'.repeat(60)}*b`;
    for (let n = 0; n < 10_000; n++) expect(reaches(rights({ topics: [glob] }), 'a'.repeat(128))).toBe(false);
  });

  it('globs: only `*` matches every topic', () => {
    expect(reachesEveryTopic(rights({ topics: ['a', '*'] }))).toBe(true);
    expect(reachesEveryTopic(rights({ topics: ['a*', '*.b'] }))).toBe(false);
  });
});

describe('coversGlob', () => {
  it.each([
    ['*', '*', true],
    ['*', 'order.*', true],
    ['order.*', 'order.*', true],
    ['order.*', 'order.close', true],
    ['order.*', 'order.c*e', true],
    ['order.*', 'order.*.*', true],
    ['*.close', 'order.*.close', true],
    ['a*b*c', 'a*b*c', true],
    ['a*b*c', 'a*c', false],
    ['order.*', '*', false],
    ['order.*', 'order*', false],
    ['order.*', '*order.x', false],
    ['*.close', '*close', false],
    ['order.close', 'order.clos*', false],
  ])('%s covers %s: %s', (own, glob, isCovered) => {
    expect(coversGlob(rights({ topics: ['x', own] }), glob)).toBe(isCovered);
  });
});
