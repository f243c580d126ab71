// Access, and the record of changes. dq console: prints a link that signs in to the console, and lists and
// ends sessions. dq token: access tokens. A link or a new token is alone on stdout, so that a script can open
// or store it. dq audit: lists changes, newest first.

import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import type {
  AuditEntryJson,
  CreatedTokenJson,
  listSessionsSchema,
  listTokensSchema,
  SignInLinkJson,
} from '../../contract/api/access.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import { linkNamePattern } from '../../core/session.ts';
import type { ApiReply } from '../daemon/api-client.ts';
import {
  ask,
  callsDaemon,
  clientOf,
  type DaemonOptions,
  daemonCommand,
  type Texts,
} from '../daemon/daemon-options.ts';
import { recordOf } from '../daemon/find-daemon.ts';
import { printPages } from '../daemon/read-pages.ts';
import { Exit, exitCodes } from '../exit.ts';
import { flagNames, gatherItems, limitOf, scopesHelp, timeOption } from '../flags.ts';
import { excerpt, instantOf, printData, printItems, say } from '../output/output.ts';

interface LinkFlags extends DaemonOptions {
  readonly scope?: readonly string[];
  readonly topic?: readonly string[];
  readonly name?: string;
}
interface SignOutFlags extends DaemonOptions {
  readonly all?: boolean;
}
interface TokenFlags extends DaemonOptions {
  readonly scope?: readonly string[];
  readonly topic?: readonly string[];
  readonly expires?: string;
}
type AuditFlags = DaemonOptions & Texts<'topic' | 'actor' | 'since'> & { readonly limit: string };

export function register(program: Command): void {
  const sessions = callsDaemon(program.command('console').action(printLink))
    .description('print a link that signs in to the console; works once, for 10 min')
    .option('--scope <list>', scopesHelp, gatherItems)
    .option('--topic <glob>', 'only these topics: order.*; repeatable', gatherItems)
    .option('--name <name>', 'name of the session; default: the system user')
    .addHelpText('after', '\nWithout --scope and --topic: all rights of the caller.');
  daemonCommand(sessions, 'sessions', 'list the sessions of the console', listSessions);
  daemonCommand(sessions, 'sign-out', 'end a session of the console; effective within 2 s', endSession)
    .argument('[id]')
    .option('--all', 'end all sessions')
    .option('-y, --yes', 'do not ask');
  const tokens = program
    .command('token')
    .description('access tokens; once one exists, every request needs one');
  daemonCommand(tokens, 'add', 'make a token and print it once; of a stopped daemon, too', addToken)
    .argument('<name>')
    .option('--scope <list>', scopesHelp, gatherItems)
    .option('--topic <glob>', 'only these topics: order.*; repeatable', gatherItems)
    .option('--expires <duration>', 'dq rejects it after this time, such as 90d')
    .addHelpText(
      'after',
      '\nWithout --scope: push,read; clients that pull jobs need pull. Without --topic: every topic. Without --expires: it does not end.',
    );
  daemonCommand(tokens, 'ls', 'list tokens', listTokens);
  daemonCommand(tokens, 'rm', 'remove a token; effective within 2 s', removeToken)
    .argument('<name>')
    .option('-y, --yes', 'do not ask');
  daemonCommand(program, 'audit', 'list changes by operators and sign-ins, newest first', listChanges)
    .option('--topic <topic>', 'only changes of this topic')
    .option('--actor <name>', 'only changes by this token, link, session or user of the system')
    .addOption(timeOption('--since', 'earliest time'))
    .option('--limit <n>', 'maximum number of entries', '100');
}

async function printLink(flags: LinkFlags): Promise<void> {
  const client = clientOf(flags);
  const address = recordOf(flags, process.env)?.console;
  if (address === null)
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
  if (base === undefined) {
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

async function listSessions(flags: DaemonOptions): Promise<void> {
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

async function endSession(id: string | undefined, flags: SignOutFlags): Promise<void> {
  if ((id === undefined) === (flags.all !== true))
    throw new Exit('usage', 'give the id of a session (dq console sessions), or --all');
  const call =
    id === undefined ? { path: ['v1', 'sessions'], query: { all: true } } : { path: ['v1', 'sessions', id] };
  const question = id === undefined ? 'End all sessions of the console?' : undefined;
  await ask(flags, { method: 'DELETE', ...call, needs: ['deleted'] }, question);
  say(`dq: ended ${id === undefined ? 'all sessions' : `the session ${id}`}; effective within 2 s`);
}

async function addToken(name: string, flags: TokenFlags): Promise<void> {
  const { expires: expiresIn, topic: topics } = flags;
  const json = { name, scopes: flags.scope ?? ['push', 'read'], topics, expiresIn };
  const title = `token ${name} with the scopes ${json.scopes.join(',')}`;
  let reply: ApiReply<CreatedTokenJson>;
  try {
    reply = await ask<CreatedTokenJson>(flags, {
      method: 'POST',
      path: ['v1', 'tokens'],
      json,
      flags: { scopes: '--scope', topics: '--topic', expiresIn: '--expires' },
      needs: ['token'],
    });
  } catch (error) {
    if (!(error instanceof Exit) || error.exitCode !== exitCodes.notRunning) throw error;
    // Loaded here: it has the registry, which a call of a daemon does not need.
    const { addTokenOffline } = await import('../start/token-offline.ts');
    const token = await addTokenOffline(json, flags);
    say(`dq: no daemon is running; ${title}, shown only once, valid from the next start:`);
    printData(flags.json ? JSON.stringify({ ...json, token }) : token);
    return;
  }
  if (flags.json) return;
  say(`dq: ${title}, shown only once, valid within 2 s:`);
  printData(reply.json.token);
  if ((await countOf(flags)) === 1)
    say('dq: warning: it is the first token: from now on dq rejects every call of the API without one');
}

/** null: unknown. */
async function countOf(flags: DaemonOptions): Promise<number | null> {
  const call = { path: ['v1', 'tokens'], needs: ['items'] };
  const reply = clientOf(flags).call<ReplyOf<typeof listTokensSchema>>(call);
  return reply.then(
    ({ json }) => json.items.length,
    () => null,
  );
}

async function listTokens(flags: DaemonOptions): Promise<void> {
  const call = { path: ['v1', 'tokens'], needs: ['items'] };
  const { json } = await ask<ReplyOf<typeof listTokensSchema>>(flags, call);
  if (!flags.json)
    printItems(json.items, {
      NAME: 'name',
      'BEGINS WITH': ({ id }) => `dqk_${id}_`,
      SCOPES: 'scopes',
      TOPICS: 'topics',
      'CREATED AT': instantOf('createdAt'),
      'LAST USED AT': instantOf('lastUsedAt'),
      'EXPIRES AT': instantOf('expiresAt'),
    });
}

async function removeToken(name: string, flags: DaemonOptions): Promise<void> {
  const call = { method: 'DELETE', path: ['v1', 'tokens', name], needs: ['deleted'] } as const;
  await ask(flags, call, `Remove the token ${name}? dq rejects it from then on.`);
  say(`dq: removed the token ${name}; effective within 2 s`);
}

const detailMax = 160;

async function listChanges(flags: AuditFlags): Promise<void> {
  const { topic, actor, since } = flags;
  const query = { topic, actor, since };
  await printPages<AuditEntryJson>(
    flags,
    { path: ['v1', 'audit'], query, flags: flagNames(Object.keys(query)) },
    {
      AT: instantOf('at'),
      ACTOR: 'actor',
      ADDRESS: 'address',
      ACTION: 'action',
      TOPIC: 'topic',
      ID: 'jobId',
      OUTCOME: ({ code }) => code ?? 'ok',
      DETAIL: ({ detail }) => excerpt(detailOf(detail), detailMax),
    },
    { limit: limitOf(flags.limit), what: 'entries' },
  );
}

function detailOf(detail: AuditEntryJson['detail']): string {
  const { changes = [], filter = {}, count } = detail ?? {};
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return [
    ...changes.map(({ field, before, after }) => `${field}: ${text(before)} → ${text(after)}`),
    ...Object.entries(filter).map(([name, value]) => `${name}=${text(value)}`),
    ...(count === undefined ? [] : [`count=${count}`]),
  ].join(', ');
}
