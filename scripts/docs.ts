// Writes the parts of README.md that are made from the source: the table of options. `npm run docs`; the tests compare.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderConfigTable } from '../src/config/show.ts';

const path = join(import.meta.dirname, '../README.md');
const section = /(<!-- configuration:begin .*-->\n)[\s\S]*?(<!-- configuration:end -->)/;

/** The README as it should be. */
export function withGeneratedParts(readme: string): string {
  if (!section.test(readme)) throw new Error('README.md has lost its configuration markers');
  return readme.replace(section, (_, begin: string, end: string) => `${begin}${renderConfigTable()}${end}`);
}

if (process.argv[1] === import.meta.filename)
  writeFileSync(path, withGeneratedParts(readFileSync(path, 'utf8')));
