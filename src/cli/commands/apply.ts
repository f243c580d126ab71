// dq apply: makes topics and schedules as a file has them. dq export: prints them as such a file, without
// defaults and without secrets.

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import { stringify } from 'yaml';
import { type ConfigProblem, formatProblem } from '../../config/parse.ts';
import { ScheduleInput, type ScheduleJson } from '../../contract/api/schedule.ts';
import type { TopicWithSecretJson } from '../../contract/api/topic.ts';
import { messageOf } from '../../core/errors.ts';
import { isJsonType } from '../../core/json-text.ts';
import { topicColumns } from '../../core/topic/fields.ts';
import { completeSettings, maskedValue, settingsJson, type TopicJson } from '../../core/topic/settings.ts';
import { topicDefaults } from '../../core/topic/topic.ts';
import { type Change, makePlan, nameOf, pruneScope, readStored } from '../apply/plan.ts';
import { isInScope, readTopicsFile } from '../apply/topics-file.ts';
import { type ApiClient, ApiRefusal } from '../daemon/api-client.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { gatherItems } from '../flags.ts';
import { agree, colors, escapeControls, printData, say } from '../output/output.ts';

interface ExportFlags extends DaemonOptions {
  readonly scope?: readonly string[];
}

interface ApplyFlags extends DaemonOptions {
  readonly file: string;
  readonly prune?: boolean;
  readonly dryRun?: boolean;
  readonly check?: boolean;
}

export function register(program: Command): void {
  daemonCommand(program, 'export', 'print topics and schedules as the file of dq apply', print)
    .option('--scope <globs>', 'only topics that match, and their schedules; repeatable', gatherItems)
    .option('--json', 'JSON in place of YAML')
    .addHelpText(
      'after',
      `
Examples:
  dq export > dq-topics.yaml
  dq export --scope 'order.*' > order.yaml                  dq apply --prune removes inside this scope`,
    );
  daemonCommand(program, 'apply', 'make topics and schedules as a file has them', apply)
    .requiredOption('-f, --file <file>', 'YAML or JSON, as dq export writes it; - = standard input')
    .option('--prune', 'remove what the scope of the file has and the file lacks')
    .option('--dry-run', 'show the differences; change nothing')
    .option('--check', 'as --dry-run; exit with 1 if there are any')
    .option('-y, --yes', 'do not ask')
    .option('--json', 'the differences as JSON')
    .addHelpText(
      'after',
      `
Examples:
  dq export > dq-topics.yaml
  dq apply -f dq-topics.yaml --dry-run
  REMIND_SECRET=whsec_… dq apply -f dq-topics.yaml --prune -y`,
    );
}

function readText(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new Exit('usage', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

async function apply(flags: ApplyFlags): Promise<void> {
  const label = flags.file === '-' ? 'stdin' : flags.file;
  const text = readText(flags.file);
  const { file, problems } = readTopicsFile(text, label, process.env);
  endIfWrong(label, problems);
  const prune = flags.prune ? pruneScope(file) : null;
  const client = clientOf(flags);
  const plan = await makePlan(client, file, await readStored(client), prune);
  endIfWrong(label, plan.problems);
  const { changes } = plan;
  if (flags.json) printData(JSON.stringify({ changes: changes.map(({ calls: _, ...shown }) => shown) }));
  else for (const change of changes) printData(lineOf(change));
  if (changes.length === 0) {
    say('dq: no difference');
    return;
  }
  if (flags.check) throw new Exit('failed', `dq differs from ${label}`);
  if (flags.dryRun) return;
  await agree('Apply?', flags.yes);
  await makeChanges(client, changes);
}

function endIfWrong(label: string, problems: readonly ConfigProblem[]): void {
  if (problems.length === 0) return;
  throw new Exit(
    'usage',
    [`${label} is wrong; nothing was changed`, ...problems.map(formatProblem)].join('\n'),
  );
}

const signs = { add: colors.green('+'), change: colors.yellow('~'), remove: colors.red('-') };

function lineOf(change: Change): string {
  const fields = change.fields.map(
    ({ field, before, after }) => `${field}: ${JSON.stringify(before)} → ${JSON.stringify(after)}`,
  );
  return `${signs[change.verb]} ${escapeControls([nameOf(change), ...fields].join('   '))}`;
}

/** The change of another caller came between the plan and this one. */
const changedMeanwhile: ReadonlySet<string> = new Set([
  ...['topic_changed', 'topic_not_found', 'schedule_changed', 'schedule_not_found'],
]);

/** One after the other. A topic with jobs stays, and the others go on; every other failure ends the work.
 *  Running `dq apply` again makes what is left. */
async function makeChanges(client: ApiClient, changes: readonly Change[]): Promise<void> {
  let made = 0;
  const staying = new Set<string>();
  for (const change of changes) {
    try {
      if (staying.has(change.removedWith ?? ''))
        say(`dq: ${nameOf(change)} stays with its topic ${change.removedWith}`);
      else if (await isMade(client, change)) made += 1;
      else staying.add(change.name);
    } catch (error) {
      throw failureOf(error, change, made, changes.length);
    }
  }
  const done = `${made} of ${changes.length} changes are made`;
  if (staying.size > 0)
    throw new Exit('partlyFailed', `${done}; topics with jobs that stay: ${staying.size}`);
  say(`dq: ${done}; effective within 2 s`);
}

/** false: the topic has jobs and stays. */
async function isMade(client: ApiClient, change: Change): Promise<boolean> {
  let { revision } = change;
  for (const call of change.calls) {
    const headers = revision === null ? {} : { 'if-match': `"${revision}"` };
    try {
      const { json } = await client.call<Partial<TopicWithSecretJson>>({ ...call, headers });
      revision = json.revision ?? null;
      const isMade = change.verb === 'add' && json.delivery === 'push' && !hasSecret(call.json);
      if (isMade) sayNewSecret(change);
    } catch (error) {
      if (!(error instanceof ApiRefusal) || error.problem.code !== 'topic_has_jobs') throw error;
      say(`dq: ${nameOf(change)} has ${error.problem.jobs} jobs, dead letters included, and stays`);
      return false;
    }
  }
  return true;
}

const hasSecret = (json: unknown): boolean => Object.hasOwn(Object(json), 'secret');

/** Not the secret itself: logs of deployments keep what commands print. */
function sayNewSecret({ name }: Change): void {
  say(`dq: ${name} has a secret that dq made; dq topic secret ${name} makes another one and prints it`);
}

function failureOf(error: unknown, change: Change, made: number, count: number): unknown {
  if (!(error instanceof Exit)) return error;
  const isOutdated = error instanceof ApiRefusal && changedMeanwhile.has(error.problem.code);
  const reason = isOutdated ? 'was changed meanwhile; run dq apply again' : error.message;
  const message = `${nameOf(change)}${isOutdated ? ' ' : ': '}${reason}`;
  // Without a reply of dq the exit code tells why.
  if (made === 0 && !(error instanceof ApiRefusal)) return error;
  if (made === 0) return new Exit('failed', message, { cause: error });
  return new Exit('partlyFailed', `${message} (${made} of ${count} changes are made)`, { cause: error });
}

const head = `# dq apply -f FILE makes topics and schedules as they are here. A member that is not here takes its default,
# but for the state and the secret of a topic, and the timezone and paused of a schedule, which stay.
# No secret of a topic is here, and a callbackUrl is whole. *** keeps the stored value of a header;
# \${NAME} is a variable of the environment.
`;

async function print(flags: ExportFlags): Promise<void> {
  const stored = await readStored(clientOf(flags));
  const { scope } = flags;
  const isWanted = (topic: string) => scope === undefined || isInScope(scope, topic);
  const topics = [...stored.topics.values()].filter(({ topic }) => isWanted(topic));
  const schedules = [...stored.schedules.values()].filter(({ topic }) => isWanted(topic));
  const content = {
    ...(scope === undefined ? {} : { scope }),
    topics: Object.fromEntries(topics.map((one) => [one.topic, writtenTopic(one)])),
    schedules: Object.fromEntries(schedules.map((one) => [one.name, writtenSchedule(one)])),
  };
  printData(
    flags.json
      ? JSON.stringify(content)
      : head + stringify(content, { lineWidth: 0, aliasDuplicateObjects: false }),
  );
}

/** The members with another value than their default. */
function writtenTopic(topic: TopicJson): object {
  const usual = settingsJson(completeSettings({ settings: { format: topic.format } }));
  const defaults = { ...usual, format: topicDefaults.format, state: topicColumns.state.default };
  const written: Record<string, unknown> = {};
  for (const [name, byDefault] of Object.entries(defaults)) {
    const value = topic[name as keyof TopicJson];
    if (!isDeepStrictEqual(value, byDefault)) written[name] = name === 'headers' ? masked(value) : value;
  }
  return written;
}

const masked = (headers: unknown) =>
  Object.fromEntries(Object.keys(Object(headers)).map((name) => [name, maskedValue]));

/** As a request gives it, without defaults. The time zone has none here: it is an option of the daemon. */
function writtenSchedule(schedule: ScheduleJson): object {
  const shown: Readonly<Record<string, unknown>> = { ...schedule };
  const written: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries<object>(ScheduleInput.properties)) {
    const value = shown[name] ?? undefined;
    const isDefault = 'default' in schema && schema.default === value;
    if (name !== 'name' && value !== undefined && !isDefault) written[name] = value;
  }
  if (schedule.body === '') delete written['body'];
  else if (isJsonType(schedule.contentType)) written['body'] = JSON.parse(schedule.body);
  return written;
}
