// dq rule test: evaluates a retry rule on a reply, without a daemon, by the code of the notifier.

import type { Command } from 'commander';
import { evaluateRule, isJsonReply, parseRule, readsBody, ruleValues } from '../../core/rule/reply-rule.ts';
import { Exit } from '../exit.ts';
import { gather, headersOf, wholeOf } from '../flags.ts';
import { escapeControls, printData, printRecord, withCaret } from '../output/output.ts';

interface RuleFlags {
  readonly reply: string;
  readonly status: string;
  readonly attempt: string;
  readonly header: readonly string[];
  readonly json?: boolean;
}

export function register(program: Command): void {
  program
    .command('rule')
    .description('try a retry rule')
    .command('test')
    .description('evaluate a rule on a reply')
    .argument('<expression>', "such as '{res.code}!=200'")
    .requiredOption('--reply <text>', 'body of the reply')
    .option('--status <status>', 'HTTP status of the reply', '200')
    .option('--attempt <number>', 'number of the attempt', '1')
    .option('--header <name: value>', 'header of the reply; repeatable', gather, [])
    .option('--json', 'one JSON object: {retry, values}')
    .action(testRule);
}

async function testRule(source: string, flags: RuleFlags): Promise<void> {
  const parsed = parseRule(source);
  if (!parsed.ok) throw new Exit('failed', `${parsed.message}\n${withCaret(source, parsed.position)}`);
  const headers = headersOf(flags.header);
  const reply = {
    status: wholeOf('--status', flags.status, 100, 999),
    attempt: wholeOf('--attempt', flags.attempt, 1, 100),
    text: flags.reply,
    header: (name: string) => headers[name.toLowerCase()] ?? null,
  };
  const retry = evaluateRule(parsed.rule, reply);
  const values = ruleValues(parsed.rule, reply);
  if (flags.json) {
    printData(JSON.stringify({ retry, values }));
    return;
  }
  printRecord([
    ...Object.entries(values).map(([name, value]) => [escapeControls(name), JSON.stringify(value)] as const),
    ['retry', retry ? 'yes' : 'no'],
    ...(readsBody(parsed.rule) && !isJsonReply(reply.text)
      ? [['why', 'the reply is not JSON, so each {res…} is null'] as const]
      : []),
  ]);
}
