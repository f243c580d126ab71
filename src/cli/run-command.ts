// Loads the module of one command, runs it, and turns each failure into a message and an exit code. Knows no
// command.

import { CommanderError } from 'commander';
import { reasonOf } from '../core/errors.ts';
import { commands, describing } from './commands.ts';
import { Exit, exitCodes } from './exit.ts';
import { buildProgram } from './program.ts';

/** Sets process.exitCode unless the command succeeds: a process that ends later ends with it. */
export async function runCommand(words: readonly string[]): Promise<void> {
  const [name] = words;
  try {
    const isCommand = name !== undefined && Object.hasOwn(commands, name);
    // --help, synonyms and the suggestion after a misspelt name need all commands too.
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
    process.stderr.write(`dq: ${reasonOf(error)}\n`);
    return error.exitCode;
  }
  // A file, a directory, a socket: the system's reason is all that the user needs.
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
