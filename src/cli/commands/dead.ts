// dq dead: lists, requeues and purges dead letters. To requeue or purge many repeats the API call until no
// dead letter of the start is left, and shows the progress. A failure keeps the finished part and reports its
// size. The daemon does the other kinds of bulk work by itself, as an operation.

import type { Command } from 'commander';
import type {
  DeadGroupsJson,
  DeadLetterJson,
  purgeDeadSchema,
  requeueDeadSchema,
} from '../../contract/api/dead.ts';
import type { JobJson } from '../../contract/api/job.ts';
import type { PageOf, ReplyOf } from '../../contract/api/schema.ts';
import { messageOf } from '../../core/errors.ts';
import { deadReasons } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import type { OperationKind } from '../../core/operation.ts';
import type { ApiCall, ApiClient, FlagNames } from '../daemon/api-client.ts';
import {
  ask,
  clientOf,
  type DaemonOptions,
  daemonCommand,
  type Switches,
  type Texts,
} from '../daemon/daemon-options.ts';
import { countJobs, printPages, sayMissing } from '../daemon/read-pages.ts';
import { Exit, exitCodes } from '../exit.ts';
import { flagNames, gather, limitOf, timeOption, wholeOf } from '../flags.ts';
import { agree, excerpt, instantOf, printData, printItems, say } from '../output/output.ts';
import { startProgress } from '../output/progress.ts';
import { runOperation } from './operations.ts';

type FilterFlags = DaemonOptions &
  Texts<'topic' | 'since' | 'until' | 'deadReason' | 'lastReason' | 'status'>;

const excerptMax = 80;

export function register(program: Command): void {
  const family = program.command('dead').description('dead letters: jobs whose attempts are used up');
  const ls = daemonCommand(family, 'ls [topic]', 'list dead letters, newest first', ofTopic(list));
  withFilter(ls).option('--limit <n>', 'maximum number of dead letters', '100');
  withFilter(
    daemonCommand(family, 'groups [topic]', 'count dead letters by topic and cause', ofTopic(groups)),
  );
  const again = 'deliver dead letters again, with all their attempts';
  const requeue = daemonCommand(family, 'requeue [topic]', again, ofTopic(requeueDead));
  withChoice(requeue).option('--spread <duration>', 'spread them evenly over this time, such as 10m');
  const purge = daemonCommand(family, 'purge [topic]', 'remove dead letters for good', ofTopic(purgeDead));
  withChoice(purge).option('-y, --yes', 'do not ask');
}

function withChoice(command: Command): Command {
  return withFilter(command)
    .option('--id <id>', 'id of a dead letter (needs its topic); repeatable', gather)
    .option('--all', 'all dead letters, of one topic or of every topic')
    .option('--dry-run', 'only count the dead letters')
    .option('--rate <n>', 'dead letters per second at most');
}

function withFilter(command: Command): Command {
  return command
    .option('--topic <topic>', 'topic, the same as the argument')
    .addOption(timeOption('--since', 'earliest time of death'))
    .addOption(timeOption('--until', 'end of the time of death, exclusive'))
    .option('--dead-reason <reason>', `why the job became a dead letter: ${deadReasons.join(', ')}`)
    .option(
      '--last-reason <reason>',
      'why its last attempt failed: status, rule, timeout, connect …; or none',
    )
    .option('--status <status>', 'HTTP status of its last attempt, such as 500 or 5xx; or none');
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

interface ListFlags extends FilterFlags {
  readonly limit: string;
}

/** The filter of a command, without its topic. */
const filterOf = ({ since, until, deadReason, lastReason, status }: FilterFlags) => ({
  since,
  until,
  deadReason,
  lastReason,
  status,
});

async function list(flags: ListFlags): Promise<void> {
  const { topic } = flags;
  const query = filterOf(flags);
  await printPages<DeadLetterJson>(
    flags,
    { path: ['v1', 'dead'], query: { topic, ...query }, flags: flagNames(Object.keys(query)) },
    {
      TOPIC: 'topic',
      ID: 'id',
      'DEAD AT': instantOf('deadAt'),
      'DEAD REASON': 'deadReason',
      'LAST REASON': 'lastReason',
      STATUS: 'status',
      ATTEMPTS: 'attempt',
      REPLY: ({ replyExcerpt, detail }) => excerpt(replyExcerpt || (detail ?? ''), excerptMax),
    },
    {
      limit: limitOf(flags.limit),
      what: 'dead letters',
      // The counts know topics alone.
      countOf: async (client) =>
        Object.values(query).some((given) => given !== undefined) ? null : countJobs(client, topic, ['dead']),
    },
  );
}

async function groups(flags: FilterFlags): Promise<void> {
  const query = filterOf(flags);
  const { json } = await ask<DeadGroupsJson>(flags, {
    path: ['v1', 'dead', 'groups'],
    query: { topic: flags.topic, ...query },
    flags: flagNames(Object.keys(query)),
    needs: ['groups'],
  });
  if (flags.json) return;
  printItems(json.groups, {
    TOPIC: 'topic',
    'DEAD REASON': 'deadReason',
    'LAST REASON': 'lastReason',
    STATUS: 'status',
    COUNT: 'count',
    FIRST: instantOf('firstAt'),
    LAST: instantOf('lastAt'),
  });
  sayMissing(json.missing, 'counted');
  if (!json.complete) say(`dq: only the newest ${json.examined} dead letters are counted`);
}

type BulkFlags = FilterFlags &
  Texts<'rate' | 'spread'> &
  Switches<'all' | 'dryRun'> & { readonly id?: readonly string[] };

/** Flags of an operation by API field name. */
const operationFlags: FlagNames = {
  ...flagNames(['since', 'until', 'deadReason', 'lastReason', 'status', 'spread', 'rate']),
  ids: '--id',
};

/** Flags by API field name. */
const filterFlags: FlagNames = { ...flagNames(['since', 'until', 'all']), ids: '--id' };

interface Filter {
  readonly topic: string | undefined;
  readonly since: string | undefined;
  readonly until: string | undefined;
  readonly ids: readonly string[] | undefined;
  readonly all: boolean | undefined;
}

async function requeueDead(flags: BulkFlags): Promise<void> {
  requireChoice(flags, 'requeue');
  if (needsOperation(flags)) {
    await operate(flags, 'requeue', 'requeued');
    return;
  }
  const job = await begin(flags);
  await work(job, 'requeued', flags.json, (json) => ({
    method: 'POST',
    path: ['v1', 'dead', 'requeue'],
    json,
  }));
}

async function purgeDead(flags: BulkFlags): Promise<void> {
  requireChoice(flags, 'purge');
  const job = needsOperation(flags) ? null : await begin(flags);
  if (flags.dryRun !== true && flags.yes !== true)
    await agree(`Remove ${await shownCount(flags, job)} for good?`, flags.yes);
  if (job === null) {
    await operate(flags, 'purge', 'purged');
    return;
  }
  await work(job, 'purged', flags.json, ({ ids, ...query }) => ({
    method: 'DELETE',
    path: ['v1', 'dead'],
    query: { ...query, ids: ids === undefined ? undefined : JSON.stringify(ids) },
  }));
}

/** How many would go. Only an operation counts those of a filter, and prints their number. */
async function shownCount(flags: BulkFlags, job: Bulk | null): Promise<string> {
  const { since, until } = flags;
  const isCounted = job !== null && since === undefined && until === undefined;
  const count = isCounted
    ? job.count
    : await operate({ ...flags, dryRun: true, json: false }, 'purge', 'purged');
  return count === null ? 'the dead letters of this choice' : `${count} dead letters`;
}

/** The reply to one call: each of the two verbs has a count of its own. */
type Moved = Partial<ReplyOf<typeof requeueDeadSchema> & ReplyOf<typeof purgeDeadSchema>>;

interface Bulk {
  readonly client: ApiClient;
  readonly filter: Filter;
  /** null = unknown */
  readonly count: number | null;
}

/** A forgotten filter must not change every dead letter. */
function requireChoice(flags: BulkFlags, verb: string): void {
  const { topic, id, all } = flags;
  const isGiven = [topic, ...Object.values(filterOf(flags))].some((given) => given !== undefined);
  if (id !== undefined && topic === undefined) throw new Exit('usage', '--id needs a topic');
  if (!isGiven && !all)
    throw new Exit('usage', `select what to ${verb}: a topic, --since, --dead-reason, --status …, or --all`);
}

/** Whether the calls for dead letters lack what the flags ask for. */
function needsOperation({ dryRun, rate, spread, ...flags }: BulkFlags): boolean {
  const { since: _, until: __, ...marks } = filterOf(flags);
  return dryRun === true || [rate, spread, ...Object.values(marks)].some((given) => given !== undefined);
}

/** Returns how many dead letters were moved, or would be. */
async function operate(flags: BulkFlags, kind: OperationKind, done: string): Promise<number> {
  const { topic, id, all, dryRun, rate, spread } = flags;
  const filter = { topic, ...filterOf(flags), ids: id && [...new Set(id)] };
  const pace = rate === undefined ? {} : { rate: wholeOf('--rate', rate, 1, limits.operationRateMax) };
  const client = clientOf(flags);
  const moved = await runOperation(
    client,
    { kind, filter, all, spread, ...pace, dryRun: dryRun === true },
    { done, flags: operationFlags, asJson: flags.json },
  );
  if (dryRun !== true) await requireAll(client, filter, moved, done);
  return moved;
}

async function begin({ topic, since, until, id, all, ...flags }: BulkFlags): Promise<Bulk> {
  const client = clientOf(flags);
  if (id !== undefined) {
    const ids = [...new Set(id)];
    return { client, filter: { topic, since, until, ids, all }, count: ids.length };
  }
  const count = since === undefined && until === undefined ? await countJobs(client, topic, ['dead']) : null;
  const end = await newestDeath(client, { topic, since, until });
  return { client, filter: { topic, since, until: end, ids: undefined, all }, count };
}

/** Upper bound of the work: a job that dies again while this command runs must not be requeued for ever.
 *  Uses the store's times, because the clock of this machine may differ. */
async function newestDeath(
  client: ApiClient,
  { topic, since, until }: Pick<Filter, 'topic' | 'since' | 'until'>,
): Promise<string | undefined> {
  const { json } = await client.call<PageOf<DeadLetterJson>>({
    path: ['v1', 'dead'],
    query: { topic, since, until, limit: 1 },
    flags: filterFlags,
    needs: ['items'],
  });
  const newest = json.items[0];
  return newest === undefined ? until : new Date(Date.parse(newest.deadAt) + 1).toISOString();
}

async function work(
  { client, filter, count }: Bulk,
  done: 'requeued' | 'purged',
  asJson: boolean | undefined,
  callOf: (filter: Filter) => ApiCall,
): Promise<void> {
  const progress = startProgress(done, count);
  let total = 0;
  // The exit code when the reader closes the output before the end.
  process.exitCode = exitCodes.partlyFailed;
  try {
    for (let more = true; more; ) {
      const { text, json } = await client.call<Moved>({
        ...callOf(filter),
        flags: filterFlags,
        needs: [done, 'more'],
      });
      total += json[done] ?? 0;
      progress.add(json[done] ?? 0);
      if (asJson) printData(text);
      more = json.more === true;
    }
  } catch (error) {
    if (total === 0 || !(error instanceof Exit)) throw error;
    throw new Exit('partlyFailed', `${total} ${done}, then a failure: ${error.message}`, { cause: error });
  } finally {
    progress.stop();
  }
  await requireAll(client, filter, total, done);
  process.exitCode = exitCodes.ok;
  say(`dq: ${total} ${done}`);
}

/** Throws Exit where fewer moved than were named. */
async function requireAll(
  client: ApiClient,
  { topic, ids = [] }: Pick<Filter, 'topic' | 'ids'>,
  moved: number,
  done: string,
): Promise<void> {
  if (moved >= ids.length || topic === undefined) return;
  const [id = '', ...others] = ids;
  const path = ['v1', 'topics', topic, 'jobs', id];
  const looked =
    others.length > 0
      ? `dq get ${topic} ID shows what another one is`
      : await client
          .call<JobJson>({ path, needs: ['state'] })
          .then(({ json }) => `the job is ${json.state}: dq get ${topic} ${id}`, messageOf);
  throw new Exit(moved === 0 ? 'notFound' : 'partlyFailed', `${moved} of ${ids.length} ${done}; ${looked}`);
}
