// What a command writes where: data to stdout, everything said to people to stderr, so that a pipe carries data alone.
// Text that came from outside reaches a terminal only with its control characters escaped: a reply excerpt could
// otherwise rewrite the screen.

import { createInterface } from 'node:readline/promises';
import Table from 'cli-table3';
import picocolors from 'picocolors';
import { Exit } from '../exit.ts';

/** picocolors colours whenever $CI is set, terminal or not; a pipe gets none here. */
export const colors = picocolors.createColors(process.stdout.isTTY === true && !process.env['NO_COLOR']);

export function printData(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** `\u001b` and the like as they are written in JSON; a tab or line break becomes a blank. */
export function escapeControls(text: string): string {
  return text
    .replace(/[\t\r\n]+/g, ' ')
    .replace(
      /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
}

/** The first `max` characters, with an ellipsis where something was cut off. */
export function excerpt(text: string, max: number): string {
  // No line of a screen needs more; escaping megabytes first would be waste.
  const head = Array.from(text.slice(0, max * 2 + 2));
  return head.length > max ? `${head.slice(0, max).join('')}…` : text;
}

const plainFrame = {
  chars: {
    top: '',
    'top-mid': '',
    'top-left': '',
    'top-right': '',
    bottom: '',
    'bottom-mid': '',
    'bottom-left': '',
    'bottom-right': '',
    left: '',
    'left-mid': '',
    mid: '',
    'mid-mid': '',
    right: '',
    'right-mid': '',
    middle: '  ',
  },
  style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
};

/** Columns by display width (a Chinese character takes two), two blanks between them, no frame: fit for grep and awk. */
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

/** A table with a head, as text. */
export function headed(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const clean = rows.map((row) => row.map((cell) => escapeControls(cell) || '-'));
  return tableOf([head.map((name) => colors.bold(name)), ...clean]);
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  printData(headed(head, rows));
}

/** One thing, a line for each of its members. */
export function printRecord(members: readonly (readonly [string, string])[]): void {
  printData(tableOf(members.map(([name, value]) => [colors.dim(name), escapeControls(value) || '-'])));
}

/** The source on one line and a caret under the character at `position`; aligned by the table, which knows widths. */
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

/** Destructive work: asks on a terminal; `-y` agrees; with neither it refuses. Throws Exit when it must not be done. */
export async function agree(question: string, yes: boolean | undefined): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new Exit('failed', `${question} There is no terminal to ask on: -y agrees`);
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`${question} [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new Exit('failed', 'nothing was done');
  } finally {
    lines.close();
  }
}
