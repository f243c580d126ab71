// dq import: brings topics and jobs of another delay queue into dq. One command per source.

import { type Command, Option } from 'commander';
import { readZone } from '../../core/calendar.ts';
import { callsDaemon } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { gather } from '../flags.ts';
import { openOuqiang } from '../import/ouqiang.ts';
import { openPhp } from '../import/php-delayqueue.ts';
import { openRedisDelayQueue } from '../import/redis-delay-queue.ts';
import { type ImportFlags, runImport } from '../import/run-import.ts';
import { mykit, openSdmq, type SdmqLayout, sdmq } from '../import/sdmq.ts';

interface PhpFlags extends ImportFlags {
  readonly mysql: string;
  readonly redis: readonly string[];
  readonly prefix: string;
  readonly status: '2xx' | 'any';
  readonly timezone: string;
}

export function register(program: Command): void {
  const family = program
    .command('import')
    .description('bring topics and jobs of another delay queue into dq');
  const php = family
    .command('php-delayqueue')
    .description('topics and jobs of php-delayqueue')
    .requiredOption('--mysql <url>', 'its database: mysql://user:password@host/dq')
    .option('--redis <address>', 'host:port[:password] instead of its table dq_redis; repeatable', gather, [])
    .option('--prefix <text>', 'prefix of its keys', 'dq_')
    .addOption(new Option('--only <what>', 'a part of the work').choices(['topics', 'jobs']))
    .addOption(
      new Option('--status <statuses>', 'statuses that count as success; any: also 4xx and 5xx, as there')
        .choices(['2xx', 'any'])
        .default('2xx'),
    )
    .option('--timezone <zone>', 'time zone of its times', Intl.DateTimeFormat().resolvedOptions().timeZone)
    .option('--replace', 'replace topics of dq that differ')
    .option('--move', 'remove each job there after it is stored; php-delayqueue may run');
  withImportOptions(php).action(async (flags: PhpFlags) => {
    const { mysql, redis, prefix, timezone } = flags;
    checkTimezone(timezone);
    const source = await openPhp({ mysql, redis, prefix, timezone, anyStatus: flags.status === 'any' });
    await runImport('php-delayqueue', source, flags);
  });

  const ouqiang = family
    .command('ouqiang')
    .description('jobs of ouqiang/delay-queue')
    .requiredOption('--redis <address>', 'host:port[:password], database 1, or redis://host:port/database')
    .option('--prefix <text>', 'prefix of its keys', 'dq_');
  withImportOptions(ouqiang).action((flags: ImportFlags & { redis: string; prefix: string }) =>
    runImport('ouqiang', openOuqiang(flags.redis, flags.prefix), flags),
  );

  addSdmq(family, 'sdmq', sdmq);
  addSdmq(family, 'mykit', mykit);

  const rdq = family
    .command('redis-delay-queue')
    .description('jobs of redis-delay-queue whose values are JSON')
    .requiredOption('--redis <address>', 'host:port[:password] or redis://host:port/database')
    .requiredOption('--project <name>', 'its project name');
  withImportOptions(rdq).action((flags: ImportFlags & { redis: string; project: string }) =>
    runImport('redis-delay-queue', openRedisDelayQueue(flags.redis, flags.project), flags),
  );
}

function addSdmq(family: Command, name: string, layout: SdmqLayout): void {
  const command = family
    .command(name)
    .description(`jobs of ${name === 'sdmq' ? 'sdmq' : 'mykit-delay'}`)
    .option('--mysql <url>', 'its database: mysql://user:password@host/database')
    .option('--redis <address>', 'host:port[:password] or redis://host:port/database');
  withImportOptions(command).action((flags: ImportFlags & { mysql?: string; redis?: string }) => {
    if (flags.mysql === undefined && flags.redis === undefined)
      throw new Exit('usage', 'give --mysql, --redis or both');
    return runImport(name, openSdmq(layout, flags.mysql, flags.redis), flags);
  });
}

function withImportOptions(command: Command): Command {
  command
    .option('--max-attempts <n>', 'attempts of each job in all; default: those of its topic')
    .option('--backoff <policy>', 'waits between attempts of each job; default: those of its topic')
    .option('--deadline <time>', 'no attempt starts later: a duration from the due time, or a time')
    .option('--dry-run', 'show what would happen; change nothing')
    .option('--state <file>', 'progress of this import; default: dq-import-SOURCE.state in this directory')
    .option('-y, --yes', 'do not ask')
    .option('--json', 'the report as JSON');
  return callsDaemon(command);
}

function checkTimezone(timezone: string): void {
  const zone = readZone(timezone);
  if (!zone.ok) throw new Exit('usage', `--timezone: ${zone.message}`);
}
