// dq token: access tokens. Prints a new token once, alone on stdout, so that a script can store it.

import type { Command } from 'commander';
import type { CreatedTokenJson, listTokensSchema } from '../../contract/api/access.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import type { ApiReply } from '../daemon/api-client.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit, exitCodes } from '../exit.ts';
import { gatherItems, scopesHelp } from '../flags.ts';
import { instantOf, printData, printItems, say } from '../output/output.ts';
import { addTokenOffline } from '../start/token-offline.ts';

interface AddFlags extends DaemonOptions {
  readonly scope?: readonly string[];
  readonly topic?: readonly string[];
  readonly expires?: string;
}

export function register(program: Command): void {
  const family = program
    .command('token')
    .description('access tokens; once one exists, every request needs one');
  daemonCommand(family, 'add', 'make a token and print it once; of a stopped daemon, too', addToken)
    .argument('<name>')
    .option('--scope <list>', scopesHelp, gatherItems)
    .option('--topic <glob>', 'only these topics: order.*; repeatable', gatherItems)
    .option('--expires <duration>', 'dq rejects it after this time, such as 90d')
    .addHelpText(
      'after',
      '\nWithout --scope: push,read; clients that pull jobs need pull. Without --topic: every topic. Without --expires: it does not end.',
    );
  daemonCommand(family, 'ls', 'list tokens', list);
  daemonCommand(family, 'rm', 'remove a token; effective within 2 s', remove)
    .argument('<name>')
    .option('-y, --yes', 'do not ask');
}

async function addToken(name: string, flags: AddFlags): Promise<void> {
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

async function list(flags: DaemonOptions): Promise<void> {
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

async function remove(name: string, flags: DaemonOptions): Promise<void> {
  const call = { method: 'DELETE', path: ['v1', 'tokens', name], needs: ['deleted'] } as const;
  await ask(flags, call, `Remove the token ${name}? dq rejects it from then on.`);
  say(`dq: removed the token ${name}; effective within 2 s`);
}
