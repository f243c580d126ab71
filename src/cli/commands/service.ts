// dq service: makes dq a service of systemd, shows it, removes it. Every change is one command of the system,
// which is printed as it runs; `--print` prints them alone, as a shell script.
// The unit is scripts/systemd/dq.service with the paths of this installation. bin/dq stays the path by which
// this command was called, symbolic links kept: a new version behind the same link is what `systemctl reload
// dq` loads.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Command } from 'commander';
import { loadConfig } from '../../config/load.ts';
import { standardOutput } from '../../config/options.ts';
import { redisAddress } from '../../core/url/redis-url.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { takeDirectoryLock } from '../../master/data/data-directory.ts';
import { runDirOf } from '../../master/data/run-record.ts';
import { Exit } from '../exit.ts';
import { agree, printData, printRecord, say } from '../output/output.ts';
import { packageRoot } from '../package-files.ts';

/** The first line of a unit that this command may replace. */
const signature = '# Written by dq service install. Own settings go into a drop-in: systemctl edit dq';
const unitPath = '/etc/systemd/system/dq.service';
const configPath = '/etc/dq/dq.yaml';
const dataDir = '/var/lib/dq';
/** Owner and mode of a directory that does not exist yet. */
const directories = {
  '/etc/dq': ['root', '755'],
  [dataDir]: ['dq', '700'],
  '/var/log/dq': ['dq', '750'],
};

/** One command of the system. */
interface Step {
  readonly command: readonly [string, ...string[]];
  /** standard input: the text of the file that it writes */
  readonly input?: string;
}

interface InstallFlags {
  readonly print?: boolean;
}
interface UninstallFlags {
  readonly purge?: boolean;
  readonly yes?: boolean;
}

export function register(program: Command): void {
  const family = program.command('service').description('run dq as a service of systemd');
  family
    .command('install')
    .description('make the user, the directories, the unit, and start it')
    .option('--print', 'print the commands as a shell script and run none')
    .action(install);
  family
    .command('status')
    .description('show the service')
    .option('--json', 'one JSON object: {unit, enabled, active, command}')
    .action(status);
  family
    .command('uninstall')
    .description('stop the service and remove its unit; the data stay')
    .option('--purge', 'remove /etc/dq, /var/lib/dq, /var/log/dq and the user too')
    .option('-y, --yes', 'do not ask')
    .action(uninstall);
}

function install({ print }: InstallFlags): void {
  const hidden = hiddenPath();
  const warning = `the service cannot read ${hidden}; install Node and dq outside of home and temporary directories`;
  if (print) {
    if (hidden !== null) say(`dq: warning: ${warning}`);
    printData(['set -e', ...installSteps().map(asShell)].join('\n'));
    return;
  }
  needSystemd('install');
  if (hidden !== null) throw new Exit('failed', warning);
  needOwnUnit();
  needOwnDirectories();
  const wasActive = show('ActiveState') === 'active';
  run(installSteps());
  if (wasActive) say('dq: the daemon keeps its old unit until systemctl restart dq');
  say('dq: the service runs; try dq status, dq doctor, dq help getting-started');
}

function installSteps(): readonly Step[] {
  const template = join(packageRoot(), 'scripts/systemd');
  const steps: Step[] = [];
  if (userId() === null)
    steps.push({
      command: [
        'useradd',
        '--system',
        '--user-group',
        '--home-dir',
        '/var/lib/dq',
        '--shell',
        '/usr/sbin/nologin',
        'dq',
      ],
    });
  for (const [path, [owner = '', mode = '']] of Object.entries(directories))
    if (!existsSync(path))
      steps.push({ command: ['install', '-d', '-o', owner, '-g', owner, '-m', mode, path] });
  if (!existsSync(configPath))
    steps.push(
      // It may hold passwords later. The text has none: `tee` may make it readable for a moment.
      ...write(configPath, readFileSync(join(template, 'dq.yaml'), 'utf8'), '640'),
      { command: ['chown', 'root:dq', configPath] },
    );
  return [
    ...steps,
    ...write(unitPath, unitFor(readFileSync(join(template, 'dq.service'), 'utf8')), '644'),
    { command: ['systemctl', 'daemon-reload'] },
    { command: ['systemctl', 'enable', '--now', 'dq'] },
  ];
}

/** Sets the mode, whatever the umask is. */
const write = (path: string, input: string, mode: string): readonly Step[] => [
  { command: ['tee', path], input },
  { command: ['chmod', mode, path] },
];

/** A path of this installation that ProtectHome or PrivateTmp hides from the service, or null. */
function hiddenPath(): string | null {
  const paths = [process.argv[1] ?? '', nodePath()].flatMap((path) => [path, realpathSync(path)]);
  return paths.find((path) => /^\/(home|root|run\/user|tmp|var\/tmp)\//.test(path)) ?? null;
}

/** The template with the paths of this installation, which may themselves contain those of the template. */
function unitFor(template: string): string {
  const paths: Readonly<Record<string, string>> = {
    '/usr/bin/node': nodePath(),
    '/opt/dq/current/bin/dq': process.argv[1] ?? '',
    '/opt/dq/current': packageRoot(),
  };
  const unsafe = Object.values(paths).find((path) => !/^[\w./@+-]+$/.test(path));
  if (unsafe !== undefined)
    throw new Exit(
      'failed',
      `${unsafe}: the unit cannot hold this path; use letters, digits and . _ - + @ /`,
    );
  // Without its header, which describes an installation by hand.
  const unit = template.slice(template.indexOf('[Unit]'));
  const known = /\/usr\/bin\/node|\/opt\/dq\/current(?:\/bin\/dq)?/g;
  return `${signature}\n\n${unit.replace(known, (path) => paths[path] ?? path)}`;
}

/** The first node of PATH that is this one: a link like /usr/bin/node survives an upgrade of Node. */
function nodePath(): string {
  const named = (process.env['PATH'] ?? '').split(delimiter).map((directory) => join(directory, 'node'));
  return (
    named.find((path) => existsSync(path) && realpathSync(path) === process.execPath) ?? process.execPath
  );
}

function status({ json }: { readonly json?: boolean }): void {
  needSystemd();
  const facts = {
    unit: show('FragmentPath'),
    enabled: show('UnitFileState'),
    active: show('ActiveState'),
    command: /^ExecStart=(.*)$/m.exec(existsSync(unitPath) ? readFileSync(unitPath, 'utf8') : '')?.[1] ?? '',
  };
  if (json) printData(JSON.stringify(facts));
  else printRecord(Object.entries(facts));
  if (facts.active !== 'active')
    throw new Exit(
      'notRunning',
      facts.unit === '' ? 'dq is not installed as a service' : 'the service is not active',
    );
}

async function uninstall({ purge, yes }: UninstallFlags): Promise<void> {
  needSystemd('uninstall');
  if (!existsSync(unitPath) && !purge)
    throw new Exit('failed', `${unitPath} does not exist; nothing was changed`);
  needOwnUnit();
  const paths = Object.keys(directories);
  if (purge) for (const line of whatStays()) say(`dq: not removed: ${line}`);
  if (purge) await agree(`Remove ${paths.join(', ')} with all jobs in them, and the user dq?`, yes);
  const steps: Step[] = [];
  if (existsSync(unitPath))
    steps.push(
      { command: ['systemctl', 'disable', '--now', 'dq'] },
      { command: ['rm', unitPath] },
      { command: ['systemctl', 'daemon-reload'] },
    );
  run(steps);
  if (purge) {
    needNoDaemon();
    const purging: Step[] = [{ command: ['rm', '-rf', ...paths] }];
    if (userId() !== null) purging.push({ command: ['userdel', 'dq'] });
    run(purging);
  }
  if (!purge) say(`dq: ${paths.join(', ')} and the user dq stay; --purge removes them`);
}

/** What the configuration names outside of the directories of this service: one line each. */
function whatStays(): readonly string[] {
  if (!existsSync(configPath)) return [];
  const loaded = loadConfig({ flags: {}, env: {}, cwd: '/', file: configPath });
  if (!loaded.ok) return [`the stores that ${configPath} names; it is not valid: dq config test shows why`];
  const { config } = loaded;
  const mysql = parseMysqlUrl(config['mysql.url']);
  const isOutside = (path: string) =>
    path !== '' &&
    path !== standardOutput &&
    !Object.keys(directories).some((own) => `${path}/`.startsWith(`${own}/`));
  return [
    ...[config.dataDir, config.logDir, config.secretKeyFile].filter(isOutside),
    ...config.redis.map((url) => `the jobs in Redis at ${redisAddress(url).shown}`),
    ...(mysql.ok ? [`the registry in MySQL at ${placeOf(mysql.value)}`] : []),
  ];
}

/** `verb`: a change, which root alone may make. Throws Exit. */
function needSystemd(verb?: 'install' | 'uninstall'): void {
  if (!existsSync('/run/systemd/system'))
    throw new Exit(
      'failed',
      'systemd does not run on this machine; dq start -d runs the daemon, dq help production shows other ways',
    );
  if (verb !== undefined && process.getuid?.() !== 0)
    throw new Exit('failed', `run this as root: sudo dq service ${verb}`);
}

/** Throws Exit where the unit is the work of a person. */
function needOwnUnit(): void {
  if (existsSync(unitPath) && !readFileSync(unitPath, 'utf8').startsWith(signature))
    throw new Exit('failed', `${unitPath} is not from dq service install; move it away, then try again`);
}

/** Throws Exit where the service could not write to an existing directory. */
function needOwnDirectories(): void {
  for (const [path, [owner]] of Object.entries(directories))
    if (owner === 'dq' && existsSync(path) && statSync(path).uid !== userId())
      throw new Exit(
        'failed',
        `${path} exists and does not belong to the user dq; move it away, or chown -R dq:dq ${path} while no daemon uses it`,
      );
}

/** Throws Exit where a daemon that this service did not start uses the data directory. */
function needNoDaemon(): void {
  const runDir = runDirOf(dataDir);
  if (!existsSync(runDir)) return;
  const lock = takeDirectoryLock(runDir);
  if (lock === null)
    throw new Exit('failed', `a dq daemon uses ${dataDir}: dq stop --data-dir ${dataDir}, then try again`);
  lock.release();
}

/** null: the user dq does not exist. */
function userId(): number | null {
  const { status, stdout } = spawnSync('id', ['-u', 'dq'], { encoding: 'utf8' });
  return status === 0 ? Number(stdout) : null;
}

function show(property: string): string {
  const { stdout } = spawnSync('systemctl', ['show', '-p', property, '--value', 'dq'], { encoding: 'utf8' });
  return stdout?.trim() ?? '';
}

/** Stops at the first command that fails: each needs those before it. */
function run(steps: readonly Step[]): void {
  for (const { command, input } of steps) {
    say(command.join(' '));
    const [name, ...args] = command;
    const { status, error } = spawnSync(name, args, {
      input,
      stdio: input === undefined ? ['ignore', 2, 2] : ['pipe', 'ignore', 2],
    });
    if (status === 0) continue;
    const hint = name === 'systemctl' ? '; journalctl -u dq shows the reason' : '';
    throw new Exit('failed', `${name} failed (${error?.message ?? `exit code ${status}`})${hint}`);
  }
}

function asShell({ command, input }: Step): string {
  const line = command.join(' ');
  return input === undefined ? line : `${line} > /dev/null <<'END_OF_FILE'\n${input.trimEnd()}\nEND_OF_FILE`;
}
