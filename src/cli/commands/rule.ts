// dq rule test: evaluates a rule on a reply, without a daemon, or judges the reply as a topic of the daemon
// does; both by the code of the notifier. dq topic test: has a notifier make one test call of a topic, or
// publish one message to its broker, and prints how it ended. dq stores and counts nothing.

import type { Command } from 'commander';
import type { TestCallJson } from '../../contract/api/test-call.ts';
import { formatDuration } from '../../core/duration.ts';
import { evaluateRule, isJsonReply, parseRule, readsBody, ruleValues } from '../../core/rule/reply-rule.ts';
import { readRules, tryReply } from '../../core/sample-replies.ts';
import type { TopicJson } from '../../core/topic/settings.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { gather, headersOf, wholeOf } from '../flags.ts';
import { escapeControls, printData, printRecord, withCaret, words } from '../output/output.ts';

interface RuleFlags extends DaemonOptions {
  readonly topic?: string;
  readonly reply: string;
  readonly status: string;
  readonly attempt: string;
  readonly header: readonly string[];
}

export function register(program: Command): void {
  const family = program.command('rule').description('try a rule, or the rules of a topic');
  daemonCommand(family, 'test', 'evaluate a rule on a reply, or judge the reply by a topic', testRule)
    .argument('[expression]', "such as '{res.code}!=200'; not with --topic")
    .option('--topic <topic>', 'topic of the daemon that judges the reply')
    .requiredOption('--reply <text>', 'body of the reply')
    .option('--status <status>', 'HTTP status of the reply', '200')
    .option('--attempt <number>', 'number of the attempt', '1')
    .option('--header <name: value>', 'header of the reply; repeatable', gather, [])
    .option('--json', 'one JSON object: {retry, values}; with --topic {verdict, by, values}');
}

async function testRule(source: string | undefined, flags: RuleFlags): Promise<void> {
  if ((source === undefined) === (flags.topic === undefined))
    throw new Exit('usage', 'give an expression, or --topic and none');
  const headers = new Map(
    Object.entries(headersOf(flags.header)).map(([name, value]) => [name.toLowerCase(), value] as const),
  );
  const reply = {
    status: wholeOf('--status', flags.status, 100, 999),
    attempt: wholeOf('--attempt', flags.attempt, 1, 100),
    text: flags.reply,
    headers,
    header: (name: string) => headers.get(name.toLowerCase()) ?? null,
  };
  if (source === undefined) return judgeByTopic(flags.topic ?? '', reply, flags);
  const parsed = parseRule(source);
  if (!parsed.ok) throw new Exit('failed', `${parsed.message}\n${withCaret(source, parsed.position)}`);
  const retry = evaluateRule(parsed.rule, reply);
  const values = ruleValues(parsed.rule, reply);
  if (flags.json) {
    printData(JSON.stringify({ retry, values }));
    return;
  }
  printRecord([
    ...valueRows(values),
    ['retry', retry ? 'yes' : 'no'],
    ...notJson(readsBody(parsed.rule), reply.text),
  ]);
}

async function judgeByTopic(
  topic: string,
  reply: Parameters<typeof tryReply>[2],
  flags: RuleFlags,
): Promise<void> {
  const path = ['v1', 'topics', topic];
  const { json } = await clientOf(flags).call<TopicJson>({ path, needs: ['delivery', 'okStatus'] });
  if (json.delivery !== 'push')
    throw new Exit('failed', `topic ${topic}: no reply is judged with delivery ${json.delivery}`);
  const rules = readRules(json);
  if (rules === undefined) throw new Exit('failed', `topic ${topic}: this dq cannot read its rules`);
  const tried = tryReply(json, rules, reply);
  if (flags.json) {
    printData(JSON.stringify(tried));
    return;
  }
  const { verdict, by, values } = tried;
  const reads = [rules.deadIf, rules.againIf, rules.retryIf].some((rule) => rule !== null && readsBody(rule));
  printRecord([
    ...valueRows(values),
    ['verdict', by === null ? verdict : `${verdict} (${by})`],
    ...notJson(reads, reply.text),
  ]);
}

const valueRows = (values: Readonly<Record<string, unknown>>) =>
  Object.entries(values).map(([name, value]) => [escapeControls(name), JSON.stringify(value)] as const);

const notJson = (reads: boolean, text: string) =>
  reads && !isJsonReply(text) ? [['why', 'the reply is not JSON, so each {res…} is null'] as const] : [];

export interface TestFlags extends DaemonOptions {
  readonly type?: string;
}

/** Throws Exit for a call that failed. */
export async function testTopic(topic: string, body: string | undefined, flags: TestFlags): Promise<void> {
  const { json } = await ask<TestCallJson>(flags, {
    method: 'POST',
    path: ['v1', 'topics', topic, 'test-call'],
    json: { body, contentType: flags.type },
    needs: ['verdict'],
  });
  const { request, reply, phases, verdict, notifier } = json;
  if (!flags.json)
    printRecord([
      ['call', `${request.method} ${request.url}, by ${notifier} in ${phases.totalMs} ms`],
      ['result', resultOf(json)],
      ...(reply === null ? [] : [['reply', reply.body] as const]),
      ['a job', nextOf(verdict)],
    ]);
  if (verdict.outcome === 'delivered' || verdict.outcome === 'again') return;
  throw new Exit(
    'failed',
    request.method === 'PUBLISH'
      ? `the test message of ${topic} was not confirmed`
      : `the test call of ${topic} did not succeed`,
  );
}

function resultOf({ reply, verdict }: TestCallJson): string {
  const { outcome, reason, detail } = verdict;
  if (outcome === 'delivered') return reply === null ? 'confirmed by the broker' : `success, ${reply.status}`;
  if (outcome === 'again') return `snooze, ${reply?.status}`;
  return words(outcome, reason, reply?.status, detail);
}

function nextOf({ next, delayMs }: TestCallJson['verdict']): string {
  switch (next) {
    case 'ack':
      return 'would be done';
    case 'again':
      return `would be called again after ${formatDuration(delayMs ?? 0)}; no attempt counts`;
    case 'retry':
      return `would be retried after ${formatDuration(delayMs ?? 0)}`;
    case 'bury':
      return 'would be a dead letter';
    default:
      return 'would wait for its turn';
  }
}
