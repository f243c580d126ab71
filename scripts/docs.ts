// Writes the parts of README.md that are made from the source: the tables of options and of metrics. `npm run docs`; the tests
// compare.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderConfigTable } from '../src/config/show.ts';
import { renderMetricsTable } from '../src/telemetry/metric-declarations.ts';

const path = join(import.meta.dirname, '../README.md');
const parts = { configuration: renderConfigTable, metrics: renderMetricsTable };

/** The README as it should be. */
export function withGeneratedParts(readme: string): string {
  return Object.entries(parts).reduce((text, [name, render]) => {
    const section = new RegExp(`(<!-- ${name}:begin .*-->\\n)[\\s\\S]*?(<!-- ${name}:end -->)`);
    if (!section.test(text)) throw new Error(`README.md has lost its ${name} markers`);
    return text.replace(section, (_, begin: string, end: string) => `${begin}${render()}${end}`);
  }, readme);
}

if (process.argv[1] === import.meta.filename)
  writeFileSync(path, withGeneratedParts(readFileSync(path, 'utf8')));
