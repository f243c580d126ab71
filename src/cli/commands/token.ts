// dq token: access tokens. Prints a new token once, alone on stdout, so that a script can store it.

import type { Command } from 'commander';
import type { ApiReply } from '../daemon/api-client.ts';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { Exit, exitCodes } from '../exit.ts';
import { agree, printData, printTable, say } from '../output/output.ts';
import { addTokenOffline } from '../start/token-offline.ts';

interface AddFlags extends DaemonOptions {
  readonly scope?: readonly string[];
  readonly topic?: readonly string[];
  readonly expires?: string;
}
interface RemoveFlags extends DaemonOptions {
  readonly yes?: boolean;
}

interface Token {
  readonly name: string;
  readonly id: string;
  readonly scopes: readonly string[];
  readonly topics: readonly string[];
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

export function register(program: Command): void {
  const family = program
    .command('token')
    .description('access tokens; once one exists, every request needs one');
  const add = family
    .command('add')
    .description('make a token and print it once; works without a daemon')
    .argument('<name>');
  add
    .option('--scope <list>', 'push, read, operate, admin (includes all); repeatable', gather)
    .option('--topic <glob>', 'only these topics: order.*; repeatable', gather)
    .option('--expires <duration>', 'dq rejects it after this time, such as 90d')
    .addHelpText(
      'after',
      '\nWithout --scope: push,read. Without --topic: every topic. Without --expires: it does not end.',
    );
  withDaemonOptions(add).action(addToken);
  withDaemonOptions(family.command('ls').description('list tokens')).action(list);
  const rm = family
    .command('rm')
    .description('remove a token; effective within 2 s')
    .argument('<name>')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(rm).action(remove);
}

/** Collects a list option that may be repeated. */
export function gather(text: string, all: readonly string[] | undefined): readonly string[] {
  return [...(all ?? []), ...text.split(',').map((item) => item.trim())];
}

async function addToken(name: string, flags: AddFlags): Promise<void> {
  const { expires: expiresIn, topic: topics } = flags;
  const json = { name, scopes: flags.scope ?? ['push', 'read'], topics, expiresIn };
  let reply: ApiReply<{ token: string }>;
  try {
    reply = await clientOf(flags).call<{ token: string }>({
      method: 'POST',
      path: ['v1', 'tokens'],
      json,
      flags: { scopes: '--scope', topics: '--topic', expiresIn: '--expires' },
      needs: ['token'],
    });
  } catch (error) {
    if (!(error instanceof Exit) || error.exitCode !== exitCodes.notRunning) throw error;
    const token = await addTokenOffline(json, flags);
    say(`dq: no daemon is running; token ${name}, shown only once, valid from the next start:`);
    printData(flags.json ? JSON.stringify({ ...json, token }) : token);
    return;
  }
  if (flags.json) {
    printData(reply.text);
    return;
  }
  say(`dq: token ${name}, shown only once, valid within 2 s:`);
  printData(reply.json.token);
}

async function list(flags: DaemonOptions): Promise<void> {
  const reply = await clientOf(flags).call<{ items: readonly Token[] }>({
    method: 'GET',
    path: ['v1', 'tokens'],
    needs: ['items'],
  });
  if (flags.json) {
    printData(reply.text);
    return;
  }
  printTable(
    ['NAME', 'BEGINS WITH', 'SCOPES', 'TOPICS', 'CREATED AT', 'LAST USED AT', 'EXPIRES AT'],
    reply.json.items.map(({ name, id, scopes, topics, createdAt, lastUsedAt, expiresAt }) => [
      name,
      `dqk_${id}_`,
      scopes.join(','),
      topics.join(','),
      createdAt,
      lastUsedAt ?? '-',
      expiresAt ?? '-',
    ]),
  );
}

async function remove(name: string, flags: RemoveFlags): Promise<void> {
  const client = clientOf(flags);
  await agree(`Remove the token ${name}? dq rejects it from then on.`, flags.yes);
  const reply = await client.call({ method: 'DELETE', path: ['v1', 'tokens', name], needs: ['deleted'] });
  if (flags.json) printData(reply.text);
  say(`dq: removed the token ${name}; effective within 2 s`);
}
