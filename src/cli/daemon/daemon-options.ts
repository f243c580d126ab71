// The commands that call a daemon: how they are registered, their client, and one call with its output.

import type { Command } from 'commander';
import { agree, printData } from '../output/output.ts';
import { type ApiCall, ApiClient, type ApiReply } from './api-client.ts';
import { type DaemonFlags, findDaemon } from './find-daemon.ts';

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

/** `help`: of --data-dir */
export function withDataDirectory(
  command: Command,
  help = 'data directory of the daemon (DQ_DATA_DIR)',
): Command {
  // An option of the command itself may have this letter.
  const letter = command.options.some(({ short }) => short === '-c') ? '' : '-c, ';
  return command
    .option('--data-dir <dir>', help)
    .option(`${letter}--config <file>`, 'configuration that names the data directory');
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
