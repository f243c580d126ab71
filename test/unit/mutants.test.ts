// The list of mutants fits the code: `npm run mutants` would not notice a text that is gone until it runs.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mutants } from '../../scripts/mutants/mutants.ts';
import { type RunWorlds, shownBy } from '../../scripts/mutants/simulate.ts';
import { simulatedMutants } from '../../scripts/mutants/simulated.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');

describe('mutants', () => {
  it('have different names', () => {
    const names = [...mutants, ...simulatedMutants].map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(mutants)('$name: its text occurs once, and its test exists', ({ file, text, by, test }) => {
    expect(read(file).split(text)).toHaveLength(2);
    expect(by).not.toBe(text);
    expect(read(test.file).split(`'${test.title}`)).toHaveLength(2);
  });

  it.each(simulatedMutants)('$name: its text occurs once', ({ file, text, by }) => {
    expect(read(file).split(text)).toHaveLength(2);
    expect(by).not.toBe(text);
  });
});

describe('simulated mutants', () => {
  /** Worlds that break a rule for these seeds. */
  const breaking =
    (...broken: readonly number[]): RunWorlds =>
    async ({ from, seeds }) => {
      const first = broken.find((seed) => seed >= from && seed < from + seeds);
      const sentence =
        first === undefined ? '' : `seed ${first} breaks the rule "one state" after 3 s: a/1\n`;
      return `${sentence}sim: 1 seeds, 9 events, ${first === undefined ? 0 : 1} violations\n`;
    };
  const all = { from: 1, seeds: 150 };

  it('red: the first world that breaks a rule only with the mistake', async () => {
    expect(await shownBy(breaking(18, 70, 90), breaking(18, 127), all)).toEqual({
      kind: 'ended',
      rule: 'seed 70 breaks the rule "one state"',
    });
  });

  it('green: the same worlds break a rule without the mistake', async () => {
    expect(await shownBy(breaking(18, 150), breaking(18, 150), all)).toEqual({ kind: 'ended', rule: null });
  });

  it.each([
    ['with', async () => '', breaking()],
    ['without', breaking(18), async () => ''],
  ])('late: a run %s the mistake that did not end proves nothing', async (_, mistaken, right) => {
    expect(await shownBy(mistaken, right, all)).toEqual({ kind: 'late' });
  });
});
