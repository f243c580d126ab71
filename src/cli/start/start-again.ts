// How a daemon is started once more with the arguments, the environment and the directory of its start. In the background it
// starts its successor itself, as its last act; in the foreground it belongs to whoever supervises it, and ends with a code
// that asks to be started again: a successor of its own would be a stranger to systemd or a container, and a Node process
// cannot replace itself by another one. Invariant: the daemon ends only after the start checks have passed. The code
// on the disk runs them (start-checks.ts).

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { reasonOf } from '../../core/errors.ts';
import type { Listening, Restarting } from '../../master/main.ts';
import { exitCodes } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { openOutput } from './detach.ts';

export function startAgain(start: {
  readonly inBackground: boolean;
  readonly cwd: string;
  readonly logDir: string;
}): Restarting {
  const { inBackground, cwd, logDir } = start;
  const command = [...process.execArgv, ...process.argv.slice(1)];
  return {
    async whyNot(listening) {
      if (!inBackground && (process.stdin.isTTY || process.stdout.isTTY))
        return 'it runs in the foreground of a terminal: end it and start it there';
      return checkedBy([...command, '--check'], cwd, listening);
    },
    begin() {
      if (!inBackground) return exitCodes.startAgain;
      const output = openOutput(logDir);
      spawn(process.execPath, command, { cwd, detached: true, stdio: ['ignore', output, output] }).unref();
      return exitCodes.ok;
    },
  };
}

/** `host port` of the running daemon, for the check. Not an argument: the code on the disk may be older, and would reject it.
 *  Not called DQ_…: an option would be. */
const listeningVariable = 'RUNNING_DQ_LISTENS_ON';

/** null = not said, by a master of an earlier version. */
export function listeningDaemon(env: Readonly<Record<string, string | undefined>>): Listening | null {
  const [, host, port] = /^(\S+) (\d+)$/.exec(env[listeningVariable] ?? '') ?? [];
  return host === undefined ? null : { host, port: Number(port) };
}

/** What a start would say against it; null = nothing. */
async function checkedBy(
  command: readonly string[],
  cwd: string,
  listening: Listening | null,
): Promise<string | null> {
  const { [listeningVariable]: _, ...env } = process.env;
  const child = spawn(process.execPath, command, {
    cwd,
    env: {
      ...env,
      ...(listening === null ? {} : { [listeningVariable]: `${listening.host} ${listening.port}` }),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: cliLimits.startCheckMs,
    killSignal: 'SIGKILL',
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (code === exitCodes.ok) return null;
    if (signal === 'SIGKILL')
      return `the check of a start did not end within ${cliLimits.startCheckMs / 1_000} s`;
    return said.trim().replace(/^dq: /, '') || `a start would end with ${code ?? 'a signal'}`;
  } catch (error) {
    return `a start cannot be tried: ${reasonOf(error)}`;
  }
}
