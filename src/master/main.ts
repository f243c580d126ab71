// The master: takes the data directory, starts the workers, listens to signals and to the control socket, and leaves
// everything tidy. It is the process of `dq start`. It does no business: what can hang or crash runs in a worker.

import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import type { Config } from '../config/options.ts';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import type { ProcessInfo } from '../process/messages.ts';
import type { OpenLog } from '../telemetry/open-log.ts';
import { ControlSocket } from './control-socket.ts';
import { DataDirectory } from './data-directory.ts';
import { StartRefused } from './start-refused.ts';
import type { Outcome } from './supervisor.ts';
import { Supervisor } from './supervisor.ts';

export interface MasterOptions {
  readonly config: Config;
  readonly openLog: () => OpenLog;
  readonly workerPath: () => string;
  /** absolute; null = none */
  readonly pidFile: string | null;
  readonly onReady: (facts: { readonly url: string; readonly durability: string | null }) => void;
}

/** Resolves when everything has ended and the data directory is free. Rejects with StartRefused. */
export async function runMaster(options: MasterOptions): Promise<Outcome> {
  // Others of this group may read the logs; sockets, records and the store are in directories of ours alone.
  process.umask(0o027);
  process.title = 'dq-master';
  const signals = holdSignals();
  const data = await DataDirectory.open(options.config.dataDir);
  let pidFileWritten = false;
  try {
    if (options.pidFile !== null) {
      writePidFile(options.pidFile);
      pidFileWritten = true;
    }
    return await superviseOn(data, options, signals);
  } finally {
    if (pidFileWritten && options.pidFile !== null) rmSync(options.pidFile, { force: true });
    data.close();
  }
}

async function superviseOn(
  data: DataDirectory,
  options: MasterOptions,
  signals: SignalHandlers,
): Promise<Outcome> {
  const { config } = options;
  const log = options.openLog();
  const adminToken = `dqk_${randomBytes(32).toString('base64url')}`;
  data.onUnwritten = (error) => log.error('a record of the processes cannot be written', error);
  if (data.leftovers.length > 0)
    log.notice(`ended what a killed master had left: ${data.leftovers.join(', ')}`);

  const supervisor = new Supervisor({
    config,
    log,
    instance: data.instance,
    storeSocket: data.storeSocket,
    adminToken,
    drawIncarnation: () => data.nextIncarnation(),
    workerPath: options.workerPath,
    onFork: (pid, title) => data.forked(pid, title),
    onExit: (pid) => data.exited(pid),
    self: selfInfo(data.startedAt, () => supervisor.state),
    onReady: () => {
      data.announce(supervisor.url ?? '', adminToken);
      options.onReady({ url: supervisor.url ?? '', durability: supervisor.durability });
    },
  });
  const reopenLogs = (): void => {
    log.reopen();
    supervisor.reopenLogs();
  };
  const control = new ControlSocket({
    status: () => ({
      version,
      state: supervisor.state,
      startedAt: data.startedAt,
      url: supervisor.url,
      dataDir: data.path,
      durability: supervisor.durability,
      processes: supervisor.processes(),
    }),
    stop: (timeoutMs) => supervisor.stop(timeoutMs),
    reopenLogs,
  });

  signals.onStop = (times) => {
    if (times > 1) supervisor.stopAtOnce();
    else supervisor.stop();
  };
  signals.onReopen = reopenLogs;
  signals.onReload = () => log.notice('reload is not available yet; nothing was changed');
  let outcome: Outcome;
  try {
    await control.listen(data.controlSocket);
    log.notice('starting', { version, pid: process.pid, dataDir: data.path, node: process.version });
    supervisor.start();
    if (signals.stopsAsked > 0) signals.onStop(signals.stopsAsked);
    outcome = await supervisor.ended;
  } catch (error) {
    outcome = { exitCode: 1, reason: `the control socket cannot be opened: ${reasonOf(error)}` };
  }
  log.notice('ended', {
    exitCode: outcome.exitCode,
    ...(outcome.reason === null ? {} : { reason: outcome.reason }),
  });
  await log.close();
  // In this order: closing a Unix socket removes its file, which after the release of the lock could be the next master's;
  // and who waits for the end is told when the directory is free.
  control.close();
  data.close();
  await control.finish(outcome.exitCode);
  return outcome;
}

function writePidFile(path: string): void {
  try {
    writeFileSync(path, `${process.pid}\n`);
  } catch (error) {
    throw new StartRefused(`the pid file ${path} cannot be written: ${reasonOf(error)}`, { cause: error });
  }
}

interface SignalHandlers {
  stopsAsked: number;
  /** told how many times by now */
  onStop: (times: number) => void;
  onReopen: () => void;
  onReload: () => void;
}

/** First of all: a signal without a handler ends the process, and SIGUSR1 without one opens Node's debugger. */
function holdSignals(): SignalHandlers {
  const handlers: SignalHandlers = {
    stopsAsked: 0,
    onStop() {},
    onReopen() {},
    onReload() {},
  };
  for (const name of ['SIGTERM', 'SIGINT', 'SIGQUIT']) {
    process.on(name, () => {
      handlers.stopsAsked += 1;
      handlers.onStop(handlers.stopsAsked);
    });
  }
  for (const name of ['SIGUSR2', 'SIGHUP']) process.on(name, () => handlers.onReload());
  process.on('SIGUSR1', () => handlers.onReopen());
  process.on('SIGPIPE', () => {});
  return handlers;
}

function selfInfo(startedAt: number, state: () => ProcessInfo['state']): () => ProcessInfo {
  let cpu = process.cpuUsage();
  let cpuPercent = 0;
  setInterval(() => {
    const used = process.cpuUsage(cpu);
    cpuPercent = Math.round((used.user + used.system) / limits.pulseMs) / 10;
    cpu = process.cpuUsage();
  }, limits.pulseMs).unref();
  return () => ({
    title: 'dq-master',
    role: 'master',
    pid: process.pid,
    version,
    state: state(),
    startedAt,
    restarts: 0,
    inFlight: 0,
    rssBytes: process.memoryUsage.rss(),
    cpuPercent,
  });
}
