// dq dead: the dead letters, and bringing them back.

import type { Command } from 'commander';
import type { ApiClient, ApiReply } from '../api-client.ts';
import type { DaemonOptions } from '../daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon-options.ts';
import { Exit } from '../exit.ts';
import { excerpt, printData, printTable, say } from '../output.ts';
import { readPages } from '../read-pages.ts';

interface FilterFlags extends DaemonOptions {
  readonly topic?: string;
  readonly since?: string;
  readonly until?: string;
}

interface RequeueFlags extends FilterFlags {
  readonly id?: readonly string[];
  readonly all?: boolean;
}

interface DeadLetter {
  readonly topic: string;
  readonly id: string;
  readonly deadAt: string;
  readonly reason: string;
  readonly status: number | null;
  readonly attempt: number;
  readonly replyExcerpt: string | null;
}

const excerptMax = 80;

export function register(program: Command): void {
  const family = program.command('dead').description('dead letters: jobs whose attempts are used up');
  const ls = family
    .command('ls')
    .description('list them, the newest death first')
    .option('--limit <n>', 'at most this many', '100');
  withDaemonOptions(withFilter(ls)).action(list);
  const requeue = family
    .command('requeue')
    .description('deliver them again, with all their attempts; needs a filter or --all')
    .option(
      '--id <id>',
      'this one (needs --topic); repeatable',
      (text: string, all: readonly string[] | undefined) => [...(all ?? []), text],
    )
    .option('--all', 'every dead letter of every topic');
  withDaemonOptions(withFilter(requeue)).action(requeueDead);
}

function withFilter(command: Command): Command {
  return command
    .option('--topic <topic>', 'of this topic')
    .option('--since <time>', 'that died then or later: RFC 3339 with an offset, or epoch milliseconds')
    .option('--until <time>', 'that died before');
}

async function list(flags: FilterFlags & { readonly limit: string }): Promise<void> {
  if (!/^[1-9]\d{0,8}$/.test(flags.limit)) throw new Exit('usage', '--limit is a whole number from 1');
  const { topic, since, until } = flags;
  const letters: DeadLetter[] = [];
  const call = { method: 'GET', path: ['v1', 'dead'], query: { topic, since, until } } as const;
  const more = await readPages<DeadLetter>(clientOf(flags), call, Number(flags.limit), (page) => {
    if (flags.json) printData(page.text);
    else letters.push(...page.json.items);
  });
  if (!flags.json) {
    printTable(
      ['TOPIC', 'ID', 'DEAD AT', 'REASON', 'STATUS', 'ATTEMPTS', 'REPLY'],
      letters.map((one) => [
        one.topic,
        one.id,
        one.deadAt,
        one.reason,
        one.status === null ? '' : String(one.status),
        String(one.attempt),
        excerpt(one.replyExcerpt ?? '', excerptMax),
      ]),
    );
  }
  if (more) say(`dq: there are more than ${flags.limit}; --limit shows them`);
}

interface Requeued {
  readonly requeued: number;
  readonly more: boolean;
}

async function requeueDead(flags: RequeueFlags): Promise<void> {
  const { topic, since, until, id: ids, all } = flags;
  if (topic === undefined && since === undefined && until === undefined && !all)
    throw new Exit('usage', 'name what to requeue: --topic, --since, --until, --id, or --all');
  const client = clientOf(flags);
  const filter = { topic, since, until, ids, ...(all ? { all: true } : {}) };
  const end = ids === undefined ? await newestDeath(client, filter) : until;
  const total = await requeueAll(client, { ...filter, until: end }, flags.json === true);
  if (ids !== undefined && total < new Set(ids).size)
    throw new Exit(
      total === 0 ? 'notFound' : 'partlyFailed',
      `${total} of ${new Set(ids).size} were dead letters`,
    );
  say(`dq: ${total} requeued`);
}

/** A job that dies again while this command runs must not be requeued again, for ever: what died after the newest of the
 *  letters that are here now stays. By the store's own times; this machine's clock may be another. */
async function newestDeath(
  client: ApiClient,
  {
    topic,
    since,
    until,
  }: {
    readonly topic: string | undefined;
    readonly since: string | undefined;
    readonly until: string | undefined;
  },
): Promise<string | undefined> {
  const { json } = await client.call<{ items: readonly DeadLetter[] }>({
    method: 'GET',
    path: ['v1', 'dead'],
    query: { topic, since, until, limit: 1 },
  });
  const newest = json.items[0];
  return newest === undefined ? until : new Date(Date.parse(newest.deadAt) + 1).toISOString();
}

async function requeueAll(client: ApiClient, filter: object, json: boolean): Promise<number> {
  let total = 0;
  for (;;) {
    let reply: ApiReply<Requeued>;
    try {
      reply = await client.call<Requeued>({ method: 'POST', path: ['v1', 'dead', 'requeue'], json: filter });
    } catch (error) {
      if (total === 0 || !(error instanceof Exit)) throw error;
      throw new Exit('partlyFailed', `${total} requeued, then: ${error.message}`, { cause: error });
    }
    total += reply.json.requeued;
    if (json) printData(reply.text);
    if (!reply.json.more) return total;
    say(`dq: ${total} requeued, more to come`);
  }
}
