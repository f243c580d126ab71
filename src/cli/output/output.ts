// Writes data to stdout and messages to stderr, so that a pipe carries data alone.
// Invariant: text from outside reaches a terminal only with escaped control characters, because a reply
// excerpt could rewrite the screen.

import { createInterface } from 'node:readline/promises';
import Table from 'cli-table3';
import picocolors from 'picocolors';
import { printable } from '../../runtime/printable-text.ts';
import { Exit } from '../exit.ts';

/** Colours on a terminal only: picocolors alone would also colour a pipe where $CI is set. */
export const colors = picocolors.createColors(process.stdout.isTTY === true && !process.env['NO_COLOR']);

export function printData(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Control characters as JSON writes them (`\u001b`); a tab or line break becomes a blank. */
export function escapeControls(text: string): string {
  return printable(text.replace(/[\t\r\n]+/g, ' '));
}

/** An instant of the API, which is in UTC. On a terminal in local time with its offset, as --since and --at
 *  read it; a pipe gets it as it is. */
export function shownInstant(at: string, { isTTY }: { readonly isTTY?: boolean } = process.stdout): string {
  const minutes = -new Date(at).getTimezoneOffset();
  if (isTTY !== true || minutes === 0) return at;
  const local = new Date(Date.parse(at) + minutes * 60_000).toISOString().slice(0, -1);
  const [hour, minute] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const offset = [hour, minute].map((part) => String(part).padStart(2, '0')).join(':');
  return `${local}${minutes < 0 ? '-' : '+'}${offset}`;
}

/** A column with the instant of this member. */
export const instantOf =
  <Name extends string>(name: Name) =>
  (item: { readonly [K in Name]?: string | null }): string =>
    item[name] ? shownInstant(item[name]) : '';

/** The first `max` characters, with an ellipsis when text is cut off. */
export function excerpt(text: string, max: number): string {
  // Cut before the split into characters: a reply may have megabytes.
  const head = Array.from(text.slice(0, max * 2 + 2));
  return head.length > max ? `${head.slice(0, max).join('')}…` : text;
}

/** Without lines; two blanks between columns. */
const plainFrame = {
  chars: {
    ...Object.fromEntries(
      ['top', 'bottom', 'left', 'mid', 'right'].flatMap((side) => [
        [side, ''],
        [`${side}-left`, ''],
        [`${side}-mid`, ''],
        [`${side}-right`, ''],
      ]),
    ),
    middle: '  ',
  },
  style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
};

/** Aligns columns by display width (a Chinese character takes two), two blanks apart, no frame: for grep and
 *  awk. */
export function tableOf(rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const table = new Table(plainFrame);
  for (const row of rows) table.push([...row]);
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** A value of a table; absent ones and '' become `-`. */
export type Cell = string | number | readonly string[] | null | undefined;

/** The head of each column, with the member that it shows or the function that makes its cells. */
export type Columns<Item> = Readonly<Record<string, MemberOf<Item> | ((item: Item) => Cell)>>;
type MemberOf<Item> = { [K in keyof Item]: Item[K] extends Cell ? K : never }[keyof Item];

const textOf = (cell: Cell): string =>
  escapeControls(typeof cell === 'object' && cell !== null ? cell.join(',') : String(cell ?? '')) || '-';

/** A table with a head line, as text. */
function headed(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return tableOf([head.map((name) => colors.bold(name)), ...rows.map((row) => row.map(textOf))]);
}

export function printTable(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
  printData(headed(head, rows));
}

/** One row per item. */
export function itemTable<Item>(items: readonly Item[], columns: Columns<Item>): string {
  const cellOf = (item: Item, column: Columns<Item>[string]): Cell =>
    typeof column === 'function' ? column(item) : (item[column] as Cell);
  return headed(
    Object.keys(columns),
    items.map((item) => Object.values(columns).map((column) => cellOf(item, column))),
  );
}

export function printItems<Item>(items: readonly Item[], columns: Columns<Item>): void {
  printData(itemTable(items, columns));
}

export type Members = readonly (readonly [name: string, value: Cell])[];

/** One record, one line per member. */
export const printRecord = (members: Members): void => printParts([[null, members]]);

/** One record in parts: a blank line and a title before each part that has one. */
export function printParts(parts: readonly (readonly [title: string | null, members: Members])[]): void {
  printData(
    tableOf(
      parts.flatMap(([title, members]) => [
        ...(title === null
          ? []
          : [
              ['', ''],
              [colors.bold(title), ''],
            ]),
        ...members.map(([name, value]) => [colors.dim(name), textOf(value)]),
      ]),
    ),
  );
}

/** The parts that are not empty, with blanks between them. */
export const words = (...parts: readonly Cell[]): string =>
  parts.filter((part) => part !== '' && part !== null && part !== undefined).join(' ');

/** The source on one line, with a caret under the character at `position`, aligned by display width. */
export function withCaret(source: string, position: number): string {
  const flat = source.replace(/[\u0000-\u001f\u007f]/g, ' ');
  const at = Math.min(Math.max(position, 0), flat.length);
  const table = new Table({ ...plainFrame, chars: { ...plainFrame.chars, middle: '' } });
  table.push([`|${flat.slice(0, at)}`, flat.slice(at)], ['|', '^']);
  return table
    .toString()
    .split('\n')
    .map((line) => `  ${line.slice(1).trimEnd()}`)
    .join('\n');
}

/** The answer to a question on a terminal. Throws Exit without one. `flag`: gives it instead. */
export function askFor(question: string, flag: string): Promise<string> {
  return answerTo(question, `${question} There is no terminal to ask on; use ${flag}`);
}

/** Confirms destructive work: `-y`, or a question on a terminal. Throws Exit without consent. */
export async function agree(question: string, yes: boolean | undefined): Promise<void> {
  if (yes) return;
  const refusal = `${question} There is no terminal to ask on; -y agrees`;
  const answer = await answerTo(`${question} [y/N]`, refusal);
  if (!/^y(es)?$/i.test(answer)) throw new Exit('failed', 'nothing was changed');
}

async function answerTo(prompt: string, refusal: string): Promise<string> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw new Exit('failed', refusal);
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await lines.question(`${prompt} `)).trim();
  } finally {
    lines.close();
  }
}
