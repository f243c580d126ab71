// Access tokens of a registry.

import { expect } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { makeToken, type TokenRecord } from '../../../src/core/token.ts';

import { created, draft, fact, failureOf, type RegistryCase } from './case.ts';

const life = { createdAt: 5, expiresAt: null, usedAt: null };
const token = (name: string, more: Partial<TokenRecord> = {}): TokenRecord => {
  const { id, digest } = makeToken();
  return { name, id, digest, scopes: ['push', 'read'], topics: ['order.*'], ...life, ...more };
};

export const tokenCases: readonly RegistryCase[] = [
  fact('are kept whole and listed by name, also after closing', async ({ open }) => {
    const registry = await open();
    const [a, b] = [token('a'), token('b', { scopes: ['admin'], topics: ['*', 'x'] })];
    expect(await registry.createToken(b)).toBe('created');
    expect(await registry.createToken(a)).toBe('created');
    expect(await registry.tokens(-1)).toEqual({ revision: 2, tokens: [a, b] });
    await registry.close();
    expect((await (await open()).tokens(-1)).tokens).toEqual([a, b]);
  }),
  fact(
    'keep their end and their last use, which never moves back, and no revision changes',
    async ({ open }) => {
      const registry = await open();
      const [a, b] = [token('a', { expiresAt: 4_000_000_000_000 }), token('b')];
      await registry.createToken(a);
      await registry.createToken(b);
      await registry.useTokens([
        { id: a.id, usedAt: 900 },
        { id: 'unknown', usedAt: 900 },
      ]);
      await registry.useTokens([
        { id: a.id, usedAt: 800 },
        { id: b.id, usedAt: 700 },
      ]);
      const tokens = [
        { ...a, usedAt: 900 },
        { ...b, usedAt: 700 },
      ];
      expect(await registry.tokens(-1)).toEqual({ revision: 2, tokens });
    },
  ),
  fact('are null for a caller that has this revision', async ({ open }) => {
    const registry = await open();
    const { revision } = await registry.tokens(-1);
    expect(revision).toBe(0);
    expect(await registry.tokens(0)).toEqual({ revision: 0, tokens: null });
    await created(registry, draft('t'));
    expect(await registry.tokens(0)).toEqual({ revision: 1, tokens: [] });
  }),
  fact('names are unique; a second creation changes nothing', async ({ open }) => {
    const registry = await open();
    const first = token('a');
    await registry.createToken(first);
    expect(await registry.createToken(token('a'))).toBe('exists');
    expect(await registry.tokens(-1)).toEqual({ revision: 1, tokens: [first] });
  }),
  fact('are removed by name, byte by byte', async ({ open }) => {
    const registry = await open();
    await registry.createToken(token('a'));
    for (const name of ['A', 'b', '', 'a\0b', '%']) expect(await registry.removeToken(name)).toBe('absent');
    expect(await registry.removeToken('a')).toBe('removed');
    expect(await registry.removeToken('a')).toBe('absent');
    expect(await registry.tokens(1)).toEqual({ revision: 2, tokens: [] });
  }),
  fact('notify of creations and removals only', async ({ open }) => {
    const registry = await open();
    let calls = 0;
    registry.onChange(() => {
      calls += 1;
    });
    await registry.createToken(token('a'));
    await registry.createToken(token('a'));
    await registry.removeToken('b');
    await registry.tokens(-1);
    expect(calls).toBe(1);
    await registry.removeToken('a');
    expect(calls).toBe(2);
  }),
  fact('are at most limits.tokensMax', async ({ open, run }) => {
    const registry = await open();
    await registry.createToken(token('first'));
    const more = Array.from({ length: limits.tokensMax - 1 }, (_, i) => i + 2);
    const rows = more.map((i) => `('t${i}', 'id${i}', '${'0'.repeat(64)}', '["read"]', '["*"]', 0)`);
    await run(`INSERT INTO token (name, id, digest, scopes, topics, created_at) VALUES ${rows.join(', ')}`);
    expect(await registry.createToken(token('another'))).toBe('full');
    expect(await registry.removeToken('t2')).toBe('removed');
    expect(await registry.createToken(token('another'))).toBe('created');
  }),
  ...['scopes', 'topics', 'digest'].map((column) =>
    fact(`a row with a damaged ${column} grants no rights`, async ({ open, run }) => {
      const registry = await open();
      await registry.createToken(token('a'));
      await run(`UPDATE token SET ${column} = '"*"'`);
      expect(await failureOf(registry.tokens(-1))).toEqual({ kind: 'not_stored', code: 'damaged' });
      expect(await registry.removeToken('a')).toBe('removed');
    }),
  ),
];
