import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { withGeneratedParts } from '../../scripts/docs.ts';
import { commands } from '../../src/cli/commands.ts';
import { exitCodes } from '../../src/cli/exit.ts';
import { defaultEmptyReply, topicDefaults } from '../../src/core/topic/topic.ts';

const root = join(import.meta.dirname, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

it('README: the table of options is the one that the declarations give (npm run docs)', () => {
  expect(withGeneratedParts(readme)).toBe(readme);
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

it('README: the defaults of a topic are those in force', () => {
  const defaultOf = (field: string) =>
    new RegExp(`^\\| \`${field}\` \\| \`?([^\`|]*)\`? \\|`, 'm').exec(readme)?.[1];
  expect(defaultOf('maxAttempts')).toBe(String(topicDefaults.maxAttempts));
  expect(defaultOf('concurrency')).toBe(String(topicDefaults.concurrency));
  expect(defaultOf('timeout')).toBe(`${topicDefaults.timeoutMs / 1_000}s`);
  expect(readme).toContain(
    `| \`emptyReply\` | \`${defaultEmptyReply('raw')}\`, with \`format: form\` \`${defaultEmptyReply('form')}\` |`,
  );
  expect(defaultOf('priority')).toBe(topicDefaults.priority);
  expect(defaultOf('okStatus')).toBe(JSON.stringify(topicDefaults.okStatus));
});
