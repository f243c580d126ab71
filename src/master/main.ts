// Runs the master, the process of `dq start`: takes the data directory, starts the workers, obeys signals and
// the control socket, and releases the directory when every worker has ended.
// It delivers no jobs: everything that can hang or crash runs in a worker.

import { rmSync, writeFileSync } from 'node:fs';
import type { Config } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { givenUp, givenUpDetail, openIncidents } from '../core/incident.ts';
import { limits } from '../core/limits.ts';
import { portOf } from '../core/url/server-url.ts';
import { version } from '../core/version.ts';
import { IncidentFiles, newIncident } from '../process/incident-files.ts';
import type { ProcessInfo } from '../process/messages.ts';
import { closeDebugger } from '../process/own-process.ts';
import { printable } from '../runtime/printable-text.ts';
import { type SecondTicker, ticker } from '../runtime/second-ticker.ts';
import { StartRejected } from '../runtime/service.ts';
import { randomBytes } from '../runtime/time.ts';
import type { Log, OpenLog } from '../telemetry/log.ts';
import { loadExposition } from '../telemetry/metric-tally.ts';
import { SwitchedLog } from '../telemetry/open-log.ts';
import { ControlCommands } from './control/control-commands.ts';
import type { CompatAddresses } from './control/control-protocol.ts';
import { ControlSocket } from './control/control-socket.ts';
import { ServiceManager } from './control/service-manager.ts';
import { DataDirectory } from './data/data-directory.ts';
import { type CodeOnDisk, describeState, type ReadConfig, type ReadFacts, whyRestart } from './reload.ts';
import { Signals } from './signals.ts';
import { masterTitle } from './workers/process-table.ts';
import { exitCrashLoop, type Outcome, Supervisor } from './workers/supervisor.ts';

/** Address and port of the servers, and of the console; the host as it was configured. */
export interface Listening {
  readonly host: string;
  readonly port: number;
  /** absent = no console listens */
  readonly console?: { readonly host: string; readonly port: number };
  /** the ports for clients of other queues */
  readonly compat?: readonly { readonly host: string; readonly port: number }[];
}

/** Starts this daemon once more. */
export interface Restarting {
  /** One sentence: why no start would follow, whatever the configuration; null = it depends */
  whyNever(): string | null;
  /** One sentence, before anything has ended; null = a start would be tried. `listening`: null = not known */
  whyNot(listening: Listening | null): Promise<string | null>;
  /** Called when everything has ended and the data directory is free. Returns the exit code of this
   *  process. */
  begin(): number;
}

interface MasterOptions {
  readonly loaded: ReadFacts;
  /** reads the current configuration, with the flags and the environment of the start, and makes its
   *  directories */
  readonly readConfig: ReadConfig;
  /** as readConfig, but creates no directory */
  readonly previewConfig: ReadConfig;
  readonly openLog: (config: Config) => OpenLog;
  readonly workerPath: () => string;
  /** the code that a start would run now; null = it cannot be read */
  readonly codeOnDisk: () => CodeOnDisk | null;
  /** absolute; null = none */
  readonly pidFile: string | null;
  readonly restarting: Restarting;
  readonly onReady: (facts: {
    readonly url: string;
    /** address of the console, with its remark; null = none listens */
    readonly console: string | null;
    /** addresses for clients of other queues */
    readonly compat: CompatAddresses;
    readonly durability: string | null;
  }) => void;
}

/** Resolves when everything has ended and the data directory is free. Rejects with StartRejected. */
export async function runMaster(options: MasterOptions): Promise<Outcome> {
  // The group may read the logs; sockets, records and the store lie in directories of mode 0700.
  process.umask(0o027);
  process.title = masterTitle;
  const signals = new Signals();
  await closeDebugger();
  const { config } = options.loaded;
  const data = await DataDirectory.open(config.dataDir, config.redis.length > 0);
  let removePidFile = () => {};
  const release = (): void => {
    removePidFile();
    data.close();
  };
  try {
    if (options.pidFile !== null) removePidFile = writePidFile(options.pidFile);
    return await new Master(data, options).run(signals, release);
  } finally {
    release();
  }
}

class Master {
  readonly #options: MasterOptions;
  readonly #data: DataDirectory;
  readonly #log: SwitchedLog;
  readonly #supervisor: Supervisor;
  readonly #commands: ControlCommands;
  readonly #service: ServiceManager;
  readonly #ownCode: CodeOnDisk | null;
  readonly #adminToken = `dqk_${randomBytes(32).toString('base64url')}`;
  /** in force */
  #facts: ReadFacts;
  /** of the last read for a reload */
  #read: ReadFacts | null = null;

  constructor(data: DataDirectory, options: MasterOptions) {
    const { config } = options.loaded;
    const log = new SwitchedLog(options.openLog(config));
    this.#options = options;
    this.#data = data;
    this.#log = log;
    this.#facts = options.loaded;
    this.#ownCode = options.codeOnDisk();
    this.#service = new ServiceManager(process.env['NOTIFY_SOCKET'], log);
    // Workers and their children must not send to the service manager.
    delete process.env['NOTIFY_SOCKET'];
    this.#reportDirectory();
    this.#supervisor = new Supervisor({
      config,
      log,
      ticker: ticker(),
      instance: data.instance,
      storeSocket: data.storeSocket,
      adminToken: this.#adminToken,
      drawIncarnation: () => data.nextIncarnation(),
      workerPath: options.workerPath,
      onFork: (pid, title) => data.forked(pid, title),
      onExit: (pid) => data.exited(pid),
      self: selfInfo(data.startedAt, ticker(), () => this.#supervisor),
      readConfig: () => {
        const read = options.readConfig();
        if (read.ok) this.#read = read;
        return read;
      },
      whyRestart: () => this.#whyRestart(),
      describeConfig: () => describeState(this.#facts, options.previewConfig()),
      service: this.#service,
      onReloaded: (next) => this.#reloaded(next),
      onReady: () => this.#ready(),
    });
    this.#commands = new ControlCommands({
      supervisor: this.#supervisor,
      data,
      log,
      config: () => this.#facts.config,
      whyNeverRestart: () => options.restarting.whyNever(),
      whyNotRestart: () => options.restarting.whyNot(this.#listening()),
      whyRestart: () => this.#whyRestart(),
      previewConfig: options.previewConfig,
    });
  }

  /** `release`: removes the pid file and frees the data directory. */
  async run(signals: Signals, release: () => void): Promise<Outcome> {
    const log = this.#log;
    const control = new ControlSocket(this.#commands);
    let outcome: Outcome;
    try {
      await control.listen(this.#data.controlSocket);
      outcome = await this.#supervise(signals);
    } catch (error) {
      outcome = { exitCode: 1, reason: `cannot open the control socket: ${messageOf(error)}` };
    }
    if (outcome.exitCode === exitCrashLoop) await keepGivenUp(this.#data.path, outcome.reason ?? '', log);
    log.notice('ended', {
      exitCode: outcome.exitCode,
      ...(outcome.reason === null ? {} : { reason: outcome.reason }),
    });
    await log.close();
    // Close before release: closing a Unix socket removes its file, which could be the next master's after
    // the release. Finish after release: `dq stop` returns when the data directory is free.
    control.close();
    release();
    if (this.#commands.startsAgain && outcome.exitCode === 0) outcome = startAgain(this.#options.restarting);
    await control.finish(outcome.exitCode);
    return outcome;
  }

  #supervise(signals: Signals): Promise<Outcome> {
    const dataDir = this.#data.path;
    this.#log.notice('starting', { version, pid: process.pid, dataDir, node: process.version });
    this.#supervisor.start();
    signals.attach({
      onStop: (times) => {
        if (times > 1) this.#commands.stopAtOnce();
        else this.#commands.stop();
      },
      onReload: () => void this.#commands.reload(),
      onReopenLogs: () => this.#commands.reopenLogs(),
    });
    return this.#supervisor.ended;
  }

  #reportDirectory(): void {
    const { leftovers, identityChanged } = this.#data;
    this.#data.onUnwritten = (error) => this.#log.error('master: cannot write a process record', error);
    if (leftovers.length > 0) this.#log.notice(`ended workers of a killed master: ${leftovers.join(', ')}`);
    if (identityChanged !== null) this.#log.notice(identityChanged);
  }

  #ready(): void {
    const { url, console, compat, durability } = this.#supervisor;
    // Once more: on a busy machine Node opens its debugger some time after SIGUSR1.
    void closeDebugger();
    this.#announce();
    const note = console === null || console.note === null ? '' : ` (${console.note})`;
    this.#options.onReady({
      url: url ?? '',
      console: console === null ? null : `${console.url}${note}`,
      compat,
      durability,
    });
    this.#service.ready(`ready, ${url ?? ''}`);
    loadExposition().catch((error: unknown) => this.#log.error('metrics: cannot load prom-client', error));
  }

  #reloaded(config: Config): void {
    // The last read is that of this reload: reloads run one after the other.
    this.#facts = { ...(this.#read ?? this.#facts), config };
    this.#log.switchTo(this.#options.openLog(config));
    this.#announce();
    const restart = this.#whyRestart();
    if (restart !== null) this.#log.notice(restart);
  }

  /** Writes dq.json, by which commands find this daemon. */
  #announce(): void {
    const { url, console, compat } = this.#supervisor;
    this.#data.announce({
      url: url ?? '',
      file: this.#facts.file,
      console: console?.url ?? null,
      compat,
      adminToken: this.#adminToken,
    });
  }

  #whyRestart(): string | null {
    return whyRestart(this.#ownCode, this.#options.codeOnDisk());
  }

  #listening(): Listening | null {
    const { url, console, compat } = this.#supervisor;
    if (url === null) return null;
    const { config } = this.#facts;
    return {
      host: config['server.host'],
      port: portOf(url),
      compat: Object.values(compat).map((address) => ({
        host: config['compat.host'],
        port: portOf(address),
      })),
      ...(console === null ? {} : { console: { host: config['console.host'], port: portOf(console.url) } }),
    };
  }
}

function startAgain(restarting: Restarting): Outcome {
  try {
    const exitCode = restarting.begin();
    const next = exitCode === 0 ? 'a new start has begun' : 'its supervisor has to start it again';
    return { exitCode, reason: `ended, and ${next}` };
  } catch (error) {
    return { exitCode: 1, reason: `ended, and cannot start again: ${messageOf(error)}` };
  }
}

/** Returns the removal of the file, which acts once, while this master holds the data directory: later it
 *  could be the next master's. Throws StartRejected. */
function writePidFile(path: string): () => void {
  try {
    writeFileSync(path, `${process.pid}\n`);
  } catch (error) {
    throw new StartRejected(`the pid file ${path} cannot be written: ${messageOf(error)}`, { cause: error });
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

/** Records that the daemon has given up, if dq-upkeep could not: the next start mails it. Called when every
 *  worker has ended, so that no other process writes incidents. Never rejects: the log and the exit code
 *  report it, too. */
async function keepGivenUp(dataDir: string, reason: string, log: Log): Promise<void> {
  try {
    const files = new IncidentFiles(dataDir);
    const known = await files.list();
    // dq-upkeep has recorded it, or no start has lasted since an earlier one.
    if (openIncidents(known).some(({ kind }) => kind === givenUp.kind)) return;
    const detail = printable(givenUpDetail(reason)).slice(0, limits.logValueMax);
    const ids = known.map(({ id }) => id);
    await files.write(newIncident({ ...givenUp, state: 'begun', detail }, ids));
  } catch (error) {
    log.error('master: cannot record that the daemon gave up', undefined, { reason: messageOf(error) });
  }
}

/** Describes this process for the process table. Returns a function that reads the current values. `daemon`:
 *  state and generation of the daemon. */
function selfInfo(
  startedAt: number,
  ticker: SecondTicker,
  daemon: () => Pick<ProcessInfo, 'state' | 'generation'>,
): () => ProcessInfo {
  let cpu = process.cpuUsage();
  let cpuPercent = 0;
  ticker.each(() => {
    const used = process.cpuUsage(cpu);
    cpuPercent = Math.round((used.user + used.system) / limits.tickMs) / 10;
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
