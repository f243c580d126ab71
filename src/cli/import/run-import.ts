// Runs one import: topics first, then jobs, then the report and the exit code.

import { options as optionTable } from '../../config/options.ts';
import { parseValue } from '../../config/parse.ts';
import type { ConfigJson } from '../../contract/api/daemon.ts';
import { topicOfForeign } from '../../core/topic/topic.ts';
import { ApiClient } from '../daemon/api-client.ts';
import { type DaemonFlags, findDaemon } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { agree, printData, printTable, say } from '../output/output.ts';
import { startProgress } from '../output/progress.ts';
import { type Count, countNames, type ImportParts, importJobs, JobReport } from './import-jobs.ts';
import { ImportState } from './import-state.ts';
import { importTopics, KnownTopics, type TopicResult } from './import-topics.ts';
import { type JobSettingFlags, type JobSettings, jobSettingsOf } from './job-settings.ts';
import type { Source, SourceTopic } from './source.ts';

export interface ImportFlags extends DaemonFlags, JobSettingFlags {
  readonly json?: boolean;
  readonly only?: 'topics' | 'jobs';
  readonly replace?: boolean;
  readonly move?: boolean;
  readonly dryRun?: boolean;
  readonly state?: string;
  readonly yes?: boolean;
}

/** `name`: of the source, as in `dq import NAME`. Closes the source. */
export async function runImport(name: string, source: Source, flags: ImportFlags): Promise<void> {
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
