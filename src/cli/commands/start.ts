// dq start: this process becomes the master. With -d another one does, and this one waits until it is ready.

import { accessSync, constants, mkdirSync, realpathSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { Option } from 'commander';
import { formatProblem } from '../../config/given.ts';
import { loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/options.ts';
import { laterOptions, options } from '../../config/options.ts';
import { reasonOf } from '../../core/errors.ts';
import { version } from '../../core/version.ts';
import { runMaster } from '../../master/main.ts';
import { StartRefused } from '../../master/start-refused.ts';
import type { Outcome } from '../../master/supervisor.ts';
import { openLog } from '../../telemetry/open-log.ts';
import { detach, tellParent } from '../detach.ts';
import { Exit, exitCodes } from '../exit.ts';
import { say } from '../output.ts';

type StartFlags = Readonly<Record<string, string | boolean | string[] | undefined>>;

/** Declared options that have a flag, as commander knows them. */
const configFlags = Object.entries(options).flatMap(([name, declared]) => {
  const flag = 'flag' in declared ? declared.flag : undefined;
  if (flag === undefined) return [];
  const spelling = declared.kind === 'boolean' ? flag : `${flag} <${declared.kind}>`;
  const option = new Option(spelling, declared.help);
  return [{ name, option, negated: option.negate }];
});

export function register(program: Command): void {
  const command = program
    .command('start')
    .description('run the daemon; in the foreground, unless -d')
    .option('-c, --config <file>', 'instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('-d, --detach', 'run in the background; returns when it is ready, or with the reason')
    .option('--pid-file <file>', 'write the process id there')
    .addOption(new Option('--in-background').hideHelp());
  for (const { option } of configFlags) command.addOption(option);
  // Known, so that they are refused with their reason instead of a suggestion.
  for (const name of laterOptions.filter((later) => !later.includes('.')))
    command.addOption(new Option(`--${name} <value...>`).hideHelp());
  command.action(start);
}

async function start(flags: StartFlags): Promise<void> {
  const from = performance.now() - process.uptime() * 1000;
  const config = configOf(flags);
  makeLogDir(config.logDir);
  if (flags['detach'] === true && flags['inBackground'] !== true) {
    await detach(config.logDir);
    return;
  }
  const outcome = await run(config, flags, from);
  if (outcome.exitCode !== exitCodes.ok) {
    const sentence = outcome.reason ?? 'ended';
    tellParent({ kind: 'failed', message: sentence });
    say(`dq: ${sentence}`);
  }
  // Not by itself: a timer or a handle that somebody forgot must not keep a stopped daemon in the process table.
  process.exit(outcome.exitCode);
}

async function run(config: Config, flags: StartFlags, from: number): Promise<Outcome> {
  const pidFile = flags['pidFile'];
  const launcher = process.argv[1] ?? '';
  let ready = false;
  // A start that succeeds has its own words, and one that fails its sentence.
  const echo = (line: string): void => {
    if (ready) process.stderr.write(`${line}\n`);
  };
  try {
    return await runMaster({
      config,
      openLog: () => openLog({ config, role: 'master', index: 0, title: 'dq-master', echo }),
      workerPath: () => join(dirname(realpathSync(launcher)), '../dist/worker.js'),
      pidFile: typeof pidFile === 'string' ? resolve(pidFile) : null,
      onReady: ({ url, durability }) => {
        print(`dq ${version} (pid ${process.pid}) on the embedded store in ${config.dataDir}`);
        if (durability !== null) print(`durability: ${durability}`);
        print(url);
        print(`ready in ${Math.round(performance.now() - from)} ms`);
        ready = true;
        tellParent({ kind: 'ready' });
      },
    });
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error;
    return { exitCode: exitCodes.failed, reason: error.message };
  }
}

/** A log directory that fails later costs lines; one that cannot be had from the start is a mistake to be told of. */
function makeLogDir(logDir: string): void {
  try {
    mkdirSync(logDir, { recursive: true, mode: 0o750 });
    accessSync(logDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Exit('failed', `the log directory ${logDir} cannot be used: ${reasonOf(error)}`);
  }
}

function configOf(flags: StartFlags): Config {
  const given: Record<string, unknown> = {};
  for (const { name, option, negated } of configFlags) {
    const value = flags[option.attributeName()];
    // --no-auth is commander's `auth: false`, and our noAuth: true.
    if (negated) given[name] = value === false ? true : undefined;
    else given[name] = value;
  }
  for (const name of laterOptions) given[name] = flags[name];
  const file = flags['config'];
  const loaded = loadConfig({
    flags: given,
    env: process.env,
    cwd: process.cwd(),
    file: typeof file === 'string' ? file : undefined,
  });
  if (!loaded.ok)
    throw new Exit(
      'badConfiguration',
      ['the configuration is wrong', ...loaded.problems.map(formatProblem)].join('\n'),
    );
  for (const warning of loaded.warnings) {
    say(`dq: warning: ${formatProblem(warning)}`);
    tellParent({ kind: 'said', line: `dq: warning: ${formatProblem(warning)}` });
  }
  return loaded.config;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
  tellParent({ kind: 'said', line });
}
