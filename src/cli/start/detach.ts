// dq start -d: the daemon as a process of its own session, and the command that waits for it to be ready. The two talk over
// a channel that ends with the waiting; what the daemon prints afterwards goes to a file of the log directory.

import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '../../core/errors.ts';
import { outputName } from '../../telemetry/old-logs.ts';
import { Exit, exitCodes } from '../exit.ts';

type FromDaemon =
  | { readonly kind: 'said'; readonly line: string }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'ready' };

/** In the daemon: to the command that waits, if there is one. */
export function tellParent(message: FromDaemon): void {
  // The callback takes the error of a parent that did not wait.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

/** Resolves when the daemon is ready; rejects with its reason and its exit code. */
export async function detach(logDir: string): Promise<void> {
  const output = openOutput(logDir);
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1), '--in-background'], {
    detached: true,
    stdio: ['ignore', output, output, 'ipc'],
  });
  closeSync(output);
  await new Promise<void>((resolve, reject) => {
    let reason = 'the daemon ended before it was ready';
    child.on('message', (message: FromDaemon) => {
      if (message.kind === 'said') process.stdout.write(`${message.line}\n`);
      else if (message.kind === 'failed') reason = message.message;
      else if (message.kind === 'ready') resolve();
    });
    child.on('error', (error) => reject(new Exit('failed', reasonOf(error), { cause: error })));
    // Not on 'exit': its last words may still be in the channel.
    child.on('close', (code) => {
      const name = Object.entries(exitCodes).find(([, value]) => value === code && value !== 0)?.[0];
      reject(new Exit((name ?? 'failed') as keyof typeof exitCodes, reason));
    });
  });
  child.disconnect();
  child.unref();
}

/** Where a crash of the runtime leaves its trace; empty as a rule. Appended to, so that the Janitor can cut it back in place. */
export function openOutput(logDir: string): number {
  const path = join(logDir, outputName);
  try {
    return openSync(path, 'a', 0o640);
  } catch (error) {
    throw new Exit('failed', `${path} cannot be written: ${reasonOf(error)}`, { cause: error });
  }
}
