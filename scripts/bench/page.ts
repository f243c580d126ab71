// Writes results as Markdown: into tables.md of their folder, and into the manual's page and README between
// the comments `<!-- bench: NAME -->` and `<!-- end -->`. NAME is `summary`, `readme`, `plot`, `machine` or a
// table.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Disturbance } from './bench.ts';
import { withoutQuery } from './cases/intake.ts';
import { format, markdownOf, median, type TableData } from './figures.ts';
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

const root = join(import.meta.dirname, '../..');
const manual = join(root, 'src/manual');
const plotFile = 'performance-pending.svg';
const plotText = 'Rates and lateness over the number of pending jobs';

/** Of several folders, the last one with a table provides it. Fails if the page has a marker without one. */
export function writePage(folders: readonly string[]): void {
  const all = folders.map((one) => JSON.parse(readFileSync(join(one, 'results.json'), 'utf8')) as Results);
  const plot = all.findLast((one) => one.plot !== '')?.plot;
  const textOf = (name: string): string => {
    switch (name) {
      case 'summary':
        return summaryOf(all);
      case 'readme':
        return sentenceOf(all);
      case 'plot':
        return plot === undefined ? '' : `![${plotText}](${plotFile})`;
      case 'machine':
        return introductionOf(all);
    }
    const table = tableOf(all, name);
    // The page says what each answer means in its own tables: one more column would be too wide.
    return markdownOf({ ...table, rows: table.rows.map((row) => ({ ...row, promise: '' })) });
  };
  for (const file of [join(manual, 'performance.md'), join(root, 'README.md')])
    writeFileSync(file, filled(readFileSync(file, 'utf8'), textOf));
  if (plot !== undefined) writeFileSync(join(manual, plotFile), plot);
}

const marker = /(<!-- bench: ([\w-]+) -->\n)[\s\S]*?(<!-- end -->)/g;

const filled = (page: string, textOf: (name: string) => string): string =>
  page.replace(
    marker,
    (_, begin: string, name: string, end: string) => `${begin}\n${textOf(name)}\n\n${end}`,
  );

function tableOf(all: readonly Results[], name: string): TableData {
  const table = all.flatMap(({ tables }) => tables).findLast((one) => one.name === name);
  if (table === undefined) throw new Error(`page: no folder has the table ${name}`);
  return table;
}

/** The median of a figure; null: the table has no such row. */
function figureOf(all: readonly Results[], table: string, row: string, key: string): number | null {
  const values = tableOf(all, table).rows.find(({ name }) => name === row)?.values[key] ?? [];
  return values.length === 0 ? null : median(values);
}

interface Summary {
  readonly pushes: number | null;
  /** of runs from before the push of README was measured */
  readonly plainPushes: number | null;
  readonly deliveries: number | null;
  readonly latenessMs: number | null;
}

const summaryConnections = 256;

function figuresOf(all: readonly Results[], build: string): Summary {
  const intake = `intake-${summaryConnections}`;
  return {
    pushes: figureOf(all, intake, build, 'rate'),
    plainPushes: figureOf(all, intake, withoutQuery(build), 'rate'),
    deliveries: figureOf(all, 'delivery', build, 'rate'),
    latenessMs: figureOf(all, 'lateness-50', build, 'p99'),
  };
}

/** The three figures at the beginning of the page. */
function summaryOf(all: readonly Results[]): string {
  const [embedded, redis] = ['dq, embedded', 'dq, Redis'].map((build) => figuresOf(all, build));
  if (embedded === undefined || redis === undefined) return '';
  const row = (text: string, key: keyof Summary, unit = '') => {
    const cells = [embedded, redis].map((one) => (one[key] === null ? '' : `${format(one[key])}${unit}`));
    return `| ${text} | ${cells.join(' | ')} |`;
  };
  const [pushes, text] =
    embedded.pushes === null
      ? (['plainPushes', 'pushes without a query per second'] as const)
      : (['pushes', 'pushes per second'] as const);
  return [
    '| | embedded store | Redis |',
    '| --- | --- | --- |',
    row(`${text}, ${summaryConnections} connections`, pushes),
    row('deliveries per second', 'deliveries'),
    row('p99 lateness at 50 jobs per second', 'latenessMs', ' ms'),
  ].join('\n');
}

/** The same for README, of the embedded store. */
function sentenceOf(all: readonly Results[]): string {
  const { pushes, plainPushes, deliveries, latenessMs } = figuresOf(all, 'dq, embedded');
  const rounded = (value: number | null) => format(Number((value ?? Number.NaN).toPrecision(2)));
  const kind = pushes === null ? ' without a query' : '';
  // 2 × AMD EPYC
  const cores = Number.parseInt(all.at(-1)?.machine.cpu ?? '', 10);
  return [
    `On ${cores} cores dq accepts about ${rounded(pushes ?? plainPushes)} pushes${kind} and delivers about ${rounded(deliveries)} jobs per second.`,
    `At 50 jobs per second the p99 lateness is ${format(latenessMs ?? Number.NaN)} ms: [Performance](src/manual/performance.md).`,
  ].join('\n');
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
