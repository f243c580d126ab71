// dq help: shows the help of a command, or a page of the manual (src/manual, which every package carries).
// dq version: which dq this is; `dq --version` prints the number alone. dq completion: prints the script with
// which a shell completes commands and options; derives it from the commander program, so that the two always
// agree.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Argument, type Command } from 'commander';
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
  program
    .command('completion')
    .description('print the completion script of a shell')
    .addArgument(new Argument('<shell>').choices(Object.keys(shells)))
    .addHelpText(
      'after',
      `
Examples:
  eval "$(dq completion bash)"                                     this session of bash
  dq completion bash > /etc/bash_completion.d/dq                   every session
  dq completion zsh > "\${fpath[1]}/_dq"                            zsh
  dq completion fish > ~/.config/fish/completions/dq.fish          fish`,
    )
    .action((shell: string) => printData(shells[shell]?.(wordsOf(program)) ?? ''));
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

/** `dq topic` → the words that may follow: subcommands, then options, with a blank between two. */
type Words = ReadonlyMap<string, string>;

const shells: Readonly<Record<string, (words: Words) => string>> = { bash, zsh, fish };

function wordsOf(program: Command): Words {
  const words = new Map<string, string>();
  const visit = (command: Command, path: string): void => {
    const help = command.createHelp();
    const children = help.visibleCommands(command);
    const options = help.visibleOptions(command).flatMap(({ long, short }) => long ?? short ?? []);
    words.set(path, [...children.flatMap(namesOf), ...options].join(' '));
    for (const child of children) for (const name of namesOf(child)) visit(child, `${path} ${name}`);
  };
  visit(program, 'dq');
  return words;
}

function namesOf(command: Command): readonly string[] {
  return [command.name(), ...command.aliases()];
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** One `case` pattern with every path of a command, without dq itself: what the word walk may step to. */
const stepsOf = (words: Words) => [...words.keys()].filter((path) => path !== 'dq').map(quoted);

/** The blank in front makes ` -*` match the first option of every list. */
const branchesOf = (words: Words) =>
  [...words].map(([path, list]) => `    ${quoted(path)}) list=${quoted(` ${list}`)} ;;`).join('\n');

/** Offers options when the word begins with a dash. */
function bash(words: Words): string {
  return `# bash completion of dq
_dq() {
  local cur=\${COMP_WORDS[COMP_CWORD]} at=dq list= word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in
      ${stepsOf(words).join(' | ')}) at="$at $word" ;;
    esac
  done
  case $at in
${branchesOf(words)}
  esac
  [[ $cur == -* ]] || list=\${list%% -*}
  COMPREPLY=($(compgen -W "$list" -- "$cur"))
}
complete -o default -F _dq dq
`;
}

function zsh(words: Words): string {
  return `#compdef dq
_dq() {
  local at=dq list= word
  for word in \${words[2,CURRENT-1]}; do
    case "$at $word" in
      ${stepsOf(words).join(' | ')}) at="$at $word" ;;
    esac
  done
  case $at in
${branchesOf(words)}
  esac
  [[ \${words[CURRENT]} == -* ]] || list=\${list%% -*}
  compadd -- \${=list} || _files
}
if [[ $funcstack[1] == _dq ]]; then _dq "$@"; else compdef _dq dq; fi
`;
}

function fish(words: Words): string {
  return `# fish completion of dq
function __dq_words
  set -l at dq
  set -l given (commandline -opc)
  set -e given[1]
  for word in $given
    switch "$at $word"
      case ${stepsOf(words).join(' ')}
        set at "$at $word"
    end
  end
  switch "$at"
${[...words].map(([path, list]) => `    case ${quoted(path)}\n      string split ' ' -- ${quoted(list)}`).join('\n')}
  end
end
complete -c dq -a '(__dq_words)'
`;
}
