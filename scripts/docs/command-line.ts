// Renders the reference page of all commands.
import type { Command, Option } from 'commander';
import { pathOf } from '../../src/cli/dq-command.ts';
import { buildProgram } from '../../src/cli/program.ts';
import { code, plain, table } from './markdown.ts';

/** Every command with its options, from the declarations of src/cli/commands. */
export async function commandLinePage(): Promise<string> {
  const program = await buildProgram(null);
  const leaves = program.commands.flatMap(leavesOf);
  const shared = sharedOptions(leaves);
  return `# Command line

\`dq --help\` lists the commands, and \`dq COMMAND --help\` shows one. [Errors](errors.md#exit-codes) lists the exit
codes. Commands print data on stdout and messages on stderr. Times are local, with their offset, on a terminal, and
UTC in a pipe and with \`--json\`. \`list\`, \`show\`, \`create\` and
\`delete\` are synonyms of \`ls\`, \`get\`, \`add\` and \`rm\`.

## Options of commands that call a daemon

A flag wins over the environment. Without both, the command finds the daemon through the data directory of the
configuration file, or through \`./data\`.

${optionTable(shared)}
${leaves.map((leaf) => commandText(leaf, shared)).join('\n')}
See also: [Configuration](configuration.md) · [Errors](errors.md) · [HTTP API](http.md)
`;
}

function leavesOf(command: Command): readonly Command[] {
  if (command.commands.length === 0) return [command];
  // A family that calls the daemon by itself, such as dq console.
  const own = command.options.some(({ long }) => long === '--url') ? [command] : [];
  return [...own, ...command.commands.flatMap(leavesOf)];
}

/** The options that \`dq ls\` shares with \`dq get\`: those of the client. */
function sharedOptions(leaves: readonly Command[]): readonly Option[] {
  const of = (name: string) => leaves.find((leaf) => pathOf(leaf) === name)?.options ?? [];
  const others = new Set(of('dq get').map(({ flags }) => flags));
  return of('dq ls').filter(({ flags }) => others.has(flags));
}

function commandText(command: Command, shared: readonly Option[]): string {
  const isShared = ({ flags, description }: Option) =>
    shared.some((one) => one.flags === flags && one.description === description);
  const callsDaemon = shared.every(({ flags }) => command.options.some((option) => option.flags === flags));
  const own = command.options.filter((option) => !option.hidden && !(callsDaemon && isShared(option)));
  const usage = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '…' : ''}`.toUpperCase();
    return argument.required ? name : `[${name}]`;
  });
  const args = command.registeredArguments.filter(({ description }) => description !== '');
  return [
    `## ${pathOf(command)}\n`,
    `${code([pathOf(command), ...usage].join(' '))}: ${plain(command.description())}.${callsDaemon ? ' Calls a daemon.' : ''}\n`,
    ...(args.length === 0
      ? []
      : [
          table(
            ['argument', ''],
            args.map((argument) => [code(argument.name().toUpperCase()), plain(argument.description)]),
          ),
        ]),
    ...(own.length === 0 ? [] : [optionTable(own)]),
  ].join('\n');
}

/** One table of all; where options have groups, the name of the group heads its own. */
function optionTable(options: readonly Option[]): string {
  const headingOf = ({ helpGroupHeading = 'Option:' }: Option) => helpGroupHeading;
  return [...new Set(options.map(headingOf))]
    .map((heading) => {
      const own = options.filter((option) => headingOf(option) === heading);
      const rows = own.map(({ flags, description }) => [code(flags), plain(description)]);
      return table([heading.slice(0, -1).toLowerCase(), ''], rows);
    })
    .join('\n');
}
