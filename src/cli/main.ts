// The entry of bin/dq: runs one command with the words of the process. Knows no command.

import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { exitCodes } from './exit.ts';
import { cliLimits } from './limits.ts';
import { runCommand } from './program.ts';

/** `dq ls | head -1` closes the output early: the command ends with the exit code it has set for an
 *  unfinished end. `dq start` continues: a daemon does not depend on its terminal. */
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

// Node's own HTTP client gives each address of a name but the last 250 ms: see runtime/dial.ts.
setDefaultAutoSelectFamilyAttemptTimeout(cliLimits.addressMs);
const words = process.argv.slice(2);
endWithOutput(words[0]);
// No await: the bundle is CommonJS.
void runCommand(words);
