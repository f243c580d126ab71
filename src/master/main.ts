// The master: takes the data directory, starts the workers, listens to signals and to the control socket, and leaves
// everything tidy. It is the process of `dq start`. It does no business: what can hang or crash runs in a worker.

import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import type { Config } from '../config/options.ts';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { portOf } from '../core/url/server-url.ts';
import { version } from '../core/version.ts';
import type { ProcessInfo } from '../process/messages.ts';
import { closeDebugger } from '../runtime/close-debugger.ts';
import { SecondTicker } from '../runtime/second-ticker.ts';
import { StartRejected } from '../runtime/start-rejected.ts';
import type { OpenLog } from '../telemetry/open-log.ts';
import { SwitchedLog } from '../telemetry/switched-log.ts';
import { type CodeOnDisk, whyRestart } from './code-on-disk.ts';
import type { ControlAnswer } from './control/control-protocol.ts';
import { ControlSocket } from './control/control-socket.ts';
import { ServiceManager } from './control/service-manager.ts';
import { DataDirectory } from './data/data-directory.ts';
import { keepGivenUp } from './keep-given-up.ts';
import type { ReadConfig } from './reload.ts';
import { masterTitle } from './workers/process-table.ts';
import type { Outcome } from './workers/supervisor.ts';
import { exitCrashLoop, Supervisor } from './workers/supervisor.ts';

/** An address and port that the servers listen on; the host as it was configured. */
export interface Listening {
  readonly host: string;
  readonly port: number;
}

/** How this daemon is started once more. */
export interface Restarting {
  /** One sentence, before anything is ended; null = a start would be tried. `listening`: null = not known */
  whyNot(listening: Listening | null): Promise<string | null>;
  /** When everything has ended and the data directory is free; answers what this process exits with. */
  begin(): number;
}

export interface MasterOptions {
  readonly config: Config;
  /** the configuration as it is now, with the flags and the environment of the start */
  readonly readConfig: ReadConfig;
  readonly openLog: (config: Config) => OpenLog;
  readonly workerPath: () => string;
  /** what the master would run if it were started now; null = it cannot be read */
  readonly codeOnDisk: () => CodeOnDisk | null;
  /** absolute; null = none */
  readonly pidFile: string | null;
  readonly restarting: Restarting;
  readonly onReady: (facts: { readonly url: string; readonly durability: string | null }) => void;
}

/** `dq reload` says with it that something is in force and does not work yet (cli/exit.ts). */
const exitPartly = 5;

/** Resolves when everything has ended and the data directory is free. Rejects with StartRejected. */
export async function runMaster(options: MasterOptions): Promise<Outcome> {
  // Others of this group may read the logs; sockets, records and the store are in directories of ours alone.
  process.umask(0o027);
  process.title = masterTitle;
  const signals = holdSignals();
  await closeDebugger();
  const data = await DataDirectory.open(options.config.dataDir, options.config.redis.length > 0);
  let removePidFile = () => {};
  // While the lock is held: after its release the file could be the next master's.
  const leave = (): void => {
    removePidFile();
    data.close();
  };
  try {
    if (options.pidFile !== null) removePidFile = writePidFile(options.pidFile);
    return await superviseOn(data, options, signals, leave);
  } finally {
    leave();
  }
}

async function superviseOn(
  data: DataDirectory,
  options: MasterOptions,
  signals: SignalHandlers,
  leave: () => void,
): Promise<Outcome> {
  const { config } = options;
  let inForce = config;
  const log = new SwitchedLog(options.openLog(config));
  const ownCode = options.codeOnDisk();
  const adminToken = `dqk_${randomBytes(32).toString('base64url')}`;
  data.onUnwritten = (error) => log.error('a record of the processes cannot be written', error);
  if (data.leftovers.length > 0)
    log.notice(`ended what a killed master had left: ${data.leftovers.join(', ')}`);
  if (data.identityChanged !== null) log.notice(data.identityChanged);

  const service = new ServiceManager(process.env['NOTIFY_SOCKET'], log);
  // Its own affair: a worker, or what a worker starts, has nothing to say there.
  delete process.env['NOTIFY_SOCKET'];

  const pulse = new SecondTicker();
  const supervisor = new Supervisor({
    config,
    log,
    pulse,
    instance: data.instance,
    storeSocket: data.storeSocket,
    adminToken,
    drawIncarnation: () => data.nextIncarnation(),
    workerPath: options.workerPath,
    onFork: (pid, title) => data.forked(pid, title),
    onExit: (pid) => data.exited(pid),
    self: selfInfo(data.startedAt, pulse, () => supervisor),
    readConfig: options.readConfig,
    service,
    onReloaded: (next) => {
      inForce = next;
      log.switchTo(options.openLog(next));
      data.announce(supervisor.url ?? '', adminToken);
      const restart = whyRestart(ownCode, options.codeOnDisk());
      if (restart !== null) log.notice(restart);
    },
    onReady: () => {
      // Once more: on a busy machine Node opens it some time after the signal.
      void closeDebugger();
      data.announce(supervisor.url ?? '', adminToken);
      options.onReady({ url: supervisor.url ?? '', durability: supervisor.durability });
      service.ready(`ready, ${supervisor.url ?? ''}`);
    },
  });
  const reopenLogs = (): void => {
    log.reopen();
    supervisor.reopenLogs();
  };
  const reload = async (tell: (answer: ControlAnswer) => void): Promise<number> => {
    const say = (message: string): void => tell({ message });
    const outcome = await supervisor.reload(say);
    if (outcome.kind === 'refused') {
      tell({ refused: outcome.reason });
      return 1;
    }
    for (const flaw of outcome.flaws) say(flaw);
    say(`reloaded: generation ${supervisor.generation}`);
    const restart = whyRestart(ownCode, options.codeOnDisk());
    if (restart !== null) say(restart);
    return outcome.flaws.length === 0 ? 0 : exitPartly;
  };
  /** until somebody wants it ended for good */
  let startsAgain = false;
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
    stop: (timeoutMs) => {
      startsAgain = false;
      supervisor.stop(timeoutMs);
    },
    reload,
    restart: async () => {
      const refused = await options.restarting.whyNot(listeningOn(inForce['server.host'], supervisor.url));
      if (refused !== null) return refused;
      if (supervisor.state === 'draining') return 'it is being stopped';
      log.notice('restarting');
      startsAgain = true;
      supervisor.stop();
      return null;
    },
    reopenLogs,
  });

  signals.onStop = (times) => {
    startsAgain = false;
    if (times > 1) supervisor.stopAtOnce();
    else supervisor.stop();
  };
  signals.onReopen = reopenLogs;
  signals.onReload = () => void supervisor.reload();
  let outcome: Outcome;
  try {
    await control.listen(data.controlSocket);
    log.notice('starting', { version, pid: process.pid, dataDir: data.path, node: process.version });
    supervisor.start();
    if (signals.stopsAsked > 0) signals.onStop(signals.stopsAsked);
    else if (signals.reloadAsked) signals.onReload();
    outcome = await supervisor.ended;
  } catch (error) {
    outcome = { exitCode: 1, reason: `the control socket cannot be opened: ${reasonOf(error)}` };
  }
  if (outcome.exitCode === exitCrashLoop) await keepGivenUp(data.path, outcome.reason ?? '', log);
  log.notice('ended', {
    exitCode: outcome.exitCode,
    ...(outcome.reason === null ? {} : { reason: outcome.reason }),
  });
  await log.close();
  // In this order: closing a Unix socket removes its file, which after the release of the lock could be the next master's;
  // and who waits for the end is told when the directory is free.
  control.close();
  leave();
  if (startsAgain && outcome.exitCode === 0) outcome = begin(options.restarting);
  await control.finish(outcome.exitCode);
  return outcome;
}

function listeningOn(host: string, url: string | null): Listening | null {
  return url === null ? null : { host, port: portOf(url) };
}

function begin(restarting: Restarting): Outcome {
  try {
    return { exitCode: restarting.begin(), reason: 'ended, to be started again' };
  } catch (error) {
    return { exitCode: 1, reason: `ended, and cannot be started again: ${reasonOf(error)}` };
  }
}

/** Answers what removes it, which acts once. */
function writePidFile(path: string): () => void {
  try {
    writeFileSync(path, `${process.pid}\n`);
  } catch (error) {
    throw new StartRejected(`the pid file ${path} cannot be written: ${reasonOf(error)}`, { cause: error });
  }
  let isOurs = true;
  return () => {
    if (!isOurs) return;
    isOurs = false;
    try {
      rmSync(path, { force: true });
    } catch {
      // Its directory is gone or read-only; the file names a process that has ended.
    }
  };
}

interface SignalHandlers {
  stopsAsked: number;
  reloadAsked: boolean;
  /** told how many times by now */
  onStop: (times: number) => void;
  onReopen: () => void;
  onReload: () => void;
}

/** First of all: a signal without a handler ends the process, and SIGUSR1 without one opens Node's debugger. */
function holdSignals(): SignalHandlers {
  const handlers: SignalHandlers = {
    stopsAsked: 0,
    reloadAsked: false,
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
  for (const name of ['SIGUSR2', 'SIGHUP']) {
    process.on(name, () => {
      handlers.reloadAsked = true;
      handlers.onReload();
    });
  }
  process.on('SIGUSR1', () => handlers.onReopen());
  process.on('SIGPIPE', () => {});
  return handlers;
}

function selfInfo(
  startedAt: number,
  pulse: SecondTicker,
  daemon: () => Pick<ProcessInfo, 'state' | 'generation'>,
): () => ProcessInfo {
  let cpu = process.cpuUsage();
  let cpuPercent = 0;
  pulse.each(() => {
    const used = process.cpuUsage(cpu);
    cpuPercent = Math.round((used.user + used.system) / limits.pulseMs) / 10;
    cpu = process.cpuUsage();
  });
  return () => ({
    title: masterTitle,
    role: 'master',
    pid: process.pid,
    version,
    generation: daemon().generation,
    state: daemon().state,
    startedAt,
    restarts: 0,
    inFlight: 0,
    rssBytes: process.memoryUsage.rss(),
    cpuPercent,
  });
}
