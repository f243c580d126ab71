// dq dead: the dead letters, bringing them back, removing them.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon-options.ts';
import { purgeDead, requeueDead } from '../dead-bulk.ts';
import { Exit } from '../exit.ts';
import { excerpt, printData, printTable, say } from '../output.ts';
import { readPages } from '../read-pages.ts';

interface FilterFlags extends DaemonOptions {
  readonly topic?: string;
  readonly since?: string;
  readonly until?: string;
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
    .description('deliver them again, with all their attempts; needs a filter or --all');
  withDaemonOptions(withChoice(withFilter(requeue))).action(requeueDead);
  const purge = family
    .command('purge')
    .description('remove them for good; needs a filter or --all')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(withChoice(withFilter(purge))).action(purgeDead);
}

function withChoice(command: Command): Command {
  return command
    .option(
      '--id <id>',
      'this one (needs --topic); repeatable',
      (text: string, all: readonly string[] | undefined) => [...(all ?? []), text],
    )
    .option('--all', 'every dead letter of every topic');
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
