// dq restart: ends the daemon, master included, and waits for the next one. A daemon in the background starts
// again with its first arguments; its supervisor starts one in the foreground.

import type { Command } from 'commander';
import { options } from '../../config/options.ts';
import { readRunRecord } from '../../master/data/run-record.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { askDaemon } from '../daemon/ask-daemon.ts';
import type { DaemonFlags } from '../daemon/find-daemon.ts';
import { dataDirOf } from '../daemon/find-daemon.ts';
import { Exit, exitCodes } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { say } from '../output/output.ts';

/** After the callbacks: servers, counters and the last commits of the store. */
const restMs = 60_000;

export function register(program: Command): void {
  program
    .command('restart')
    .description('end the daemon and start it again with the same arguments')
    .option('--data-dir <dir>', 'data directory of the daemon (DQ_DATA_DIR)')
    .option('-c, --config <file>', 'configuration that names the data directory')
    .action(restart);
}

async function restart(flags: DaemonFlags): Promise<void> {
  const dataDir = dataDirOf(flags, process.env);
  const waitMs = (options.shutdownTimeout.max ?? 0) + restMs;
  const answered = await askDaemon(dataDir, { cmd: 'restart' }, waitMs);
  const refused = answered.answers.find((answer) => 'refused' in answer)?.refused;
  if (refused !== undefined)
    throw new Exit('failed', `the restart was rejected, the daemon still runs: ${refused}`);
  if (answered.exit === null) throw new Exit('failed', 'the daemon ended before it had finished');
  if (answered.exit !== exitCodes.ok && answered.exit !== exitCodes.startAgain)
    throw new Exit('failed', `the daemon ended with code ${answered.exit}`);
  say('dq: the daemon has ended; waiting for the next one');
  const end = monotonicNow() + cliLimits.restartWaitMs;
  for (;;) {
    const record = readRunRecord(dataDir);
    if (record !== null && record.startedAt !== answered.master.startedAt) {
      say(`dq: restarted: version ${record.version} (pid ${record.pid}) on ${record.url}`);
      return;
    }
    if (monotonicNow() > end) break;
    await sleep(cliLimits.workPollMs);
  }
  const where =
    answered.exit === exitCodes.ok
      ? 'dq-output.log in its log directory has the reason'
      : 'its supervisor must start one';
  throw new Exit(
    'failed',
    `no daemon is ready on ${dataDir} after ${cliLimits.restartWaitMs / 1_000} s; ${where}`,
  );
}
