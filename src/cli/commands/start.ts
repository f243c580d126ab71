// dq start: turns this process into the master; with -d starts one in the background and waits until it is
// ready.

import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { type LoadedConfig, loadConfig } from '../../config/load.ts';
import { type Config, noDeliveriesText, options, standardOutput } from '../../config/options.ts';
import { formatProblem } from '../../config/parse.ts';
import { messageOf } from '../../core/errors.ts';
import { redisAddress } from '../../core/url/redis-url.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { version } from '../../core/version.ts';
import { compatLines } from '../../master/control/control-protocol.ts';
import { type Restarting, runMaster } from '../../master/main.ts';
import { type CodeOnDisk, type ReadConfig, readCode } from '../../master/reload.ts';
import type { Outcome } from '../../master/workers/supervisor.ts';
import { readExtraAuthorities } from '../../runtime/extra-authorities.ts';
import { makeDirectory } from '../../runtime/files.ts';
import { StartRejected } from '../../runtime/service.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { logCrashes, openLog } from '../../telemetry/open-log.ts';
import { warningLine, watchReadiness } from '../daemon/readiness.ts';
import { Exit, exitCodes } from '../exit.ts';
import { problemText } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { say } from '../output/output.ts';
import { packageRoot } from '../package-files.ts';
import { detach, listeningDaemon, sendToParent, startAgain } from '../start/background.ts';

type StartFlags = Readonly<Record<string, string | boolean | string[] | undefined>>;

interface Run {
  readonly loaded: Extract<LoadedConfig, { readonly ok: true }>;
  /** `makes`: its directories */
  readonly readAgain: (makes: boolean) => ReturnType<ReadConfig>;
  readonly restarting: Restarting;
  readonly flags: StartFlags;
  /** monotonicNow() at the start of this process */
  readonly from: number;
}

/** The options with a flag, for commander. */
const configFlags = Object.entries(options).flatMap(([name, declared]) => {
  const flag = 'flag' in declared ? declared.flag : undefined;
  if (flag === undefined) return [];
  const spelling = declared.kind === 'boolean' ? flag : `${flag} <${declared.kind}>`;
  const option = new Option(spelling, 'flagHelp' in declared ? declared.flagHelp : declared.help);
  // Given twice, a list option keeps both values: commander alone would drop the first server.
  if (declared.kind === 'list')
    option.argParser((text: string, before?: string) => (before === undefined ? text : `${before},${text}`));
  return [{ name, option, turned: declared.default === false }];
});

export function register(program: Command): void {
  const command = program
    .command('start')
    .description('run the daemon, in the foreground or with -d in the background')
    .option('-c, --config <file>', 'file instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('-d, --detach', 'run in the background; return when it is ready')
    .option('--pid-file <file>', 'file for the process id')
    .addOption(new Option('--in-background').hideHelp())
    // For a restart: the code on the disk checks a start before the running daemon ends.
    .addOption(new Option('--check').hideHelp());
  for (const { option } of configFlags) command.addOption(option);
  command.action(start);
}

async function start(flags: StartFlags): Promise<void> {
  const from = monotonicNow() - process.uptime() * 1000;
  // Read now: a directory that is replaced while the daemon runs loses its name.
  const cwd = process.cwd();
  const loaded = load(flags, cwd);
  if (!loaded.ok) throw new Exit('badConfiguration', problemText(loaded.problems));
  const authorities = readExtraAuthorities();
  const faults = authorities !== null && 'fault' in authorities ? [authorities.fault] : [];
  for (const warning of [...loaded.warnings.map(formatProblem), ...faults]) warn(warning);
  const { config } = loaded;
  makeLogDir(config.logDir, flags);
  if (flags['check'] === true) {
    const listening = listeningDaemon(process.env);
    // With it come the drivers of both databases, which a master does not need.
    const { whyNotStart } = await import('../start/start-checks.ts');
    const reason = await whyNotStart({
      config,
      pidFile: pidFileOf(flags),
      running: process.ppid,
      listening,
    });
    if (reason !== null) throw new Exit('failed', reason);
    checkWorker();
    return;
  }
  if (flags['detach'] === true && flags['inBackground'] !== true) {
    await detach(config);
    return;
  }
  const restarting = startAgain({ inBackground: flags['inBackground'] === true, cwd, logDir: config.logDir });
  const outcome = await run({
    loaded,
    readAgain: (makes) => readAgain(flags, cwd, makes),
    restarting,
    flags,
    from,
  });
  if (outcome.exitCode !== exitCodes.ok) {
    const sentence = outcome.reason ?? 'ended';
    sendToParent({ kind: 'failed', message: sentence });
    say(`dq: ${sentence}`);
  }
  // Explicit: a forgotten timer or handle must not keep a stopped daemon alive.
  process.exit(outcome.exitCode);
}

/** Of a start in the background the waiting command shows it. */
function warn(warning: string): void {
  const line = warningLine(warning);
  say(line);
  sendToParent({ kind: 'line', line });
}

/** Tries to load a worker: after half an upgrade, or with a library for another Node, the restarted daemon
 *  would end. */
function checkWorker(): void {
  const path = join(distDir(), 'worker.js');
  const { status, stderr } = spawnSync(process.execPath, [path, '--check'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    timeout: cliLimits.workerCheckMs,
    killSignal: 'SIGKILL',
  });
  if (status === 0) return;
  const reason = /^\S*Error\b.*$/m.exec(stderr)?.[0] ?? 'it does not load in time';
  throw new Exit('failed', `no worker of this build can start: ${reason}`);
}

function pidFileOf(flags: StartFlags): string | null {
  const pidFile = flags['pidFile'];
  return typeof pidFile === 'string' ? resolve(pidFile) : null;
}

function distDir(): string {
  return join(packageRoot(), 'dist');
}

async function run({ loaded, readAgain, restarting, flags, from }: Run): Promise<Outcome> {
  let isUp = false;
  const { config } = loaded;
  const inBackground = flags['inBackground'] === true;
  let log = { config, role: 'master', index: 0, title: 'dq-master' };
  /** The standard output has the log lines, and nothing else. */
  const sendsLinesAway = () => log.config.logDir === standardOutput;
  // Before its processes are up, start prints its own lines; in the background the log has the same lines.
  const echo = (line: string): void => {
    if (isUp && !inBackground && !sendsLinesAway()) process.stderr.write(`${line}\n`);
  };
  logCrashes(() => log);
  try {
    return await runMaster({
      loaded,
      readConfig: () => readAgain(true),
      previewConfig: () => readAgain(false),
      restarting,
      openLog: (inForce) => {
        log = { ...log, config: inForce };
        return openLog({ ...log, echo });
      },
      workerPath: () => join(distDir(), 'worker.js'),
      codeOnDisk,
      pidFile: pidFileOf(flags),
      onReady: ({ url, console, compat, durability }) => {
        const mysql = parseMysqlUrl(config['mysql.url']);
        const facts = [
          `dq ${version} (pid ${process.pid}) on ${storeOf(config)}`,
          ...(mysql.ok ? [`registry: MySQL ${placeOf(mysql.value)}`] : []),
          ...(durability === null ? [] : [`durability: ${durability}`]),
          ...(config.noDeliveries ? [`deliveries: ${noDeliveriesText}`] : []),
          url,
          ...(console === null ? [] : [`console ${console}`]),
          ...compatLines(compat),
        ];
        const tell = (line: string): void => {
          if (inBackground) sendToParent({ kind: 'line', line });
          else if (sendsLinesAway()) say(line);
          else process.stdout.write(`${line}\n`);
        };
        for (const line of facts) tell(line);
        isUp = true;
        // `dq start -d` looks itself.
        if (inBackground) return sendToParent({ kind: 'up', url });
        // Redis or MySQL may be unavailable, so the first look that finds them makes the last line.
        void watchReadiness(url, config.dataDir, ({ why, warnings }) => {
          for (const warning of warnings) warn(warning);
          if (why === null) tell(`ready in ${Math.round(monotonicNow() - from)} ms`);
          else say(`dq: warning: not ready: ${why}`);
        });
      },
    });
  } catch (error) {
    if (!(error instanceof StartRejected)) throw error;
    return { exitCode: exitCodes.failed, reason: error.message };
  }
}

function storeOf({ redis, dataDir }: Config): string {
  if (redis.length === 0) return `the embedded store in ${dataDir}`;
  return `Redis at ${redis.map((url) => redisAddress(url).shown).join(', ')}, with its topics in ${dataDir}`;
}

/** Throws Exit for an unusable log directory: at the start it is a mistake. One that fails later only costs
 *  lines. */
function makeLogDir(logDir: string, flags: StartFlags): void {
  if (logDir === standardOutput) {
    if (flags['detach'] !== true && flags['inBackground'] !== true) return;
    throw new Exit(
      'badConfiguration',
      'logDir: a daemon in the background has no standard output; name a directory with --log-dir',
    );
  }
  try {
    makeDirectory(logDir, 0o750);
    accessSync(logDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Exit(
      'failed',
      `cannot use the log directory ${logDir}: ${messageOf(error)}; name another one with --log-dir`,
    );
  }
}

/** For a reload: the configuration, or the reason why a start would reject it. `makes`: its directories. */
function readAgain(flags: StartFlags, cwd: string, makes: boolean): ReturnType<ReadConfig> {
  try {
    const loaded = load(flags, cwd);
    if (!loaded.ok) return { ok: false, reason: problemText(loaded.problems) };
    const { config, origins, file, warnings } = loaded;
    if (makes) makeLogDir(config.logDir, flags);
    return { ok: true, config, origins, file, warnings: warnings.map(formatProblem) };
  } catch (error) {
    // A running daemon must not end because of an unreadable file.
    return { ok: false, reason: messageOf(error) };
  }
}

function codeOnDisk(): CodeOnDisk | null {
  try {
    return readCode(distDir());
  } catch {
    // An upgrade replaces the link.
    return null;
  }
}

function load(flags: StartFlags, cwd: string): LoadedConfig {
  const given: Record<string, unknown> = {};
  for (const { name, option, turned } of configFlags) {
    const value = flags[option.attributeName()];
    // --no-auth is commander's `auth: false`, and our noAuth: true; so is --no-deliveries. --no-console is
    // console.enabled: false.
    if (option.negate) given[name] = value === false ? turned : undefined;
    else given[name] = value;
  }
  const file = flags['config'];
  return loadConfig({
    flags: given,
    env: process.env,
    cwd,
    file: typeof file === 'string' ? file : undefined,
  });
}
