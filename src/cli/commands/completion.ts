// dq completion: prints the script with which a shell completes commands and options. Derives it from the
// commander program, so that the two always agree.

import { Argument, type Command } from 'commander';
import { printData } from '../output/output.ts';

/** `dq topic` → the words that may follow: subcommands, then options, with a blank between two. */
type Words = ReadonlyMap<string, string>;

const shells: Readonly<Record<string, (words: Words) => string>> = { bash, zsh, fish };

export function register(program: Command): void {
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
