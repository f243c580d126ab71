// The commands that call a daemon: how they are registered, their client, and one call with its output.

import { realpathSync } from 'node:fs';
import type { Command } from 'commander';
import { agree, printData, say } from '../output/output.ts';
import { type ApiCall, ApiClient, type ApiReply } from './api-client.ts';
import { configFileOf, type DaemonFlags, findDaemon, recordOf } from './find-daemon.ts';

export interface DaemonOptions extends DaemonFlags {
  readonly json?: boolean;
  /** of a command that asks before destructive work */
  readonly yes?: boolean;
}

/** Flags that take a value. */
export type Texts<Name extends string> = { readonly [K in Name]?: string };
/** Flags that take none. */
export type Switches<Name extends string> = { readonly [K in Name]?: boolean };

const daemonCommands = new WeakSet<Command>();

/** Adds a command that calls the API. The caller adds its arguments and own options; completeDaemonCommand()
 *  adds the options of all these commands after them. */
export function daemonCommand(
  parent: Command,
  usage: string,
  description: string,
  action: Parameters<Command['action']>[0],
): Command {
  const command = parent.command(usage).description(description).action(action);
  daemonCommands.add(command);
  return command;
}

/** Also for the default action of a family. */
export function callsDaemon(command: Command): Command {
  daemonCommands.add(command);
  return command;
}

export function completeDaemonCommand(command: Command): void {
  if (!daemonCommands.has(command)) return;
  command
    .option('--url <url>', 'address of the daemon, also on another machine (DQ_URL)')
    .option('--token <token>', 'access token (DQ_TOKEN)');
  withDataDirectory(command, 'data directory of a daemon on this machine (DQ_DATA_DIR)');
  // A command of several calls has output of its own.
  if (!command.options.some(({ long }) => long === '--json'))
    command.option('--json', 'the API reply unchanged');
}

/** What warns that -c is not the file of the daemon: these options, by its record, or the command itself. */
export type WarnsOfFile = 'by record' | 'itself';

/** `help`: of --data-dir */
export function withDataDirectory(
  command: Command,
  help = 'data directory of the daemon (DQ_DATA_DIR)',
  warns: WarnsOfFile = 'by record',
): Command {
  if (warns === 'by record')
    command.hook('preAction', (hooked, run) => {
      // The hook of a family runs for its members, too, which have their own.
      if (hooked === run) warnByRecord(run.opts<DaemonFlags>());
    });
  // An option of the command itself may have this letter.
  const letter = command.options.some(({ short }) => short === '-c') ? '' : '-c, ';
  return command
    .option('--data-dir <dir>', help)
    .option(`${letter}--config <file>`, 'configuration that names the data directory');
}

function warnByRecord(flags: DaemonFlags): void {
  if (flags.config === undefined) return;
  const record = recordOf(flags, process.env);
  // A master of another build writes no file.
  if (record?.file !== undefined) warnOfOtherFile(flags, record.file);
}

/** `read`: by the daemon; null: none. The file of this command only names the data directory. */
export function warnOfOtherFile(flags: DaemonFlags, read: string | null): void {
  const named = configFileOf(flags, process.env);
  if (named === null || (read !== null && realPath(read) === realPath(named))) return;
  say(
    `dq: warning: the daemon reads ${read ?? 'no configuration file'}, and not ${named}; to change that: dq stop, then dq start -c ${named}`,
  );
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path; // removed meanwhile
  }
}

export function clientOf(options: DaemonOptions): ApiClient {
  return new ApiClient(findDaemon(options, process.env));
}

/** Makes one call, and prints the reply unchanged with --json. Asks `question` first, unless -y is given. */
export async function ask<T = unknown>(
  flags: DaemonOptions,
  call: ApiCall,
  question?: string,
): Promise<ApiReply<T>> {
  const client = clientOf(flags);
  if (question !== undefined) await agree(question, flags.yes);
  const reply = await client.call<T>(call);
  if (flags.json) printData(reply.text);
  return reply;
}
