// The list of commands: name → the module that registers it, loaded only when it is asked for, so that `dq push` does not
// pay for what `dq start` imports. Two commands of one family (`dq topic ls`, `dq topic add`) are one module.

import type { Command } from 'commander';

export interface CommandModule {
  /** Adds the command to the program: options, help, action. Does nothing else. */
  register(program: Command): void;
}

/** In the order in which `dq --help` shows them. */
export const commands: Readonly<Record<string, () => Promise<CommandModule>>> = {
  start: () => import('./commands/start.ts'),
  stop: () => import('./commands/stop.ts'),
  reload: () => import('./commands/reload.ts'),
  restart: () => import('./commands/restart.ts'),
  status: () => import('./commands/status.ts'),
  topic: () => import('./commands/topic.ts'),
  push: () => import('./commands/push.ts'),
  ls: () => import('./commands/ls.ts'),
  get: () => import('./commands/get.ts'),
  cancel: () => import('./commands/cancel.ts'),
  run: () => import('./commands/run.ts'),
  reschedule: () => import('./commands/reschedule.ts'),
  rule: () => import('./commands/rule.ts'),
  dead: () => import('./commands/dead.ts'),
  shard: () => import('./commands/shard.ts'),
  token: () => import('./commands/token.ts'),
  alerts: () => import('./commands/alerts.ts'),
  alert: () => import('./commands/alert.ts'),
  backup: () => import('./commands/backup.ts'),
  fsck: () => import('./commands/fsck.ts'),
  config: () => import('./commands/config.ts'),
  doctor: () => import('./commands/doctor.ts'),
  migrate: () => import('./commands/migrate.ts'),
  bench: () => import('./commands/bench.ts'),
  sink: () => import('./commands/sink.ts'),
};
