// The entry of bin/dq: finds the command, loads its module alone, turns every end into an exit code. Knows no command.

import { Command, CommanderError } from 'commander';
import { reasonOf } from '../core/errors.ts';
import { version } from '../core/version.ts';
import { commands } from './commands.ts';
import { Exit, exitCodes } from './exit.ts';

async function buildProgram(asked: string | undefined): Promise<Command> {
  const program = new Command('dq')
    .description('A delay queue daemon: takes a job over HTTP, waits until it is due, calls its callback')
    .version(version, '-V, --version')
    .exitOverride()
    .showHelpAfterError('(dq --help, dq COMMAND --help)')
    .showSuggestionAfterError()
    .enablePositionalOptions();
  const one = asked !== undefined && Object.hasOwn(commands, asked) ? commands[asked] : undefined;
  // Help, and the suggestion after a misspelt name, need them all.
  const loaders = one === undefined ? Object.values(commands) : [one];
  for (const module of await Promise.all(loaders.map((load) => load()))) module.register(program);
  for (const command of program.commands) inheritSettings(command, program);
  return program;
}

/** Commander copies settings at the moment a command is made; modules may build theirs apart. */
function inheritSettings(command: Command, parent: Command): void {
  command.copyInheritedSettings(parent);
  for (const child of command.commands) inheritSettings(child, command);
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has printed its message already. Help and version, when asked for, are no errors.
    return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  }
  if (error instanceof Exit) {
    process.stderr.write(`dq: ${reasonOf(error)}\n`);
    return error.exitCode;
  }
  // A file, a directory, a socket: the system's reason says all that its user can act on.
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (error instanceof Error && syscall !== undefined) {
    const remedy =
      code === 'EACCES' || code === 'EPERM' ? '; run this as the user of the daemon or as root' : '';
    process.stderr.write(`dq: ${reasonOf(error)}${remedy}\n`);
    return exitCodes.failed;
  }
  process.stderr.write(`dq: ${error instanceof Error ? error.stack : String(error)}\n`);
  return exitCodes.failed;
}

/** `dq ls | head -1` closes our output early: that ends a command, quietly, with the code it has set for an end halfway. A daemon
 *  does not live by its terminal. */
function endWithOutput(asked: string | undefined): void {
  const onError = (error: NodeJS.ErrnoException): void => {
    if (asked === 'start') return;
    if (error.code !== 'EPIPE') process.exit(exitCodes.failed);
    if (process.exitCode !== undefined)
      process.stderr.write('dq: nobody reads the output any more; not all was done\n');
    process.exit();
  };
  process.stdout.on('error', onError);
  process.stderr.on('error', onError);
}

const asked = process.argv[2];
endWithOutput(asked);
try {
  const program = await buildProgram(asked);
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
