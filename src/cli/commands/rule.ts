// dq rule test: evaluates a rule on a reply, without a daemon, or judges the reply as a topic of the daemon
// does; both by the code of the notifier.

import type { Command } from 'commander';
import { evaluateRule, isJsonReply, parseRule, readsBody, ruleValues } from '../../core/rule/reply-rule.ts';
import { readRules, tryReply } from '../../core/sample-replies.ts';
import type { TopicJson } from '../../core/topic/settings.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { gather, headersOf, wholeOf } from '../flags.ts';
import { escapeControls, printData, printRecord, withCaret } from '../output/output.ts';

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
