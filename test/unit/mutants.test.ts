// The list of mutants fits the code: `npm run mutants` would not notice a text that is gone until it runs.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mutants } from '../../scripts/mutants/mutants.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');

describe('mutants', () => {
  it('have different names', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  });

  it.each(mutants)('$name: its text occurs once, and its test exists', ({ edit, test }) => {
    if (edit !== undefined) {
      expect(read(edit.file).split(edit.text)).toHaveLength(2);
      expect(edit.by).not.toBe(edit.text);
    }
    expect(read(test.file).split(`'${test.title}`)).toHaveLength(2);
  });
});
