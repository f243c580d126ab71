// Lists the commands, builds the commander program from all of them or from the one that is needed, and runs
// it. Turns each failure into a message and an exit code.

import { type Command, CommanderError } from 'commander';
import { messageOf } from '../core/errors.ts';
import { version } from '../core/version.ts';
import { completeDaemonCommand } from './daemon/daemon-options.ts';
import { DqCommand } from './dq-command.ts';
import { Exit, exitCodes } from './exit.ts';

interface CommandModule {
  /** Adds the command to the program: options, help, action. Does nothing else. */
  register(program: Command): void;
}

type Load = () => Promise<CommandModule>;

const access: Load = () => import('./commands/access.ts');
const alerts: Load = () => import('./commands/alerts.ts');
const apply: Load = () => import('./commands/apply.ts');
const help: Load = () => import('./commands/help.ts');
const jobs: Load = () => import('./commands/jobs.ts');
const master: Load = () => import('./commands/master.ts');
const oneJob: Load = () => import('./commands/one-job.ts');
const operations: Load = () => import('./commands/operations.ts');
const pull: Load = () => import('./commands/pull.ts');
const store: Load = () => import('./commands/store.ts');

/** By the groups of `dq --help`, in its order: name → the module that registers it, loaded only when it is
 *  needed, so that `dq push` does not pay for the imports of `dq start`. One module holds a whole family
 *  (`dq topic ls`, `dq topic add`), or several commands of one kind. */
const commandGroups: Readonly<Record<string, Readonly<Record<string, Load>>>> = {
  'Daemon:': {
    start: () => import('./commands/start.ts'),
    stop: master,
    reload: master,
    restart: master,
    move: () => import('./commands/move.ts'),
    status: () => import('./commands/status.ts'),
    service: () => import('./commands/service.ts'),
  },
  'Topics:': {
    topic: () => import('./commands/topic.ts'),
    rule: () => import('./commands/rule.ts'),
    export: apply,
    apply,
  },
  'Jobs:': {
    push: () => import('./commands/push.ts'),
    ls: jobs,
    get: jobs,
    explain: () => import('./commands/explain.ts'),
    cancel: oneJob,
    run: oneJob,
    reschedule: oneJob,
    edit: oneJob,
    dead: () => import('./commands/dead.ts'),
    clear: operations,
    op: operations,
    schedule: () => import('./commands/schedule.ts'),
  },
  'Pulled jobs:': {
    pull,
    ack: pull,
    nack: pull,
    extend: pull,
  },
  'Alerts:': {
    alerts,
    alert: alerts,
  },
  'Operation:': {
    config: () => import('./commands/config.ts'),
    doctor: () => import('./commands/doctor.ts'),
    console: access,
    token: access,
    audit: access,
    shard: () => import('./commands/shard.ts'),
    journal: () => import('./commands/journal.ts'),
    backup: store,
    restore: store,
    fsck: store,
    migrate: () => import('./commands/migrate.ts'),
    import: () => import('./commands/import.ts'),
  },
  'Trials:': {
    sink: () => import('./commands/sink.ts'),
    bench: () => import('./commands/bench.ts'),
  },
  'This program:': {
    help,
    version: help,
    completion: help,
  },
};

/** Commands that describe all commands, and need their modules. */
const describing: readonly string[] = ['help', 'completion'];

export const commands: Readonly<Record<string, Load>> = Object.assign({}, ...Object.values(commandGroups));

const examples = `
Examples:
  dq start                                       run the daemon in this terminal
  dq sink                                        receive callbacks on port 9000
  dq topic add order.close --callback http://127.0.0.1:9000/close --delay 30m
  dq push order.close '{"order":4711}'           push a job; its callback comes in 30 minutes
  dq help getting-started                        read the manual`;

/** `only`: the name of one command; null = all of them. */
export async function buildProgram(only: string | null): Promise<Command> {
  const program = new DqCommand('dq')
    .description('A delay queue daemon: takes a job over HTTP, waits until it is due, calls its callback')
    .version(version, '-V, --version')
    .exitOverride()
    .helpCommand(false)
    .addHelpText('after', examples)
    .showSuggestionAfterError(false)
    .enablePositionalOptions();
  for (const [group, members] of Object.entries(commandGroups)) {
    const needed = Object.entries(members).filter(([name]) => only === null || name === only);
    program.commandsGroup(group);
    // A module of several commands counts once, by its loader: a bundle makes an object at each import.
    const loads = new Set(needed.map(([, load]) => load));
    for (const module of await Promise.all(Array.from(loads, (load) => load()))) module.register(program);
  }
  for (const command of program.commands) complete(command, program);
  return program;
}

/** In every family: `dq topic show` is `dq topic get`. */
const synonyms: Readonly<Record<string, string>> = { ls: 'list', get: 'show', add: 'create', rm: 'delete' };

/** Adds the synonym, the options of calls, and the settings that commander copied from the parent before they
 *  were complete. */
function complete(command: Command, parent: Command): void {
  completeDaemonCommand(command);
  const synonym = synonyms[command.name()];
  if (synonym !== undefined) command.alias(synonym);
  command.copyInheritedSettings(parent);
  for (const child of command.commands) complete(child, command);
}

/** Sets process.exitCode unless the command succeeds: a process that ends later ends with it. */
export async function runCommand(words: readonly string[]): Promise<void> {
  const [name] = words;
  try {
    const isCommand = name !== undefined && Object.hasOwn(commands, name);
    // --help, synonyms and the suggestion after an unknown name need all commands too.
    const program = await buildProgram(isCommand && !describing.includes(name) ? name : null);
    await program.parseAsync(words, { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has printed its message. Help and version on request are successes.
    return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  }
  if (error instanceof Exit) {
    // Without its cause: its message is for people, and complete.
    process.stderr.write(`dq: ${error.message}\n`);
    return error.exitCode;
  }
  // A file, a directory, a socket: the system's reason is all that the user needs.
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (error instanceof Error && syscall !== undefined) {
    const remedy =
      code === 'EACCES' || code === 'EPERM' ? '; run this as the user of the daemon or as root' : '';
    process.stderr.write(`dq: ${messageOf(error)}${remedy}\n`);
    return exitCodes.failed;
  }
  process.stderr.write(`dq: ${error instanceof Error ? error.stack : String(error)}\n`);
  return exitCodes.failed;
}
