// dq dead: lists, requeues and purges dead letters.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { readPages } from '../daemon/read-pages.ts';
import { filterFlags, purgeDead, requeueDead } from '../dead-bulk.ts';
import { Exit } from '../exit.ts';
import { excerpt, printData, printTable, say } from '../output/output.ts';
import { limitOf } from '../whole-number.ts';

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
  readonly lastReason: string | null;
  readonly status: number | null;
  readonly attempt: number;
  readonly replyExcerpt: string | null;
}

const excerptMax = 80;

export function register(program: Command): void {
  const family = program.command('dead').description('dead letters: jobs whose attempts are used up');
  const ls = family
    .command('ls [topic]')
    .description('list dead letters, newest first')
    .option('--limit <n>', 'maximum number of dead letters', '100');
  withDaemonOptions(withFilter(ls)).action(ofTopic(list));
  const requeue = family
    .command('requeue [topic]')
    .description('deliver dead letters again, with all their attempts');
  withDaemonOptions(withChoice(withFilter(requeue))).action(ofTopic(requeueDead));
  const purge = family
    .command('purge [topic]')
    .description('remove dead letters for good')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(withChoice(withFilter(purge))).action(ofTopic(purgeDead));
}

function withChoice(command: Command): Command {
  return command
    .option(
      '--id <id>',
      'id of a dead letter (needs its topic); repeatable',
      (text: string, all: readonly string[] | undefined) => [...(all ?? []), text],
    )
    .option('--all', 'all dead letters, of one topic or of every topic');
}

function withFilter(command: Command): Command {
  return command
    .option('--topic <topic>', 'topic, the same as the argument')
    .option('--since <time>', 'earliest time of death: RFC 3339 with an offset, or epoch milliseconds')
    .option('--until <time>', 'end of the time of death, exclusive');
}

/** Accepts the topic as an argument, like other commands, or as --topic, like the commands in alert mails. */
function ofTopic<Flags extends FilterFlags>(
  action: (flags: Flags) => Promise<void>,
): (topic: string | undefined, flags: Flags) => Promise<void> {
  return (topic, flags) => {
    if (topic !== undefined && flags.topic !== undefined && flags.topic !== topic)
      throw new Exit('usage', `two topics: ${topic} and --topic ${flags.topic}`);
    return action(topic === undefined ? flags : { ...flags, topic });
  };
}

async function list(flags: FilterFlags & { readonly limit: string }): Promise<void> {
  const limit = limitOf(flags.limit);
  const { topic, since, until } = flags;
  const letters: DeadLetter[] = [];
  const call = {
    method: 'GET',
    path: ['v1', 'dead'],
    query: { topic, since, until },
    flags: filterFlags,
  } as const;
  const more = await readPages<DeadLetter>(clientOf(flags), call, limit, (page) => {
    if (flags.json) printData(page.text);
    else letters.push(...page.json.items);
  });
  if (!flags.json) {
    printTable(
      ['TOPIC', 'ID', 'DEAD AT', 'REASON', 'LAST REASON', 'STATUS', 'ATTEMPTS', 'REPLY'],
      letters.map((one) => [
        one.topic,
        one.id,
        one.deadAt,
        one.reason,
        one.lastReason ?? '',
        one.status === null ? '' : String(one.status),
        String(one.attempt),
        excerpt(one.replyExcerpt ?? '', excerptMax),
      ]),
    );
  }
  if (more) say(`dq: more than ${limit} dead letters match; raise --limit`);
}
