// dq stop, dq restart, dq reload: ask the master through its control socket, and wait for the result.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { options } from '../../config/options.ts';
import { jobStates } from '../../core/job.ts';
import type { Answered } from '../../master/control/control-client.ts';
import { readRunRecord } from '../../master/data/run-record.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { clientOf, type WarnsOfFile, warnOfOtherFile, withDataDirectory } from '../daemon/daemon-options.ts';
import { askDaemon, type DaemonFlags, dataDirOf } from '../daemon/find-daemon.ts';
import { countJobs } from '../daemon/read-pages.ts';
import { untilReady } from '../daemon/readiness.ts';
import { Exit, exitCodes } from '../exit.ts';
import { durationOf } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { say } from '../output/output.ts';

interface StopFlags extends DaemonFlags {
  readonly timeout?: string;
}

/** After the callbacks: servers, counters and the last commits of the store. */
const restMs = 60_000;
/** for the end of a daemon */
export const endWaitMs = (options.shutdownTimeout.max ?? 0) + restMs;

export function register(program: Command): void {
  const add = (name: string, description: string, warns?: WarnsOfFile): Command =>
    withDataDirectory(program.command(name).description(description), undefined, warns);
  add('stop', 'stop the daemon; running callbacks finish, other jobs are released')
    .option('--timeout <duration>', 'time for callbacks to finish; default: shutdownTimeout')
    .action(stop);
  // Their master names the file that it would read now.
  add('reload', 'load changed configuration and code without a pause', 'itself').action(reload);
  add('restart', 'end the daemon and start it again with the same arguments', 'itself').action(restart);
}

/** Waits until the data directory is free. */
async function stop(flags: StopFlags): Promise<void> {
  const timeoutMs = flags.timeout === undefined ? undefined : durationOf('--timeout', flags.timeout);
  const answered = await askDaemon(
    flags,
    timeoutMs === undefined ? { cmd: 'stop' } : { cmd: 'stop', timeoutMs },
    (timeoutMs ?? options.shutdownTimeout.max ?? 0) + restMs,
  );
  checkEnd(answered, exitCodes.ok);
  say('dq: stopped');
}

/** A daemon in the background starts again with its first arguments; a supervisor starts one in the
 *  foreground. */
async function restart(flags: DaemonFlags): Promise<void> {
  const old = dataDirOf(flags, process.env);
  const jobs = await jobsOn(old);
  let dataDir = old;
  const answered = await askDaemon(flags, { cmd: 'restart' }, endWaitMs, (answer) => {
    if ('file' in answer) warnOfOtherFile(flags, answer.file);
    if (!('dataDir' in answer)) return;
    dataDir = answer.dataDir;
    sayMoved(old, dataDir, jobs);
  });
  const refused = answered.answers.find((answer) => 'refused' in answer)?.refused;
  if (refused !== undefined)
    throw new Exit('failed', `the restart was rejected, the daemon still runs: ${refused}`);
  const notReady = await awaitNext(dataDir, answered);
  if (notReady !== null) throw notReady;
}

/** Waits for the daemon that follows one which has ended to start again. Returns why it is not ready. */
export async function awaitNext(dataDir: string, answered: Answered): Promise<Exit | null> {
  checkEnd(answered, exitCodes.ok, exitCodes.startAgain);
  const isInBackground = answered.exit === exitCodes.ok;
  say(
    `dq: the daemon has ended; waiting ${isInBackground ? 'for the next one' : 'until its supervisor starts it'}`,
  );
  const end = monotonicNow() + cliLimits.restartWaitMs;
  for (;;) {
    const record = readRunRecord(dataDir);
    if (record !== null && record.startedAt !== answered.master.startedAt) {
      say(`dq: restarted: version ${record.version} (pid ${record.pid}) on ${record.url}`);
      return untilReady(record.url, dataDir);
    }
    if (monotonicNow() > end) break;
    await sleep(cliLimits.workPollMs);
  }
  const where = isInBackground
    ? 'dq-output.log in its log directory has the reason'
    : 'its supervisor must start one; without a supervisor run dq start';
  throw new Exit(
    'failed',
    `no daemon is ready on ${dataDir} after ${cliLimits.restartWaitMs / 1_000} s; ${where}`,
  );
}

/** Stored jobs; null: unknown. */
async function jobsOn(dataDir: string): Promise<number | null> {
  try {
    return await countJobs(clientOf({ dataDir }), undefined, jobStates);
  } catch (error) {
    if (error instanceof Exit) return null;
    throw error;
  }
}

/** Before the next daemon makes its files. */
function sayMoved(old: string, next: string, jobs: number | null): void {
  if (existsSync(join(next, 'registry.db'))) {
    say(`dq: dataDir is now ${next}; before, it was ${old}`);
    return;
  }
  const kept = existsSync(join(old, 'jobs.db')) ? `${jobs ?? 'its'} jobs and its topics` : 'its topics';
  say(
    `dq: warning: dataDir is now ${next}, which is empty; ${old} keeps ${kept}, and dq calls none of them. To go on with them: dq stop, move the directory, dq start`,
  );
}

function checkEnd({ exit }: Answered, ...expected: readonly number[]): void {
  if (exit === null) throw new Exit('failed', 'the daemon ended before it had finished');
  if (!expected.includes(exit)) throw new Exit('failed', `the daemon ended with code ${exit}`);
}

/** Loads the configuration and the code on the disk, and prints the messages of the daemon. */
async function reload(flags: DaemonFlags): Promise<void> {
  let rejection: string | null = null;
  const answered = await askDaemon(flags, { cmd: 'reload' }, cliLimits.reloadAnswerMs, (answer) => {
    if ('message' in answer) say(`dq: ${answer.message}`);
    else if ('file' in answer) warnOfOtherFile(flags, answer.file);
    else if ('refused' in answer) rejection = answer.refused;
  });
  if (rejection !== null)
    throw new Exit('failed', `the reload was rejected, nothing has changed: ${rejection}`);
  if (answered.exit === exitCodes.partlyFailed)
    throw new Exit('partlyFailed', 'the reload is not complete yet');
  if (answered.exit !== exitCodes.ok) throw new Exit('failed', 'the daemon ended during the reload');
}
