// Lists the commands by the groups of `dq --help`: name → the module that registers it, loaded only when it
// is needed, so that `dq push` does not pay for the imports of `dq start`. One module holds a whole family
// (`dq topic ls`, `dq topic add`), or several commands of one kind.

import type { Command } from 'commander';

export interface CommandModule {
  /** Adds the command to the program: options, help, action. Does nothing else. */
  register(program: Command): void;
}

type Load = () => Promise<CommandModule>;

const alerts: Load = () => import('./commands/alerts.ts');
const help: Load = () => import('./commands/help.ts');
const leases: Load = () => import('./commands/leases.ts');
const master: Load = () => import('./commands/master.ts');
const oneJob: Load = () => import('./commands/one-job.ts');
const operations: Load = () => import('./commands/operations.ts');
const store: Load = () => import('./commands/store.ts');

/** In the order of `dq --help`. */
export const commandGroups: Readonly<Record<string, Readonly<Record<string, Load>>>> = {
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
    export: () => import('./commands/export.ts'),
    apply: () => import('./commands/apply.ts'),
  },
  'Jobs:': {
    push: () => import('./commands/push.ts'),
    ls: () => import('./commands/ls.ts'),
    get: () => import('./commands/get.ts'),
    explain: () => import('./commands/explain.ts'),
    cancel: oneJob,
    run: oneJob,
    reschedule: oneJob,
    edit: () => import('./commands/edit.ts'),
    dead: () => import('./commands/dead.ts'),
    clear: operations,
    op: operations,
    schedule: () => import('./commands/schedule.ts'),
  },
  'Pulled jobs:': {
    pull: () => import('./commands/pull.ts'),
    ack: leases,
    nack: leases,
    extend: leases,
  },
  'Alerts:': {
    alerts,
    alert: alerts,
  },
  'Operation:': {
    config: () => import('./commands/config.ts'),
    doctor: () => import('./commands/doctor.ts'),
    console: () => import('./commands/console.ts'),
    token: () => import('./commands/token.ts'),
    audit: () => import('./commands/audit.ts'),
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
    completion: () => import('./commands/completion.ts'),
  },
};

/** Commands that describe all commands, and need their modules. */
export const describing: readonly string[] = ['help', 'completion'];

export const commands: Readonly<Record<string, Load>> = Object.assign({}, ...Object.values(commandGroups));
