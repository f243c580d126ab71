// dq start -d: starts the daemon in a session of its own and waits until it is ready. The daemon sends its
// lines over a channel until then; later output goes to a file of the log directory.

import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '../../core/errors.ts';
import { outputName } from '../../telemetry/old-logs.ts';
import { Exit, exitCodes } from '../exit.ts';

type FromDaemon =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'ready' };

/** Called in the daemon: sends to the waiting command, if there is one. */
export function sendToParent(message: FromDaemon): void {
  // The callback receives the error when the parent has ended.
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
      if (message.kind === 'line') process.stdout.write(`${message.line}\n`);
      else if (message.kind === 'failed') reason = message.message;
      else if (message.kind === 'ready') resolve();
    });
    child.on('error', (error) => reject(new Exit('failed', reasonOf(error), { cause: error })));
    // Not on 'exit': messages may still be in the channel.
    child.on('close', (code) => {
      const name = Object.entries(exitCodes).find(([, value]) => value === code && value !== 0)?.[0];
      reject(new Exit((name ?? 'failed') as keyof typeof exitCodes, reason));
    });
  });
  child.disconnect();
  child.unref();
}

/** The file for output of a runtime crash, usually empty. Opened for append, so that the Janitor can truncate
 *  it. */
export function openOutput(logDir: string): number {
  const path = join(logDir, outputName);
  try {
    return openSync(path, 'a', 0o640);
  } catch (error) {
    throw new Exit('failed', `cannot write ${path}: ${reasonOf(error)}`, { cause: error });
  }
}
