// dq status: shows the processes as the master sees them; works without the HTTP API, except with --live.
// --watch repeats until Ctrl-C or the end of the daemon.

import { type Command, Option } from 'commander';
import { noDeliveriesText } from '../../config/options.ts';
import type { SummaryJson } from '../../contract/api/stats.ts';
import type { MoveJson } from '../../contract/api/store.ts';
import { formatDuration } from '../../core/duration.ts';
import { compatLines, type DaemonStatus } from '../../master/control/control-protocol.ts';
import { sleep, timeoutSignal, wallNow } from '../../runtime/time.ts';
import { clientOf, withDataDirectory } from '../daemon/daemon-options.ts';
import { askDaemon, type DaemonFlags, dataDirOf } from '../daemon/find-daemon.ts';
import { readinessOf } from '../daemon/readiness.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { escapeControls, itemTable, printData, say } from '../output/output.ts';
import { troubleLine } from '../output/topic-words.ts';

interface StatusFlags extends DaemonFlags {
  readonly json?: boolean;
  readonly live?: boolean;
  readonly watch?: boolean;
}

export function register(program: Command): void {
  const command = program
    .command('status')
    .description('show the processes of the daemon (exit 3 when it is not running)')
    .option('--watch', 'repeat every second until Ctrl-C')
    .addOption(
      new Option('--live', 'ask /livez alone, for a health check: exit 0 when the API answers').conflicts([
        'json',
        'watch',
      ]),
    );
  withDataDirectory(command).option('--json', 'one JSON object; with --watch one per line').action(status);
}

async function status(flags: StatusFlags): Promise<void> {
  const dataDir = dataDirOf(flags, process.env);
  if (flags.live) {
    await clientOf({ dataDir }).call({ path: ['livez'], signal: timeoutSignal(cliLimits.readyAskMs) });
    say('live');
  } else if (flags.watch) await watch(flags);
  else {
    const daemon = await ask(flags);
    if (flags.json) printData(JSON.stringify(daemon));
    else {
      for (const line of summaryOf(daemon)) say(line);
      printData(tableOf(daemon));
      const trouble = daemon.notReady === null ? await troubleOf(dataDir) : null;
      for (const line of [trouble, await moveOf(dataDir)]) if (line !== null) say(line);
    }
  }
}

async function watch(flags: StatusFlags): Promise<void> {
  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => ending.abort());
  const redraws = process.stdout.isTTY === true && !flags.json;
  while (!ending.signal.aborted) {
    const daemon = await ask(flags);
    if (flags.json) printData(JSON.stringify(daemon));
    else {
      const lines = [...summaryOf(daemon), ...tableOf(daemon).split('\n'), ''];
      // Rewrites line by line, then clears the rest: clearing the screen first flickers.
      if (redraws)
        process.stdout.write(`\u001b[H${lines.map((line) => `${line}\u001b[K\n`).join('')}\u001b[J`);
      else printData(lines.join('\n'));
    }
    // A signal ends the sleep and the loop.
    await sleep(cliLimits.statusWatchMs, { signal: ending.signal }).catch(() => undefined);
  }
}

/** Which topic needs attention; null: no answer of the API. */
async function troubleOf(dataDir: string): Promise<string | null> {
  try {
    const { json } = await clientOf({ dataDir }).call<SummaryJson>({
      path: ['v1', 'summary'],
      needs: ['attention', 'attentionCount', 'topics', 'at', 'now'],
      signal: timeoutSignal(cliLimits.readyAskMs),
    });
    return escapeControls(troubleLine(json));
  } catch {
    return null;
  }
}

/** How far an open move is; null: none is open, or no answer of the API. */
async function moveOf(dataDir: string): Promise<string | null> {
  try {
    const { json } = await clientOf({ dataDir }).call<MoveJson>({
      path: ['v1', 'move'],
      needs: ['state', 'jobs'],
      signal: timeoutSignal(cliLimits.readyAskMs),
    });
    const { state, jobs, total, problem } = json;
    if (state !== 'moving') return null;
    return `move to Redis: ${jobs} of ${total} jobs are left in jobs.db${problem === null ? '' : `; ${problem}`}`;
  } catch {
    return null;
  }
}

/** The processes, and whether the daemon is ready. */
interface Status extends DaemonStatus {
  /** reason of a failing /readyz, or why no server listens; null = ready, starting or draining */
  readonly notReady: string | null;
  /** of /readyz: dangerous settings, stores that are not in force */
  readonly warnings: readonly string[];
}

/** Throws Exit when no daemon runs. */
async function ask(flags: StatusFlags): Promise<Status> {
  // A master that ends may close its socket before it has read the question. The second question then finds
  // no daemon.
  const found = (await answerOf(flags)) ?? (await answerOf(flags));
  if (found === undefined) throw new Exit('failed', 'the daemon did not answer');
  const { status } = found;
  if (status.state !== 'ready') return { ...status, notReady: null, warnings: [] };
  if (status.url === null) return { ...status, notReady: whyNoServer(status), warnings: [] };
  const { why, warnings } = await readinessOf(status.url, dataDirOf(flags, process.env));
  return { ...status, notReady: why, warnings };
}

/** Of a daemon that was ready: its servers have died, and the master starts them again. */
function whyNoServer({ processes }: DaemonStatus): string {
  const starting = processes.find(({ role, state }) => role === 'server' && state === 'starting');
  const now = starting === undefined ? 'dq-server has died' : `${starting.title} starts again`;
  return `no server listens: ${now}; the error log has the cause`;
}

async function answerOf(flags: StatusFlags) {
  const { answers } = await askDaemon(flags, { cmd: 'status' });
  return answers.find((answer) => 'status' in answer);
}

function summaryOf(daemon: Status): string[] {
  const state = daemon.notReady === null ? daemon.state : 'not ready';
  const lines = [
    `dq ${daemon.version}: ${state}, up ${since(daemon.startedAt)}, ${daemon.url ?? 'no server listens'}, ${daemon.dataDir}`,
  ];
  if (typeof daemon.console === 'string') {
    const runs = daemon.processes.some(({ role }) => role === 'console');
    lines.push(`console ${daemon.console}${runs ? '' : ' (not running: it starts when a browser opens it)'}`);
  }
  lines.push(...compatLines(daemon.compat));
  if (daemon.notReady !== null) lines.push(`not ready: ${daemon.notReady}`);
  if (daemon.durability !== null) lines.push(`durability: ${daemon.durability}`);
  if (daemon.leadership !== null) lines.push(`deliveries: ${daemon.leadership}`);
  if (daemon.noDeliveries) lines.push(`deliveries: ${noDeliveriesText}`);
  lines.push(...daemon.warnings.map((warning) => `warning: ${warning}`), ...memoryOf(daemon));
  return lines.map(escapeControls);
}

function tableOf(daemon: DaemonStatus): string {
  return itemTable(daemon.processes, {
    PROCESS: 'title',
    PID: 'pid',
    STATE: 'state',
    UP: ({ startedAt }) => since(startedAt),
    'CPU %': ({ cpuPercent }) => cpuPercent.toFixed(1),
    'RSS MiB': ({ rssBytes }) => mebibytes(rssBytes),
    'IN FLIGHT': 'inFlight',
    RESTARTS: 'restarts',
    VERSION: 'version',
    'PSS MiB': ({ pssBytes }) => (pssBytes == null ? null : mebibytes(pssBytes)),
  });
}

const mebibytes = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1);

/** Empty where the share of a process is not known: of a system without it, or an older master. */
function memoryOf({ processes }: DaemonStatus): string[] {
  const shares = processes.map(({ pssBytes }) => pssBytes ?? Number.NaN);
  const sum = shares.reduce((all, one) => all + one, 0);
  return Number.isNaN(sum) ? [] : [`memory: ${mebibytes(sum)} MiB (sum of PSS: common pages count once)`];
}

/** A duration in its two largest units. */
function since(at: number): string {
  const text = formatDuration(Math.max(0, Math.floor((wallNow() - at) / 1000)) * 1000);
  return /^(?:\d+[a-z]+){1,2}/.exec(text)?.[0] ?? text;
}
