// The entry of bin/dq: loads the module of one command, runs it, turns each failure into a message and an
// exit code. Knows no command.

import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { CommanderError } from 'commander';
import { reasonOf } from '../core/errors.ts';
import { commands, describing } from './commands.ts';
import { Exit, exitCodes } from './exit.ts';
import { cliLimits } from './limits.ts';
import { buildProgram } from './program.ts';

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

/** `dq ls | head -1` closes the output early: the command ends with the exit code it has set for an
 *  unfinished end. `dq start` goes on: a daemon does not depend on its terminal. */
function endWithOutput(commandName: string | undefined): void {
  const onError = (error: NodeJS.ErrnoException): void => {
    if (commandName === 'start') return;
    if (error.code !== 'EPIPE') process.exit(exitCodes.failed);
    if (process.exitCode !== undefined)
      process.stderr.write('dq: the output was closed; work is incomplete\n');
    process.exit();
  };
  process.stdout.on('error', onError);
  process.stderr.on('error', onError);
}

async function main(): Promise<void> {
  // Node's own HTTP client gives each address of a name but the last 250 ms: see runtime/dial.ts.
  setDefaultAutoSelectFamilyAttemptTimeout(cliLimits.addressMs);
  const commandName = process.argv[2];
  endWithOutput(commandName);
  try {
    const isCommand = commandName !== undefined && Object.hasOwn(commands, commandName);
    // --help, synonyms and the suggestion after a misspelt name need all commands too.
    const program = await buildProgram(isCommand && !describing.includes(commandName) ? commandName : null);
    await program.parseAsync();
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

// No await: the bundle is CommonJS.
void main();
