// dq stop: stops the daemon and waits until the data directory is free.

import type { Command } from 'commander';
import { options } from '../../config/options.ts';
import { parseDuration } from '../../core/duration.ts';
import { askDaemon } from '../daemon/ask-daemon.ts';
import type { DaemonFlags } from '../daemon/find-daemon.ts';
import { dataDirOf } from '../daemon/find-daemon.ts';
import { Exit, exitCodes } from '../exit.ts';
import { say } from '../output/output.ts';

interface StopFlags extends DaemonFlags {
  readonly timeout?: string;
}

/** After the callbacks: servers, counters and the last commits of the store. */
const restMs = 60_000;

export function register(program: Command): void {
  program
    .command('stop')
    .description('stop the daemon; running callbacks finish, other jobs are released')
    .option('--data-dir <dir>', 'data directory of the daemon (DQ_DATA_DIR)')
    .option('-c, --config <file>', 'configuration that names the data directory')
    .option('--timeout <duration>', 'time for callbacks to finish; default: shutdownTimeout')
    .action(stop);
}

async function stop(flags: StopFlags): Promise<void> {
  const timeoutMs = timeoutOf(flags.timeout);
  const dataDir = dataDirOf(flags, process.env);
  const answered = await askDaemon(
    dataDir,
    timeoutMs === undefined ? { cmd: 'stop' } : { cmd: 'stop', timeoutMs },
    (timeoutMs ?? options.shutdownTimeout.max ?? 0) + restMs,
  );
  if (answered.exit === null) throw new Exit('failed', 'the daemon ended before it had finished');
  if (answered.exit !== exitCodes.ok) throw new Exit('failed', `the daemon ended with code ${answered.exit}`);
  say('dq: stopped');
}

function timeoutOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parsed = parseDuration(text);
  if (!parsed.ok) throw new Exit('usage', `--timeout: ${parsed.message}`);
  return parsed.value;
}
