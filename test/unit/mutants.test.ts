// The list of mutants fits the code: `npm run mutants` would not notice a text that is gone until it runs.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mutants } from '../../scripts/mutants/mutants.ts';
import { simulatedMutants as ofSqlite } from '../../scripts/mutants/simulated.ts';
import { simulatedJournalMutants } from '../../scripts/mutants/simulated-journal.ts';
import { simulatedRedisMutants } from '../../scripts/mutants/simulated-redis.ts';

const simulatedMutants = [...ofSqlite, ...simulatedRedisMutants, ...simulatedJournalMutants];
const root = resolve(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');

describe('mutants', () => {
  it('have different names', () => {
    const names = [...mutants, ...simulatedMutants].map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(mutants)('$name: its text occurs once, and its test exists', ({ edit, test }) => {
    expect(read(edit.file).split(edit.text)).toHaveLength(2);
    expect(edit.by).not.toBe(edit.text);
    expect(read(test.file).split(`'${test.title}`)).toHaveLength(2);
  });

  it.each(simulatedMutants)('$name: its text occurs once', ({ edit }) => {
    expect(read(edit.file).split(edit.text)).toHaveLength(2);
    expect(edit.by).not.toBe(edit.text);
  });
});
