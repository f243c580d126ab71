// Starts a daemon in the background (dq start -d), and starts a daemon again with the arguments, environment
// and directory of its first start (dq restart). In the background the daemon starts its successor as its
// last act. In the foreground it ends with an exit code that asks its supervisor for a start: systemd or a
// container would not know a successor, and a Node process cannot replace itself.
// Invariant: the daemon ends only after the start checks of the code on the disk have passed
// (start-checks.ts).

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/options.ts';
import { messageOf } from '../../core/errors.ts';
import type { Listening, Restarting } from '../../master/main.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { outputName } from '../../telemetry/log-file.ts';
import { untilReady } from '../daemon/readiness.ts';
import { Exit, exitCodes } from '../exit.ts';
import { cliLimits } from '../limits.ts';

export function startAgain(start: {
  readonly inBackground: boolean;
  readonly cwd: string;
  readonly logDir: string;
}): Restarting {
  const { inBackground, cwd, logDir } = start;
  const command = [...process.execArgv, ...process.argv.slice(1)];
  return {
    whyNever() {
      const isAtTerminal = !inBackground && (process.stdin.isTTY || process.stdout.isTTY);
      return isAtTerminal ? 'it runs in the foreground of a terminal: stop it and start it there' : null;
    },
    async whyNot(listening) {
      return this.whyNever() ?? whyStartFails([...command, '--check'], cwd, listening);
    },
    begin() {
      if (!inBackground) return exitCodes.startAgain;
      const output = openOutput(logDir);
      spawn(process.execPath, command, { cwd, detached: true, stdio: ['ignore', output, output] }).unref();
      return exitCodes.ok;
    },
  };
}

/** The ports of the running daemon in JSON, for the check. Not an argument: users do not set it. Without the
 *  prefix DQ_, which options have. */
const listeningVariable = 'RUNNING_DQ_LISTENS';

/** null = not known. */
export function listeningDaemon(env: Readonly<Record<string, string | undefined>>): Listening | null {
  return JSON.parse(env[listeningVariable] ?? 'null') as Listening | null;
}

/** Reason for which a start would end; null = none. */
async function whyStartFails(
  command: readonly string[],
  cwd: string,
  listening: Listening | null,
): Promise<string | null> {
  const child = spawn(process.execPath, command, {
    cwd,
    env: { ...process.env, [listeningVariable]: JSON.stringify(listening) },
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: cliLimits.startCheckMs,
    killSignal: 'SIGKILL',
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (code === exitCodes.ok) return null;
    if (signal === 'SIGKILL') return `the start check did not end within ${cliLimits.startCheckMs / 1_000} s`;
    return stderr.trim().replace(/^dq: /, '') || `a start would end with ${code ?? 'a signal'}`;
  } catch (error) {
    return `cannot run the start check: ${messageOf(error)}`;
  }
}

type FromDaemon =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'failed'; readonly message: string }
  /** its processes are up */
  | { readonly kind: 'up'; readonly url: string };

/** Called in the daemon: sends to the waiting command, if there is one. */
export function sendToParent(message: FromDaemon): void {
  // The callback receives the error when the parent has ended.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

/** Starts the daemon in a session of its own. It sends its lines over a channel until its processes are up;
 *  later output goes to a file of the log directory. Resolves when it is ready; rejects with the reason, and
 *  with the exit code of a daemon that ended. One that is not ready keeps running. */
export async function detach({ dataDir, logDir }: Pick<Config, 'dataDir' | 'logDir'>): Promise<void> {
  const from = monotonicNow();
  const output = openOutput(logDir);
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1), '--in-background'], {
    detached: true,
    stdio: ['ignore', output, output, 'ipc'],
  });
  closeSync(output);
  const notReady = await new Promise<Exit | null>((resolve, reject) => {
    let reason = 'the daemon ended before it was ready';
    child.on('message', (message: FromDaemon) => {
      if (message.kind === 'line') process.stdout.write(`${message.line}\n`);
      else if (message.kind === 'failed') reason = message.message;
      else if (message.kind === 'up') untilReady(message.url, dataDir).then(resolve, reject);
    });
    child.on('error', (error) => reject(new Exit('failed', messageOf(error), { cause: error })));
    // Not on 'exit': messages may still be in the channel.
    child.on('close', (code) => {
      const name = Object.entries(exitCodes).find(([, value]) => value === code && value !== 0)?.[0];
      reject(new Exit((name ?? 'failed') as keyof typeof exitCodes, reason));
    });
  });
  child.disconnect();
  child.unref();
  if (notReady !== null) throw notReady;
  process.stdout.write(`ready in ${Math.round(monotonicNow() - from)} ms\n`);
}

/** The file for output of a runtime crash, usually empty. Opened for append, so that the Janitor can truncate
 *  it. */
function openOutput(logDir: string): number {
  const path = join(logDir, outputName);
  try {
    return openSync(path, 'a', 0o640);
  } catch (error) {
    throw new Exit('failed', `cannot write ${path}: ${messageOf(error)}`, { cause: error });
  }
}
