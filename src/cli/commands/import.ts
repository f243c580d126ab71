// dq import: brings topics and jobs of another delay queue into dq. One command per source. Each reads topics
// first, then jobs, and ends with a report and an exit code.

import { type Command, Option } from 'commander';
import { options as optionTable } from '../../config/options.ts';
import { parseValue } from '../../config/parse.ts';
import type { ConfigJson } from '../../contract/api/daemon.ts';
import { readZone } from '../../core/calendar.ts';
import { topicOfForeign } from '../../core/topic/topic.ts';
import { ApiClient } from '../daemon/api-client.ts';
import { callsDaemon } from '../daemon/daemon-options.ts';
import { type DaemonFlags, findDaemon } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { gather } from '../flags.ts';
import { openRedisDelayQueue } from '../import/hash-jobs.ts';
import { type Count, countNames, type ImportParts, importJobs, JobReport } from '../import/import-jobs.ts';
import { ImportState } from '../import/import-state.ts';
import { importTopics, KnownTopics, type TopicResult } from '../import/import-topics.ts';
import { type JobSettingFlags, type JobSettings, jobSettingsOf } from '../import/job-settings.ts';
import { openOuqiang } from '../import/ouqiang.ts';
import { openPhp } from '../import/php-delayqueue.ts';
import { mykit, openSdmq, type SdmqLayout, sdmq } from '../import/sdmq.ts';
import type { Source, SourceTopic } from '../import/source.ts';
import { agree, printData, printTable, say } from '../output/output.ts';
import { startProgress } from '../output/progress.ts';

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

interface ImportFlags extends DaemonFlags, JobSettingFlags {
  readonly json?: boolean;
  readonly only?: 'topics' | 'jobs';
  readonly replace?: boolean;
  readonly move?: boolean;
  readonly dryRun?: boolean;
  readonly state?: string;
  readonly yes?: boolean;
}

/** `name`: of the source, as in `dq import NAME`. Closes the source. */
async function runImport(name: string, source: Source, flags: ImportFlags): Promise<void> {
  try {
    await importFrom(name, source, flags);
  } finally {
    await source.close();
  }
}

async function importFrom(name: string, source: Source, flags: ImportFlags): Promise<void> {
  const daemon = findDaemon(flags, process.env);
  const client = new ApiClient(daemon);
  const jobSettings = jobSettingsOf(flags);
  const dryRun = flags.dryRun === true;
  // Before the jobs, which take long: a source that is unavailable then costs no report.
  const registered = (await source.topics?.()) ?? [];
  const settings = flags.only === 'jobs' ? '' : ((await source.settings?.()) ?? '');
  if (!dryRun) await agree(question(name, source, daemon.url, flags), flags.yes);
  const known = new KnownTopics(client);
  const topicOptions = { replace: flags.replace === true, dryRun };
  const identity = { source: name, places: source.places, dq: daemon.url };
  const path = flags.state ?? `dq-import-${name}.state`;
  const state = flags.only === 'topics' ? null : new ImportState(path, identity, !dryRun);
  const report = new JobReport();
  let topics: readonly TopicResult[] = [];
  try {
    if (flags.only !== 'jobs') topics = await importTopics(client, known, registered, topicOptions);
    if (state !== null)
      await withOpenTopics(known, registered, state, dryRun, () =>
        pushJobs({ client, source, known, state, report }, jobSettings, flags),
      );
  } finally {
    state?.close();
  }
  print(flags, topics, report, settings);
  const left =
    report.left + topics.filter(({ outcome }) => outcome === 'rejected' || outcome === 'different').length;
  if (left > 0)
    throw new Exit('partlyFailed', `${left} topics and jobs ${dryRun ? 'would stay' : 'stay'} behind`);
}

function question(name: string, { places }: Source, url: string, { only, move }: ImportFlags): string {
  const what = only ?? 'topics and jobs';
  return `Import ${what} of ${name} at ${places} into dq at ${url}${move ? ', and remove the jobs there' : ''}?`;
}

async function pushJobs(
  parts: Omit<ImportParts, 'options'>,
  settings: JobSettings,
  { dryRun = false, move = false }: ImportFlags,
): Promise<void> {
  const { client, report } = parts;
  const progress = startProgress('jobs read', null);
  try {
    const options = { dryRun, move, settings, bodyBytesMax: await bodyBytesMaxOf(client) };
    await importJobs({ ...parts, options }, progress);
  } catch (error) {
    const done = report.counts.pushed + report.counts.before;
    if (!(error instanceof Exit) || done === 0) throw error;
    throw new Exit('partlyFailed', `${done} jobs are in dq; run the same command again: ${error.message}`, {
      cause: error,
    });
  } finally {
    progress.stop();
  }
}

/** A topic that is offline there is offline here, and its jobs come along: it is paused meanwhile. */
async function withOpenTopics(
  known: KnownTopics,
  registered: readonly SourceTopic[],
  state: ImportState,
  dryRun: boolean,
  work: () => Promise<void>,
): Promise<void> {
  if (dryRun) return work();
  // Of an import that was killed: one that is in use now stays so.
  const held: string[] = [];
  for (const topic of state.held) if ((await known.getTopic(topic))?.state === 'paused') held.push(topic);
  const closed: string[] = [];
  for (const { name, isOffline } of registered) {
    const topic = topicOfForeign(name);
    if (topic !== null && isOffline && (await known.getTopic(topic))?.state === 'offline') closed.push(topic);
  }
  const all = [...held, ...closed];
  if (all.length === 0 && state.held.length === 0) return work();
  state.hold(all);
  try {
    for (const topic of closed) await known.setState(topic, 'pause');
    await work();
  } catch (error) {
    // The cause counts: the next run closes topics that stay paused.
    await close(known, state).catch(() => {});
    throw error;
  }
  await close(known, state);
}

async function close(known: KnownTopics, state: ImportState): Promise<void> {
  for (const topic of state.held)
    if ((await known.readAgain(topic))?.state === 'paused') await known.setState(topic, 'offline');
  state.hold([]);
}

/** null: the caller may not read it, or no answer; then dq rejects too large jobs itself. */
async function bodyBytesMaxOf(client: ApiClient): Promise<number | null> {
  const name = 'limits.bodyBytes';
  try {
    const call = { path: ['v1', 'config'], needs: ['items'] };
    const { json } = await client.call<ConfigJson>(call);
    const value = json.items.find((item) => item.name === name)?.value;
    const parsed = parseValue(optionTable[name], value, '');
    return parsed.ok ? (parsed.value as number) : null;
  } catch (error) {
    if (error instanceof Exit) return null;
    throw error;
  }
}

function print(
  flags: ImportFlags,
  topics: readonly TopicResult[],
  report: JobReport,
  settings: string,
): void {
  const { counts, problems } = report;
  if (flags.json) {
    const jobs = flags.only === 'topics' ? null : { ...counts, problems };
    printData(JSON.stringify({ dryRun: flags.dryRun === true, topics, jobs, settings }));
    return;
  }
  if (topics.length > 0)
    printTable(
      ['TOPIC', 'RESULT', 'ABOUT'],
      topics.map(({ name, topic, outcome, fields, reason, notes }) => [
        topic ?? name,
        outcome,
        [fields.join(' '), reason, ...notes].filter((text) => text !== '').join('; '),
      ]),
    );
  if (flags.only !== 'topics')
    printTable(
      ['JOBS', 'NUMBER'],
      Object.entries(countNames).map(([count, name]) => [name, counts[count as Count]]),
    );
  for (const { job, reason } of problems) say(`dq: ${job}: ${reason}`);
  if (report.left > problems.length) say(`dq: and ${report.left - problems.length} more`);
  if (counts.changed > 0)
    say(`dq: ${counts.changed} jobs changed or went there meanwhile; both systems may call them`);
  if (settings !== '') say(`dq: settings for dq.yaml:\n${settings.trimEnd()}`);
}
