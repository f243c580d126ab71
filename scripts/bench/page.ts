// Writes results as Markdown: into tables.md of their folder, and into the manual's page between the comments
// `<!-- bench: NAME -->` and `<!-- end -->`, where NAME is `machine`, `plot` or a table.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Disturbance } from './bench.ts';
import { format, markdownOf, type TableData } from './figures.ts';
import { type Machine, machineText } from './machine.ts';

/** results.json */
export interface Results {
  readonly date: string;
  readonly machine: Machine;
  readonly revisions: readonly string[];
  readonly generator: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly tables: readonly TableData[];
  readonly disturbances: readonly Disturbance[];
  /** of each case */
  readonly seconds: Readonly<Record<string, number>>;
  /** SVG, or '' */
  readonly plot: string;
}

const manual = join(import.meta.dirname, '../../src/manual');
const plotFile = 'performance-pending.svg';
const plotText = 'Rates and lateness over the number of pending jobs';

/** Of several folders, the last one with a table provides it. Fails if the page has a marker without one. */
export function writePage(folders: readonly string[]): void {
  const all = folders.map((one) => JSON.parse(readFileSync(join(one, 'results.json'), 'utf8')) as Results);
  const plot = all.findLast((one) => one.plot !== '')?.plot;
  const page = join(manual, 'performance.md');
  const marker = /(<!-- bench: ([\w-]+) -->\n)[\s\S]*?(<!-- end -->)/g;
  const written = readFileSync(page, 'utf8').replace(
    marker,
    (_, begin: string, name: string, end: string) => {
      if (name === 'plot')
        return `${begin}${plot === undefined ? '' : `\n![${plotText}](${plotFile})\n\n`}${end}`;
      if (name === 'machine') return `${begin}\n${introductionOf(all)}\n\n${end}`;
      const table = all.flatMap(({ tables }) => tables).findLast((one) => one.name === name);
      if (table === undefined) throw new Error(`page: no folder has the table ${name}`);
      // The page says what each answer means in its own tables: one more column would be too wide.
      const rows = table.rows.map((row) => ({ ...row, promise: '' }));
      return `${begin}\n${markdownOf({ ...table, rows })}\n\n${end}`;
    },
  );
  writeFileSync(page, written);
  if (plot !== undefined) writeFileSync(join(manual, plotFile), plot);
}

/** All tables. */
export function tablesText(results: Results): string {
  const tables = results.tables.map((table) => `## ${table.title}\n\n${markdownOf(table)}\n`);
  return `${introduction(results)}\n\n${tables.join('\n')}`;
}

/** One text where the folders were measured on one machine with one build. */
function introductionOf(all: readonly Results[]): string {
  const [first] = all;
  if (first === undefined) return '';
  const same = all.every(
    ({ date, machine, revisions }) =>
      date.slice(0, 10) === first.date.slice(0, 10) &&
      machine.cpu === first.machine.cpu &&
      revisions[0] === first.revisions[0],
  );
  if (!same) return all.map(introduction).join('\n\n');
  return introduction({ ...first, disturbances: all.flatMap(({ disturbances }) => disturbances) });
}

function introduction({ date, machine, revisions, generator, disturbances }: Results): string {
  const shares = disturbances.flatMap(({ others }) => others);
  const repeated = disturbances.reduce((sum, one) => sum + one.repeated, 0);
  return [
    `Measured on ${date.slice(0, 10)}: ${machineText(machine)}.`,
    `Revisions: ${revisions.join(', ')}. Load by ${generator}.`,
    `Other programs took at most ${format(100 * Math.max(0, ...shares))} % of the machine; ${repeated} rounds were repeated for that reason.`,
  ].join('\n');
}
