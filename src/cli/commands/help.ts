// dq help: shows the help of a command, or a page of the manual (src/manual, which every package carries).
// dq version: which dq this is; `dq --version` prints the number alone.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { unknownName } from '../../core/suggest.ts';
import { commit, version } from '../../core/version.ts';
import { commandNames } from '../dq-command.ts';
import { Exit } from '../exit.ts';
import { printData, printRecord, tableOf } from '../output/output.ts';
import { packageRoot } from '../package-files.ts';

export function register(program: Command): void {
  program
    .command('help')
    .description('show a command or a page of the manual; list both without an argument')
    .argument('[name...]', 'a command (topic add) or a page (retry-rules)')
    .action((words: readonly string[]) => showHelp(program, words));
  program
    .command('version')
    .description('show version, commit, Node and platform')
    .option('--json', 'one JSON object: {version, commit, node, platform}')
    .action(showVersion);
}

function showVersion({ json }: { readonly json?: boolean }): void {
  const facts = { version, commit, node: process.version, platform: `${process.platform}-${process.arch}` };
  if (json) printData(JSON.stringify(facts));
  else printRecord(Object.entries(facts));
}

async function showHelp(program: Command, words: readonly string[]): Promise<void> {
  const pages = pagesIn(join(packageRoot(), 'src/manual'));
  if (words.length === 0) {
    printData(`${program.helpInformation()}\nPages (dq help PAGE):\n${indexOf(pages)}`);
    return;
  }
  const command = findCommand(program, words);
  if (command !== null) {
    command.outputHelp();
    return;
  }
  const name = words.join(' ');
  const page = pages.get(name) ?? pages.get(`reference/${name}`);
  if (page !== undefined) return showPage(page);
  const known = [...commandNames(program), ...pages.keys()];
  throw new Exit('usage', unknownName(`command or page "${name}"`, name, known, 'dq help lists all'));
}

/** `topic add` → that command; null when a word is unknown. */
function findCommand(program: Command, words: readonly string[]): Command | null {
  let at = program;
  for (const word of words) {
    const next = at.commands.find((one) => one.name() === word || one.aliases().includes(word));
    if (next === undefined) return null;
    at = next;
  }
  return at;
}

/** Name (`retry-rules`, `reference/http`) → text. Empty where the manual is missing. */
function pagesIn(directory: string): ReadonlyMap<string, string> {
  if (!existsSync(directory)) return new Map();
  const paths = (readdirSync(directory, { recursive: true }) as string[]).filter((path) =>
    path.endsWith('.md'),
  );
  return new Map(
    paths.sort().map((path) => [path.slice(0, -'.md'.length), readFileSync(join(directory, path), 'utf8')]),
  );
}

function indexOf(pages: ReadonlyMap<string, string>): string {
  const titleOf = (text: string) => /^# (.*)$/m.exec(text)?.[1] ?? '';
  return tableOf([...pages].map(([name, text]) => [`  ${name}`, titleOf(text)]));
}

/** Through $PAGER or less on a terminal, plain into a pipe or where no pager works. */
async function showPage(text: string): Promise<void> {
  const pager = process.env['PAGER'] ?? 'less -FRX';
  if (!process.stdout.isTTY || pager === '') {
    printData(text);
    return;
  }
  // Ctrl-C belongs to the pager.
  process.on('SIGINT', () => {});
  const child = spawn('sh', ['-c', pager], { stdio: ['pipe', 'inherit', 'inherit'] });
  child.stdin.on('error', () => {}); // the reader left before the end
  child.stdin.end(text);
  const [code] = (await once(child, 'close')) as [number | null];
  // sh: not executable, not found
  if (code === 126 || code === 127) printData(text);
}
