// Runs dq-upkeep in its own process, on a store that the test serves, so that tests can kill it in the middle
// of a mail. This file is both ends: forked, it runs the role; imported, it starts such processes.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Config } from '../../src/config/options.ts';
import { createUpkeep, type UpkeepTimes } from '../../src/upkeep/upkeep.ts';
import { startComposed } from './composed.ts';
import { ownerPaths } from './sqlite-store.ts';

interface Given {
  /** of the store */
  readonly directory: string;
  readonly config: Config;
  readonly times: Partial<UpkeepTimes>;
}

const here = fileURLToPath(import.meta.url);

/** Resolves when it runs; ends with the test. */
export async function startUpkeepProcess(given: Given): Promise<{ kill(): Promise<void> }> {
  const child: ChildProcess = fork(here, ['run'], { execArgv: ['--import', 'tsx'] });
  const ended = once(child, 'exit');
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  onTestFinished(kill);
  child.send(given);
  const [word] = (await Promise.race([once(child, 'message'), ended])) as [unknown];
  if (word !== 'running') throw new Error(`upkeep did not start: ${String(word)}`);
  return { kill };
}

async function run({ directory, config, times }: Given): Promise<void> {
  const { socketPath } = ownerPaths(directory);
  await startComposed({ role: 'upkeep', config, socketPath }, { create: (ctx) => createUpkeep(ctx, times) });
  process.send?.('running');
  // The test that started this process has died.
  process.on('disconnect', () => process.exit(0));
}

if (process.argv[1] === here && process.argv[2] === 'run')
  process.once('message', (given) => void run(given as Given));
