// dq console: prints a link that signs in to the console, and lists and ends sessions. The link is alone on
// stdout, so that a script can open it.

import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import type { listSessionsSchema, SignInLinkJson } from '../../contract/api/access.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import { linkNamePattern } from '../../core/session.ts';
import { ask, callsDaemon, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { consoleOf } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { gatherItems, scopesHelp } from '../flags.ts';
import { instantOf, printData, printItems, say } from '../output/output.ts';

interface LinkFlags extends DaemonOptions {
  readonly scope?: readonly string[];
  readonly topic?: readonly string[];
  readonly name?: string;
}
interface SignOutFlags extends DaemonOptions {
  readonly all?: boolean;
}

export function register(program: Command): void {
  const family = callsDaemon(program.command('console').action(printLink))
    .description('print a link that signs in to the console; works once, for 10 min')
    .option('--scope <list>', scopesHelp, gatherItems)
    .option('--topic <glob>', 'only these topics: order.*; repeatable', gatherItems)
    .option('--name <name>', 'name of the session; default: the system user')
    .addHelpText('after', '\nWithout --scope and --topic: all rights of the caller.');
  daemonCommand(family, 'sessions', 'list the sessions of the console', list);
  daemonCommand(family, 'sign-out', 'end a session of the console; effective within 2 s', end)
    .argument('[id]')
    .option('--all', 'end all sessions')
    .option('-y, --yes', 'do not ask');
}

async function printLink(flags: LinkFlags): Promise<void> {
  const client = clientOf(flags);
  const address = consoleOf(flags, process.env);
  if (address === 'off')
    throw new Exit('failed', 'no console listens; see dq status, console.enabled and the error log');
  const reply = await client.call<SignInLinkJson>({
    method: 'POST',
    path: ['v1', 'sign-in-links'],
    json: { name: flags.name ?? systemUser(), scopes: flags.scope, topics: flags.topic },
    flags: { name: '--name', scopes: '--scope', topics: '--topic' },
    needs: ['link'],
  });
  if (flags.json) {
    printData(reply.text);
    return;
  }
  const { link, publicUrl } = reply.json;
  const base = publicUrl ?? address;
  if (base === null) {
    say('dq: add this to the address of the console; works once, for 10 min:');
    printData(`/#in=${link}`);
    return;
  }
  say('dq: open this link in a browser; it works once, for 10 min:');
  printData(`${base.replace(/\/$/, '')}/#in=${link}`);
  if (publicUrl === null && isOverSsh()) say(`dq: first, on your machine: ${tunnelTo(base)}`);
}

/** A name that the API accepts; undefined: the API takes that of the caller. */
function systemUser(): string | undefined {
  try {
    const { username } = userInfo();
    return linkNamePattern.test(username) ? username : undefined;
  } catch {
    return undefined; // no entry in /etc/passwd
  }
}

function isOverSsh(): boolean {
  return (process.env['SSH_CONNECTION'] ?? '') !== '';
}

/** The command that makes the console reachable at the same address on the user's machine. */
function tunnelTo(base: string): string {
  const { hostname: host, port } = new URL(base);
  // The address of this machine as the user's ssh reached it: `client port server port`.
  const [, , server] = (process.env['SSH_CONNECTION'] ?? '').split(' ');
  const user = systemUser();
  return `ssh -L ${port}:${host}:${port} ${user === undefined ? '' : `${user}@`}${server ?? hostname()}`;
}

async function list(flags: DaemonOptions): Promise<void> {
  const call = { path: ['v1', 'sessions'], needs: ['items'] };
  const { json } = await ask<ReplyOf<typeof listSessionsSchema>>(flags, call);
  if (!flags.json)
    printItems(json.items, {
      ID: 'id',
      NAME: 'name',
      SCOPES: 'scopes',
      TOPICS: 'topics',
      'SIGNED IN BY': 'signedInBy',
      ADDRESS: 'address',
      BROWSER: 'browser',
      'USED AT': instantOf('usedAt'),
      'ENDS AT': instantOf('endsAt'),
    });
}

async function end(id: string | undefined, flags: SignOutFlags): Promise<void> {
  if ((id === undefined) === (flags.all !== true))
    throw new Exit('usage', 'give the id of a session (dq console sessions), or --all');
  const call =
    id === undefined ? { path: ['v1', 'sessions'], query: { all: true } } : { path: ['v1', 'sessions', id] };
  const question = id === undefined ? 'End all sessions of the console?' : undefined;
  await ask(flags, { method: 'DELETE', ...call, needs: ['deleted'] }, question);
  say(`dq: ended ${id === undefined ? 'all sessions' : `the session ${id}`}; effective within 2 s`);
}
