// dq schedule: recurring jobs.

import type { Command } from 'commander';
import type { ScheduleJson } from '../../contract/api/schedule.ts';
import { createOffsetClock } from '../../core/calendar.ts';
import { beyondBounds, isJsonType } from '../../core/json-text.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand, type Texts } from '../daemon/daemon-options.ts';
import { readAllPages } from '../daemon/read-pages.ts';
import { Exit } from '../exit.ts';
import { flagNames } from '../flags.ts';
import { printData, printItems, printRecord, printTable, say, shownInstant } from '../output/output.ts';

type Flags = DaemonOptions & Texts<'topic' | 'cron' | 'every' | 'timezone' | 'body' | 'type' | 'missed'>;

const apiFlags = {
  ...flagNames(['topic', 'cron', 'every', 'timezone', 'body', 'missed']),
  contentType: '--type',
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
  const add = daemonCommand(family, 'add', 'create a schedule', (name: string, flags: Flags) =>
    write('POST', name, flags),
  );
  withSettings(add.argument('<name>')).addHelpText(
    'after',
    `
Examples:
  dq schedule add daily-report --topic report --cron '0 9 * * 1-5' --timezone Asia/Shanghai
  dq schedule add cleanup --topic cleanup --every 10m --body '{"older":"1d"}'`,
  );
  const set = daemonCommand(family, 'set', 'change a schedule', (name: string, flags: Flags) =>
    write('PATCH', name, flags),
  );
  withSettings(set.argument('<name>'));
  daemonCommand(family, 'ls', 'list schedules', list);
  daemonCommand(family, 'show', 'show a schedule and its next times', show).argument('<name>');
  for (const [verb, description] of [
    ['pause', 'make no jobs until it is resumed'],
    ['resume', 'make jobs again, from the next time on'],
    ['run', 'push one job now'],
  ] as const)
    daemonCommand(family, verb, description, (name: string, flags: DaemonOptions) =>
      act(verb, name, flags),
    ).argument('<name>');
  daemonCommand(family, 'rm', 'remove a schedule; its jobs stay', remove)
    .argument('<name>')
    .option('-y, --yes', 'do not ask');
}

async function write(method: 'POST' | 'PATCH', name: string, flags: Flags): Promise<void> {
  const { topic, cron, every, timezone, type: contentType, missed } = flags;
  if (method === 'POST' && cron === undefined && every === undefined)
    throw new Exit('usage', 'give --cron or --every');
  const json = { topic, cron, every, timezone, contentType, missed, body: bodyOf(flags) };
  const reply = await ask<ScheduleJson>(flags, {
    method,
    path: method === 'POST' ? ['v1', 'schedules'] : ['v1', 'schedules', name],
    json: method === 'POST' ? { name, ...json } : json,
    flags: apiFlags,
    needs: ['name', 'nextAt'],
  });
  say(`dq: schedule ${name}: ${nextOf(reply.json)}`);
}

function bodyOf({ body, type }: Flags): unknown {
  if (body === undefined) return undefined;
  if (type !== undefined && !isJsonType(type)) return body;
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

function nextOf(one: ScheduleJson): string {
  if (one.paused) return 'paused';
  return one.nextAt === null ? 'no time follows' : `next at ${localTime(one, one.nextAt)}`;
}

/** `at`: RFC 3339. In the time zone of the schedule; one with --every has none. */
const localTime = ({ cron, timezone }: Pick<ScheduleJson, 'cron' | 'timezone'>, at: string | null): string =>
  at === null ? '' : cron === null ? shownInstant(at) : createOffsetClock(timezone)(Date.parse(at));

async function list(flags: DaemonOptions): Promise<void> {
  const items = await readAllPages<ScheduleJson>(clientOf(flags), { path: ['v1', 'schedules'] });
  if (flags.json) printData(JSON.stringify({ items }));
  else
    printItems(items, {
      NAME: 'name',
      TOPIC: 'topic',
      TIMES: timesOf,
      'TIME ZONE': ({ cron, timezone }) => (cron === null ? '' : timezone),
      'NEXT AT': (one) => (one.paused ? 'paused' : localTime(one, one.nextAt)),
      'LAST AT': (one) => localTime(one, one.lastAt),
      PROBLEM: 'problem',
    });
}

const timesOf = ({ cron, every }: ScheduleJson): string => cron ?? `every ${every ?? '?'}`;

async function show(name: string, flags: DaemonOptions): Promise<void> {
  const call = { path: ['v1', 'schedules', name], needs: ['name', 'nextAt'] };
  const { json: one } = await ask<ScheduleJson>(flags, call);
  if (flags.json) return;
  printRecord([
    ['name', one.name],
    ['topic', one.topic],
    ['times', timesOf(one)],
    ...(one.cron === null ? [] : [['time zone', one.timezone] as const]),
    ['missed', one.missed],
    ['body', one.body],
    ['state', nextOf(one)],
    ['last at', localTime(one, one.lastAt)],
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
  const path = ['v1', 'schedules', name, verb];
  const { json } = await ask<ScheduleJson & { readonly id: string }>(flags, { method: 'POST', path });
  if (verb !== 'run') {
    say(`dq: schedule ${name}: ${nextOf(json)}`);
    return;
  }
  if (!flags.json) printData(json.id);
  say(`dq: pushed one job of the schedule ${name}`);
}

async function remove(name: string, flags: DaemonOptions): Promise<void> {
  const call = { method: 'DELETE', path: ['v1', 'schedules', name], needs: ['deleted'] } as const;
  await ask(flags, call, `Remove the schedule ${name}? Jobs that exist stay.`);
  say(`dq: removed the schedule ${name}`);
}
