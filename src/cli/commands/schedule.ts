// dq schedule: recurring jobs.

import type { Command } from 'commander';
import { createOffsetClock } from '../../core/calendar.ts';
import { beyondBounds } from '../../core/json-bounds.ts';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { agree, printData, printRecord, printTable, say } from '../output/output.ts';

interface Flags extends DaemonOptions {
  readonly topic?: string;
  readonly cron?: string;
  readonly every?: string;
  readonly timezone?: string;
  readonly body?: string;
  readonly type?: string;
  readonly missed?: string;
}
interface RemoveFlags extends DaemonOptions {
  readonly yes?: boolean;
}

interface Schedule {
  readonly name: string;
  readonly topic: string;
  readonly cron: string | null;
  readonly every: string | null;
  readonly timezone: string;
  readonly body: string;
  readonly contentType: string | null;
  readonly missed: string;
  readonly paused: boolean;
  readonly nextAt: string | null;
  readonly lastAt: string | null;
  readonly problem: string | null;
  readonly nextTimes?: readonly string[];
}

const apiFlags = {
  ...{ topic: '--topic', cron: '--cron', every: '--every', timezone: '--timezone' },
  ...{ body: '--body', contentType: '--type', missed: '--missed' },
};

export function register(program: Command): void {
  const family = program.command('schedule').description('recurring jobs');
  const withSettings = (command: Command): Command =>
    command
      .option('--topic <topic>', 'topic of the jobs')
      .option('--cron <expression>', "minute hour day month weekday, such as '0 9 * * 1-5'; or @daily")
      .option('--every <duration>', 'in place of --cron: 30s, 10m, 1d')
      .option('--timezone <name>', 'of --cron, such as Asia/Shanghai; default: the option timezone')
      .option('--body <body>', 'body of each job; JSON, or a text with --type')
      .option('--type <type>', 'content type of the body; default: application/json')
      .option('--missed <policy>', 'instants missed by over a minute: skip (default), last');
  const add = withSettings(family.command('add').description('create a schedule').argument('<name>'));
  add.addHelpText(
    'after',
    `
Examples:
  dq schedule add daily-report --topic report --cron '0 9 * * 1-5' --timezone Asia/Shanghai
  dq schedule add cleanup --topic cleanup --every 10m --body '{"older":"1d"}'`,
  );
  withDaemonOptions(add).action((name: string, flags: Flags) => write('POST', name, flags));
  const set = withSettings(family.command('set').description('change a schedule').argument('<name>'));
  withDaemonOptions(set).action((name: string, flags: Flags) => write('PATCH', name, flags));
  withDaemonOptions(family.command('ls').description('list schedules')).action(list);
  withDaemonOptions(
    family.command('show').description('show a schedule and its next times').argument('<name>'),
  ).action(show);
  for (const [verb, description] of [
    ['pause', 'make no jobs until it is resumed'],
    ['resume', 'make jobs again, from the next time on'],
    ['run', 'push one job now'],
  ] as const)
    withDaemonOptions(family.command(verb).description(description).argument('<name>')).action(
      (name: string, flags: DaemonOptions) => act(verb, name, flags),
    );
  const rm = family
    .command('rm')
    .description('remove a schedule; its jobs stay')
    .argument('<name>')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(rm).action(remove);
}

async function write(method: 'POST' | 'PATCH', name: string, flags: Flags): Promise<void> {
  const { topic, cron, every, timezone, type: contentType, missed } = flags;
  if (method === 'POST' && cron === undefined && every === undefined)
    throw new Exit('usage', 'give --cron or --every');
  const json = { topic, cron, every, timezone, contentType, missed, body: bodyOf(flags) };
  const reply = await clientOf(flags).call<Schedule>({
    method,
    path: method === 'POST' ? ['v1', 'schedules'] : ['v1', 'schedules', name],
    json: method === 'POST' ? { name, ...json } : json,
    flags: apiFlags,
    needs: ['name', 'nextAt'],
  });
  if (flags.json) printData(reply.text);
  say(`dq: schedule ${name}: ${nextOf(reply.json)}`);
}

function bodyOf({ body, type }: Flags): unknown {
  if (body === undefined) return undefined;
  if (type !== undefined && !/^application\/json\b/i.test(type)) return body;
  try {
    const value: unknown = JSON.parse(body);
    const mistake = beyondBounds(body);
    if (mistake === null) return value;
    throw new Error(mistake);
  } catch (error) {
    throw new Exit(
      'usage',
      `--body: invalid JSON (${(error as Error).message}); for a text, add --type text/plain`,
      {
        cause: error,
      },
    );
  }
}

function nextOf(one: Schedule): string {
  if (one.paused) return 'paused';
  return one.nextAt === null ? 'no time follows' : `next at ${localTime(one, one.nextAt)}`;
}

/** `at`: RFC 3339. In the time zone of the schedule; of one with --every in UTC. */
const localTime = ({ cron, timezone }: Pick<Schedule, 'cron' | 'timezone'>, at: string): string =>
  cron === null ? at : createOffsetClock(timezone)(Date.parse(at));

async function list(flags: DaemonOptions): Promise<void> {
  const client = clientOf(flags);
  const items: Schedule[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { limit: 1_000, cursor: cursor ?? undefined };
    const { json } = await client.call<{ items: readonly Schedule[]; nextCursor: string | null }>({
      ...{ method: 'GET', path: ['v1', 'schedules'], query, needs: ['items'] },
    });
    items.push(...json.items);
    cursor = json.nextCursor;
  }
  if (flags.json) {
    printData(JSON.stringify({ items }));
    return;
  }
  printTable(
    ['NAME', 'TOPIC', 'TIMES', 'TIME ZONE', 'NEXT AT', 'LAST AT', 'PROBLEM'],
    items.map((one) => [
      ...[one.name, one.topic, timesOf(one), one.cron === null ? '' : one.timezone],
      one.paused ? 'paused' : one.nextAt === null ? '' : localTime(one, one.nextAt),
      one.lastAt === null ? '' : localTime(one, one.lastAt),
      one.problem ?? '',
    ]),
  );
}

const timesOf = ({ cron, every }: Schedule): string => cron ?? `every ${every ?? '?'}`;

async function show(name: string, flags: DaemonOptions): Promise<void> {
  const reply = await clientOf(flags).call<Schedule>({
    ...{ method: 'GET', path: ['v1', 'schedules', name], needs: ['name', 'nextAt'] },
  });
  if (flags.json) {
    printData(reply.text);
    return;
  }
  const { json: one } = reply;
  printRecord([
    ['name', one.name],
    ['topic', one.topic],
    ['times', timesOf(one)],
    ...(one.cron === null ? [] : [['time zone', one.timezone] as const]),
    ['missed', one.missed],
    ['body', one.body],
    ['state', nextOf(one)],
    ['last at', one.lastAt === null ? '' : localTime(one, one.lastAt)],
    ...(one.problem === null ? [] : [['problem', one.problem] as const]),
  ]);
  const times = one.nextTimes ?? [];
  if (times.length === 0) return;
  process.stdout.write('\n');
  printTable(
    ['NEXT TIMES'],
    times.map((at) => [localTime(one, at)]),
  );
}

async function act(verb: 'pause' | 'resume' | 'run', name: string, flags: DaemonOptions): Promise<void> {
  const reply = await clientOf(flags).call<Schedule & { readonly id: string }>({
    ...{ method: 'POST', path: ['v1', 'schedules', name, verb] },
  });
  if (flags.json) printData(reply.text);
  else if (verb === 'run') printData(reply.json.id);
  if (verb === 'run') say(`dq: pushed one job of the schedule ${name}`);
  else say(`dq: schedule ${name}: ${nextOf(reply.json)}`);
}

async function remove(name: string, flags: RemoveFlags): Promise<void> {
  await agree(`Remove the schedule ${name}? Jobs that exist stay.`, flags.yes);
  const reply = await clientOf(flags).call({
    ...{ method: 'DELETE', path: ['v1', 'schedules', name], needs: ['deleted'] },
  });
  if (flags.json) printData(reply.text);
  say(`dq: removed the schedule ${name}`);
}
