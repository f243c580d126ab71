// dq dead: lists, requeues and purges dead letters.

import type { Command } from 'commander';
import { type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { printPages } from '../daemon/read-pages.ts';
import { filterFlags, purgeDead, requeueDead } from '../dead-bulk.ts';
import { Exit } from '../exit.ts';
import { gather, limitOf } from '../flags.ts';
import { excerpt } from '../output/output.ts';

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
  const ls = daemonCommand(family, 'ls [topic]', 'list dead letters, newest first', ofTopic(list));
  withFilter(ls.option('--limit <n>', 'maximum number of dead letters', '100'));
  const again = 'deliver dead letters again, with all their attempts';
  withChoice(withFilter(daemonCommand(family, 'requeue [topic]', again, ofTopic(requeueDead))));
  const purge = daemonCommand(family, 'purge [topic]', 'remove dead letters for good', ofTopic(purgeDead));
  withChoice(withFilter(purge.option('-y, --yes', 'do not ask')));
}

function withChoice(command: Command): Command {
  return command
    .option('--id <id>', 'id of a dead letter (needs its topic); repeatable', gather)
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
  const { topic, since, until } = flags;
  await printPages<DeadLetter>(
    flags,
    { path: ['v1', 'dead'], query: { topic, since, until }, flags: filterFlags },
    {
      TOPIC: 'topic',
      ID: 'id',
      'DEAD AT': 'deadAt',
      REASON: 'reason',
      'LAST REASON': 'lastReason',
      STATUS: 'status',
      ATTEMPTS: 'attempt',
      REPLY: ({ replyExcerpt }) => excerpt(replyExcerpt ?? '', excerptMax),
    },
    { limit: limitOf(flags.limit), what: 'dead letters' },
  );
}
