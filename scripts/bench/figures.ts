// Keeps and prints the figures. A figure is the median of several rounds with its spread (lowest to highest),
// because one number of a shared machine says little. One table per case: rows are contestants, columns are
// figures.

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Nearest rank; `share` 0.99 = p99. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))] ?? Number.NaN;
}

export interface Column {
  readonly key: string;
  /** `pushes/s`, `p99, ms`: with its unit */
  readonly title: string;
}

/** As it is in results.json. */
export interface TableData {
  /** of the markers in the manual: `intake-64` */
  readonly name: string;
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly RowData[];
}

export interface RowData {
  readonly name: string;
  /** what an answer of this contestant promises; '' = not a matter of this case */
  readonly promise: string;
  /** one value per round by column key; `cpu:ROLE` = CPU µs per job of the processes of a role */
  readonly values: Readonly<Record<string, readonly number[]>>;
}

const cpuPrefix = 'cpu:';

export class Table implements TableData {
  readonly name: string;
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: { name: string; promise: string; values: Record<string, number[]> }[] = [];

  constructor(name: string, title: string, columns: readonly Column[]) {
    this.name = name;
    this.title = title;
    this.columns = columns;
  }

  /** Rows appear in the order of their first call. */
  promise(row: string, text: string): void {
    this.#row(row).promise = text;
  }

  add(row: string, values: Readonly<Record<string, number>>): void {
    const kept = this.#row(row).values;
    for (const [key, value] of Object.entries(values)) {
      kept[key] ??= [];
      kept[key].push(value);
    }
  }

  #row(name: string) {
    let row = this.rows.find((one) => one.name === name);
    if (row === undefined) {
      row = { name, promise: '', values: {} };
      this.rows.push(row);
    }
    return row;
  }
}

/** CPU µs per job as values of a row: the sum, and each role. */
export function cpuValues(cpu: ReadonlyMap<string, number>, jobs: number): Record<string, number> {
  const each = [...cpu].map(([role, seconds]) => [cpuPrefix + role, (seconds * 1e6) / jobs] as const);
  return { cpu: each.reduce((sum, [, us]) => sum + us, 0), ...Object.fromEntries(each) };
}

export function format(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return Number(value.toPrecision(3)).toString();
}

function cell(values: readonly number[] | undefined): string {
  if (values === undefined || values.length === 0) return '';
  if (values.length === 1) return format(values[0] as number);
  return `${format(median(values))} (${format(Math.min(...values))}–${format(Math.max(...values))})`;
}

/** Roles that cost less than this are summed up in the last one. */
const smallUs = 0.5;

function cpuByRole({ values }: RowData): string {
  const roles = Object.entries(values)
    .filter(([key]) => key.startsWith(cpuPrefix))
    .map(([key, each]) => [key.slice(cpuPrefix.length), median(each)] as const)
    .sort(([, a], [, b]) => b - a);
  const small = roles.filter(([, us]) => us < smallUs).reduce((sum, [, us]) => sum + us, 0);
  const shown = roles.filter(([, us]) => us >= smallUs).map(([role, us]) => `${role} ${us.toFixed(1)}`);
  return [...shown, ...(small >= 0.05 ? [`rest ${small.toFixed(1)}`] : [])].join(' · ');
}

/** Header and cells. A column without a value in any row is left out. */
function gridOf({ columns, rows }: TableData): string[][] {
  const used = columns.filter(({ key }) => rows.some(({ values }) => (values[key]?.length ?? 0) > 0));
  const hasRoles = rows.some((row) => cpuByRole(row) !== '');
  const hasPromises = rows.some(({ promise }) => promise !== '');
  return [
    [
      '',
      ...used.map(({ title }) => title),
      ...(hasRoles ? ['CPU by process'] : []),
      ...(hasPromises ? ['an answer means'] : []),
    ],
    ...rows.map((row) => [
      row.name,
      ...used.map(({ key }) => cell(row.values[key])),
      ...(hasRoles ? [cpuByRole(row)] : []),
      ...(hasPromises ? [row.promise] : []),
    ]),
  ];
}

export function markdownOf(table: TableData): string {
  const [header = [], ...rows] = gridOf(table).map((cells) =>
    cells.map((text) => text.replaceAll('|', '\\|')),
  );
  return [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function textOf(table: TableData): string {
  const grid = gridOf(table);
  const widths = (grid[0] ?? []).map((_, at) => Math.max(...grid.map((cells) => cells[at]?.length ?? 0)));
  const lines = grid.map((cells) =>
    cells
      .map((text, at) => text.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return [table.title, ...lines.map((line) => `  ${line}`)].join('\n');
}

/** One figure in one line, for cases without a table. */
export function print(name: string, values: readonly number[], unit: string): void {
  const spread = `${format(Math.min(...values))} … ${format(Math.max(...values))}`;
  console.log(
    `  ${name.padEnd(46)} ${format(median(values)).padStart(9)} ${unit.padEnd(10)} (${spread}; n=${values.length})`,
  );
}
