import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { lostParts, pages, withGeneratedParts } from '../../scripts/docs.ts';
import { commands } from '../../src/cli/commands.ts';
import { exitCodes } from '../../src/cli/exit.ts';

const root = join(import.meta.dirname, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

it.each(pages())('%s: generated parts are up to date (npm run docs)', (path) => {
  const page = readFileSync(path, 'utf8');
  expect(withGeneratedParts(page)).toBe(page);
});

it('generated parts: each is on a page', () => {
  expect(lostParts()).toEqual([]);
});

it('README: every command of dq is named', () => {
  const table = readme.slice(readme.indexOf('## Operating'));
  for (const name of Object.keys(commands)) expect(table, name).toMatch(new RegExp(`\`dq ${name}\\b`));
});

it('README: every exit code is explained', () => {
  const line = /\*\*Exit codes\*\*.*/.exec(readme)?.[0] ?? '';
  const named = [...line.matchAll(/(?:: |· )(\d+) /g)].map((match) => Number(match[1]));
  // Two of them may have one number.
  expect(named.sort()).toEqual([...new Set(Object.values(exitCodes))].sort());
});

it('README: files that it links to exist', () => {
  for (const [, path] of readme.matchAll(/\]\((?!https?:)([^)#]+)\)/g))
    expect(readFileSync(join(root, path as string), 'utf8').length, path).toBeGreaterThan(0);
});
