// dq topic: registers, shows, changes, pauses and deletes topics.

import type { Command } from 'commander';
import type { AlertsJson } from '../../contract/api/alert.ts';
import type { ScheduleJson } from '../../contract/api/schedule.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import type { StatsJson, SummaryJson } from '../../contract/api/stats.ts';
import type { RotatedSecretJson, removeTopicSchema, TopicWithSecretJson } from '../../contract/api/topic.ts';
import { noMail } from '../../core/alert-receiver.ts';
import { formatTarget } from '../../core/broker.ts';
import { type AttentionReason, stateWord } from '../../core/capacity-reasons.ts';
import { jobStates } from '../../core/job.ts';
import { successOf } from '../../core/rule/rule-samples.ts';
import { judgeSamples, readRules } from '../../core/sample-replies.ts';
import { byGroup } from '../../core/topic/field-kinds.ts';
import type { TopicJson } from '../../core/topic/settings.ts';
import type { Verdict } from '../../core/verdict.ts';
import { isLocalCallback, trialSecret, trialWord } from '../../sink/signature-check.ts';
import { type ApiCall, type ApiClient, ApiRefusal, type ApiReply } from '../daemon/api-client.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { countJobs, readAllPages, readPages } from '../daemon/read-pages.ts';
import { Exit } from '../exit.ts';
import {
  agree,
  escapeControls,
  excerpt,
  instantOf,
  printData,
  printItems,
  printParts,
  say,
  tableOf,
  withCaret,
} from '../output/output.ts';
import { startProgress } from '../output/progress.ts';
import { lateBy, waiting } from '../output/topic-words.ts';
import { fieldOf, type TopicFlags, topicFieldFlags, topicJsonOf, withTopicFlags } from '../topic-flags.ts';
import { deliveryLines } from './explain.ts';
import { testTopic } from './rule.ts';

interface ListFlags extends DaemonOptions {
  readonly search?: string;
  readonly owner?: string;
}
interface AddFlags extends DaemonOptions, TopicFlags {
  readonly secret?: string;
}
interface RemoveFlags extends DaemonOptions {
  readonly purge?: boolean;
}

export function register(program: Command): void {
  const family = program.command('topic').description('the topics: registered kinds of jobs');
  daemonCommand(family, 'ls', 'list topics', list)
    .option('--search <text>', 'part of name, title or owner')
    .option('--owner <owner>');
  daemonCommand(family, 'get', 'show a topic, and why its jobs are not called', get).argument('<topic>');
  const add = daemonCommand(family, 'add', 'register a topic and print its secret once', addTopic)
    .argument('<topic>')
    .addHelpText(
      'after',
      `
Examples:
  dq topic add order.close --callback https://shop.example.org/close --delay 30m
  dq topic add mail.send --callback https://mail.example.org/send --rule '{res.code}!=200' --backoff 15s,3m,1h
  dq topic add report.build --pull --lease 5m
  dq topic add order.paid --target main/orders --delay 30m`,
    );
  withTopicFlags(add).option(
    '--secret <secret>',
    'secret whsec_… instead of a new one; trial = a public one, for callbacks to this machine',
  );
  const set = daemonCommand(family, 'set', 'change the given settings', change);
  withTopicFlags(set.argument('<topic>'));
  daemonCommand(family, 'test', 'make one test call, or publish one test message', testTopic)
    .argument('<topic>')
    .argument('[body]', 'default {}')
    .option('--type <type>', 'content type of the body; default application/json');
  const renew = 'make a new secret and print it once; the old one still signs for 24 h';
  daemonCommand(family, 'secret', renew, rotate)
    .argument('<topic>')
    .option('--secret <secret>', 'secret whsec_… instead of a new one');
  daemonCommand(family, 'rm', 'delete a topic; one with jobs needs --purge', remove)
    .argument('<topic>')
    .option('--purge', 'delete its jobs too')
    .option('-y, --yes', 'do not ask');
  for (const [verb, what] of [
    ['pause', 'accept pushes, hold deliveries'],
    ['resume', 'end a pause or an offline state'],
    ['offline', 'reject pushes, hold deliveries'],
  ] as const)
    daemonCommand(family, verb, what, (topic: string, flags: DaemonOptions) =>
      turn(topic, verb, flags),
    ).argument('<topic>');
}

async function list(flags: ListFlags): Promise<void> {
  const { search, owner } = flags;
  const client = clientOf(flags);
  const call = { path: ['v1', 'topics'], query: { search, owner } };
  const items: TopicJson[] = [];
  await readPages<TopicJson>(client, call, Number.MAX_SAFE_INTEGER, ({ text, json }) => {
    if (flags.json) printData(text);
    else items.push(...json.items);
  });
  if (flags.json) return;
  const jobs = await jobsOf(client);
  printItems(items, {
    TOPIC: 'topic',
    STATE: ({ topic, state }) => stateWord({ state, reasons: jobs.get(topic)?.reasons ?? [] }),
    WAITING: ({ topic }) => jobs.get(topic)?.waiting,
    LATE: ({ topic }) => jobs.get(topic)?.late,
    DEAD: ({ topic }) => jobs.get(topic)?.dead,
    DELAY: 'delay',
    PRIORITY: 'priority',
    CALLBACK: ({ delivery, callbackUrl, target }) => (delivery === 'mq' ? targetText(target) : callbackUrl),
    OWNER: 'owner',
    TITLE: 'title',
  });
}

interface TopicJobs {
  readonly waiting: number;
  readonly dead: number;
  /** null: it is not among the topics that need attention, or no job of it is due */
  readonly late: string | null;
  readonly reasons: readonly AttentionReason[];
}

/** By topic. Empty where the store does not answer: the list of topics needs no store. */
async function jobsOf(client: ApiClient): Promise<ReadonlyMap<string, TopicJobs>> {
  const unlessFailed = (error: unknown) => {
    if (error instanceof Exit) return null;
    throw error;
  };
  const [stats, summary] = await Promise.all([
    client.call<StatsJson>({ path: ['v1', 'stats'], needs: ['topics'] }).catch(unlessFailed),
    client.call<SummaryJson>({ path: ['v1', 'summary'], needs: ['attention'] }).catch(unlessFailed),
  ]);
  const now = Date.parse(summary?.json.now ?? '');
  const lines = new Map(summary?.json.attention.map((line) => [line.topic, line]));
  return new Map(
    stats?.json.topics.map(({ topic, states }) => {
      const line = lines.get(topic);
      const late = line === undefined ? null : lateBy(line, now);
      return [topic, { waiting: waiting(states), dead: states.dead, late, reasons: line?.reasons ?? [] }];
    }),
  );
}

async function get(topic: string, flags: DaemonOptions): Promise<void> {
  const { json } = await ask<TopicJson>(flags, { path: ['v1', 'topics', topic], needs: ['topic'] });
  if (flags.json) return;
  const used = Object.entries(json).filter(
    ([name]) => fieldOf(name)?.usedBy?.includes(json.delivery) ?? true,
  );
  const members = used.map(([name, value]) => [name, texts[name]?.(json) ?? shown(value)] as const);
  const parts = byGroup(members, ([name]) => fieldOf(name)?.group);
  printParts(parts.toSpliced(1, 0, [null, await deliveryLines(topic, flags)]));
}

/** Members of a topic that a person reads otherwise than in JSON. */
const texts: Readonly<Record<string, (topic: TopicJson) => string>> = {
  target: ({ target }) => targetText(target),
  createdAt: instantOf('createdAt'),
  updatedAt: instantOf('updatedAt'),
};

/** As --target reads it; '' = none. */
const targetText = (target: TopicJson['target']): string => (target ? formatTarget(target) : '');

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.map(shown).join(', ');
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value);
}

async function addTopic(topic: string, flags: AddFlags): Promise<void> {
  const secret = secretOf(flags);
  const settings = topicJsonOf(flags);
  if (!('callbackUrl' in settings) && !['pull', 'mq'].includes(String(settings['delivery'])))
    throw new Exit('usage', 'give --callback with the URL that dq calls, --target, or --pull');
  const json = { topic, ...settings, ...(secret === undefined ? {} : { secret }) };
  const call = { method: 'POST', path: ['v1', 'topics'], json } as const;
  const reply = await written<TopicWithSecretJson>(flags, call).catch((error: unknown) => {
    // Without the cause: its message names the API's verb.
    if (!(error instanceof ApiRefusal) || error.problem.code !== 'topic_exists') throw error;
    throw new Exit('failed', `topic ${topic} exists; change it with dq topic set`);
  });
  if (flags.json) return;
  await warnWithoutMail(reply.json, settings, flags);
  // dq signs callbacks alone.
  if (reply.json.delivery !== 'push') {
    say(`dq: registered ${topic}`);
    return;
  }
  sayVerdicts(reply.json, settings);
  say(`dq: registered ${topic}; its secret, shown only once:`);
  printData(reply.json.secret);
}

/** Says how the topic judges the replies that its rule distinguishes, and usual ones, where `given` changes
 *  that. */
function sayVerdicts(topic: TopicJson, given: object): void {
  if (topic.delivery !== 'push' || !Object.keys(given).some((name) => fieldOf(name)?.group === 'verdict'))
    return;
  const judged = judgeSamples(topic);
  const rows = judged.map(({ name, verdict, next }) => [
    escapeControls(excerpt(name, sampleMax)),
    verdict.outcome === 'failed' ? `failure: ${verdict.reason}` : outcomeWords[verdict.outcome],
    nextWords[next],
  ]);
  if (rows.length > 0) say(`dq: how ${topic.topic} judges a reply:\n${tableOf(rows)}`);
  const rules = readRules(topic);
  for (const [name, { reason, takes, is }] of Object.entries(ruleWarnings)) {
    const rule = rules?.[name as keyof typeof ruleWarnings] ?? null;
    const success = rule === null ? null : successOf(rule);
    const taken = judged.filter(({ verdict }) => reasonOf(verdict) === reason).map((one) => one.name);
    const names =
      success?.names ?? (plainSuccesses.every((one) => taken.includes(one)) ? plainSuccesses : []);
    if (names.length === 0) continue;
    const meant = name === 'retryIf' && success !== null ? `. Meant ${success.proposal}?` : '';
    say(`dq: warning: ${takes} ${names.join(' and ')}, which usually means success; ${is}${meant}`);
  }
}

const plainSuccesses = ['{"code":200}', 'empty reply'];
const reasonOf = (verdict: Verdict) => (verdict.outcome === 'failed' ? verdict.reason : verdict.outcome);

/** For a rule that is true of a usual success. `reason`: of a verdict by the rule; null: any rule may retry
 *  all replies. */
const ruleWarnings = {
  deadIf: { reason: 'dead_rule', takes: 'deadIf buries', is: 'it is true for jobs that can never succeed' },
  againIf: { reason: 'again', takes: 'againIf snoozes', is: 'it is true while the receiver is not ready' },
  retryIf: { reason: null, takes: 'the rule retries', is: 'a rule is true for failure' },
} as const;

const sampleMax = 80;
const outcomeWords = { delivered: 'success', again: 'snooze' } as const;
const nextWords = {
  ack: 'done',
  again: 'called again, no attempt counted',
  retry: 'retried',
  bury: 'dead letter',
} as const;

/** Warns of alert addresses, where `given` changes them, that get no mail. */
async function warnWithoutMail(
  { alertEmails, alertHooks }: TopicJson,
  given: object,
  flags: DaemonOptions,
): Promise<void> {
  if (!('alertEmails' in given) || alertEmails.length === 0) return;
  const call = { path: ['v1', 'alerts'], query: { limit: 1 } };
  // The topic is stored; a caller whose rights do not reach the alerts gets no warning.
  const channels = await clientOf(flags)
    .call<AlertsJson>(call)
    .then(({ json: { mail } }) => mail)
    .catch(() => undefined);
  if (channels === undefined || channels.server) return;
  const others = [...alertHooks, ...channels.defaultHooks];
  const way = others.length > 0 ? others.join(', ') : 'the error log';
  say(`dq: warning: ${noMail}; alerts go to ${way} only; see dq help dead-letters-alerts`);
}

function secretOf({ secret, callback }: AddFlags): string | undefined {
  if (secret !== trialWord) return secret;
  if (callback !== undefined && isLocalCallback(callback)) return trialSecret;
  throw new Exit(
    'usage',
    '--secret trial: that secret is public; it is for callbacks to 127.0.0.1, [::1] or localhost',
  );
}

async function change(topic: string, flags: DaemonOptions & TopicFlags): Promise<void> {
  const json = topicJsonOf(flags);
  if (Object.keys(json).length === 0)
    throw new Exit('usage', 'give a setting to change (dq topic set --help)');
  const reply = await written<TopicJson>(flags, { method: 'PATCH', path: ['v1', 'topics', topic], json });
  if (!flags.json) {
    await warnWithoutMail(reply.json, json, flags);
    sayVerdicts(reply.json, json);
  }
  say(`dq: changed ${topic}; effective within 2 s`);
}

async function rotate(topic: string, flags: DaemonOptions & { readonly secret?: string }): Promise<void> {
  const reply = await ask<RotatedSecretJson>(flags, {
    method: 'POST',
    path: ['v1', 'topics', topic, 'secret'],
    flags: topicFieldFlags,
    needs: ['secret'],
    ...(flags.secret === undefined ? {} : { json: { secret: flags.secret } }),
  });
  if (flags.json) return;
  say(
    `dq: new secret of ${topic}, shown only once; the old one still signs until ${reply.json.oldSignsUntil}:`,
  );
  printData(reply.json.secret);
}

/** The flag of each rule. */
const ruleFlags = { retryIf: 'rule', deadIf: 'deadIf', againIf: 'againIf' } as const;

/** Shows an error in a rule at its place, below the message. */
async function written<T>(flags: DaemonOptions & TopicFlags, call: ApiCall): Promise<ApiReply<T>> {
  try {
    return await ask<T>(flags, { ...call, flags: topicFieldFlags, needs: ['topic'] });
  } catch (error) {
    if (!(error instanceof ApiRefusal)) throw error;
    for (const [name, flag] of Object.entries(ruleFlags)) {
      const position = error.problem.errors.find(({ field }) => field === name)?.position;
      const source = flags[flag];
      if (position === undefined || source === undefined) continue;
      throw new Exit('failed', `${error.message}\n${withCaret(source, position)}`, { cause: error });
    }
    throw error;
  }
}

async function remove(topic: string, flags: RemoveFlags): Promise<void> {
  const client = clientOf(flags);
  const schedules = await schedulesOf(client, topic);
  const note =
    schedules.length === 0
      ? ''
      : `schedules of it go on and fail: ${schedules.join(', ')}; dq schedule rm NAME removes one`;
  const count = flags.purge && flags.yes !== true ? await countJobs(client, topic, jobStates) : null;
  const jobs = flags.purge ? ` and ${count === null ? 'all its jobs' : `its ${count} jobs`}` : '';
  await agree(`Delete the topic ${topic}${jobs}?${note && ` The ${note}.`}`, flags.yes);
  const path = ['v1', 'topics', topic];
  const call: ApiCall = { method: 'DELETE', path, query: { jobs: flags.purge ? 'purge' : undefined } };
  const progress = startProgress('deleted', null);
  let total = 0;
  let reply: ApiReply<ReplyOf<typeof removeTopicSchema>> | null = null;
  try {
    while (reply === null) {
      reply = await client.call<ReplyOf<typeof removeTopicSchema>>(call).catch((error: unknown) => {
        const purged = purgedOf(error, topic, flags.purge === true);
        total += purged;
        progress.add(purged);
        return null;
      });
    }
  } catch (error) {
    if (total === 0 || !(error instanceof Exit)) throw error;
    throw new Exit('partlyFailed', `${total} jobs deleted, then a failure: ${error.message}`, {
      cause: error,
    });
  } finally {
    progress.stop();
  }
  if (flags.json) printData(reply.text);
  say(`dq: deleted ${topic}${flags.purge ? `, with ${total + reply.json.purged} jobs` : ''}`);
  if (note) say(`dq: ${note}`);
}

/** Names of the schedules that push to the topic. Empty without a usable reply. */
async function schedulesOf(client: ApiClient, topic: string): Promise<readonly string[]> {
  const reading = readAllPages<ScheduleJson>(client, { path: ['v1', 'schedules'] });
  const schedules = await reading.catch((error: unknown) => {
    if (!(error instanceof Exit)) throw error;
    return [];
  });
  return schedules.filter((one) => one.topic === topic).map(({ name }) => name);
}

/** Jobs that an unfinished call purged; the call must be repeated. Throws every other error. */
function purgedOf(error: unknown, topic: string, withPurge: boolean): number {
  if (!(error instanceof ApiRefusal) || error.problem.code !== 'topic_has_jobs') throw error;
  const { jobs, purged = 0 } = error.problem;
  if (purged > 0) return purged;
  throw new Exit(
    'failed',
    withPurge
      ? `${topic} still has ${jobs} jobs and is offline; try again, or run dq topic resume ${topic}`
      : `${topic} has ${jobs} jobs, dead letters included; nothing was changed. --purge deletes them too`,
  );
}

async function turn(
  topic: string,
  verb: 'pause' | 'resume' | 'offline',
  flags: DaemonOptions,
): Promise<void> {
  await ask(flags, { method: 'POST', path: ['v1', 'topics', topic, verb] });
  const now = { pause: 'paused', resume: 'active', offline: 'offline' }[verb];
  say(`dq: ${topic} is ${now}; effective within 2 s`);
}
