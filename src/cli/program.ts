// Builds the commander program from the list of commands, all of it or the one command that is needed, and
// runs it. Turns each failure into a message and an exit code.

import { type Command, CommanderError } from 'commander';
import { messageOf } from '../core/errors.ts';
import { version } from '../core/version.ts';
import { commandGroups, commands, describing } from './commands.ts';
import { completeDaemonCommand } from './daemon/daemon-options.ts';
import { DqCommand } from './dq-command.ts';
import { Exit, exitCodes } from './exit.ts';

const examples = `
Examples:
  dq start                                       run the daemon in this terminal
  dq sink                                        receive callbacks on port 9000
  dq topic add order.close --callback http://127.0.0.1:9000/close --delay 30m
  dq push order.close '{"order":4711}'           push a job; its callback comes in 30 minutes
  dq help getting-started                        read the manual`;

/** `only`: the name of one command; null = all of them. */
export async function buildProgram(only: string | null): Promise<Command> {
  const program = new DqCommand('dq')
    .description('A delay queue daemon: takes a job over HTTP, waits until it is due, calls its callback')
    .version(version, '-V, --version')
    .exitOverride()
    .helpCommand(false)
    .addHelpText('after', examples)
    .showSuggestionAfterError(false)
    .enablePositionalOptions();
  for (const [group, members] of Object.entries(commandGroups)) {
    const needed = Object.entries(members).filter(([name]) => only === null || name === only);
    program.commandsGroup(group);
    // A module of several commands counts once, by its loader: a bundle makes an object at each import.
    const loads = new Set(needed.map(([, load]) => load));
    for (const module of await Promise.all(Array.from(loads, (load) => load()))) module.register(program);
  }
  for (const command of program.commands) complete(command, program);
  return program;
}

/** In every family: `dq topic show` is `dq topic get`. */
const synonyms: Readonly<Record<string, string>> = { ls: 'list', get: 'show', add: 'create', rm: 'delete' };

/** Adds the synonym, the options of calls, and the settings that commander copied from the parent before they
 *  were complete. */
function complete(command: Command, parent: Command): void {
  completeDaemonCommand(command);
  const synonym = synonyms[command.name()];
  if (synonym !== undefined) command.alias(synonym);
  command.copyInheritedSettings(parent);
  for (const child of command.commands) complete(child, command);
}

/** Sets process.exitCode unless the command succeeds: a process that ends later ends with it. */
export async function runCommand(words: readonly string[]): Promise<void> {
  const [name] = words;
  try {
    const isCommand = name !== undefined && Object.hasOwn(commands, name);
    // --help, synonyms and the suggestion after an unknown name need all commands too.
    const program = await buildProgram(isCommand && !describing.includes(name) ? name : null);
    await program.parseAsync(words, { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has printed its message. Help and version on request are successes.
    return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  }
  if (error instanceof Exit) {
    // Without its cause: its message is for people, and complete.
    process.stderr.write(`dq: ${error.message}\n`);
    return error.exitCode;
  }
  // A file, a directory, a socket: the system's reason is all that the user needs.
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (error instanceof Error && syscall !== undefined) {
    const remedy =
      code === 'EACCES' || code === 'EPERM' ? '; run this as the user of the daemon or as root' : '';
    process.stderr.write(`dq: ${messageOf(error)}${remedy}\n`);
    return exitCodes.failed;
  }
  process.stderr.write(`dq: ${error instanceof Error ? error.stack : String(error)}\n`);
  return exitCodes.failed;
}
