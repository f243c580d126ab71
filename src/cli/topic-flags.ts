// The settings of a topic as flags, and the JSON that they make for the API. Judges nothing that the API judges: one set
// of rules, one wording. A flag that was not given makes no member.

import type { Command } from 'commander';
import type { FlagNames } from './daemon/api-client.ts';
import { Exit } from './exit.ts';
import { parseHeaders } from './header-flag.ts';

export interface TopicFlags {
  readonly callback?: string;
  readonly delay?: string;
  readonly rule?: string;
  readonly timeout?: string;
  readonly maxAttempts?: string;
  readonly backoff?: string;
  readonly jitter?: string;
  readonly priority?: string;
  readonly concurrency?: string;
  readonly rate?: string;
  readonly method?: string;
  readonly format?: string;
  readonly emptyReply?: string;
  readonly okStatus?: readonly string[];
  readonly header?: readonly string[];
  readonly alert?: readonly string[];
  readonly title?: string;
  readonly owner?: string;
}

/** The flags by the API's names of the fields. */
export const topicFieldFlags: FlagNames = {
  callbackUrl: '--callback',
  delay: '--delay',
  retryIf: '--rule',
  timeout: '--timeout',
  maxAttempts: '--max-attempts',
  backoff: '--backoff',
  jitter: '--jitter',
  priority: '--priority',
  concurrency: '--concurrency',
  rate: '--rate',
  method: '--method',
  format: '--format',
  emptyReply: '--empty-reply',
  okStatus: '--ok-status',
  headers: '--header',
  alertEmails: '--alert',
  title: '--title',
  owner: '--owner',
  secret: '--secret',
};

const gather = (text: string, all: readonly string[] | undefined): readonly string[] => [
  ...(all ?? []),
  text,
];

/** All but the callback, which `add` requires. */
export function withTopicFlags(command: Command): Command {
  return command
    .option('--delay <duration>', 'wait of a push that names none: 30s, 30m, 1h30m')
    .option(
      '--rule <expression>',
      "retry rule: a reply for which it is true is tried again, '{res.code}!=200'",
    )
    .option('--timeout <duration>', 'of a whole attempt, 100ms to 60s')
    .option('--max-attempts <n>', 'in all, the first included')
    .option('--backoff <policy>', `2n+1, a ladder "15s,3m,1h", or the API's JSON`)
    .option('--jitter <share>', 'share of the wait that is added at random, 0 to 0.5')
    .option('--priority <priority>', 'high, normal or low')
    .option('--concurrency <n>', 'callbacks in flight at once')
    .option('--rate <n>', 'callbacks per second; 0 = no limit')
    .option('--method <method>', 'POST or PUT; GET with --format form')
    .option('--format <format>', 'raw: the body as pushed; form: its members as form fields')
    .option('--empty-reply <what>', 'retry or accept a 2xx without a body; default: accept, form: retry')
    .option('--ok-status <list>', 'statuses that may count as success: 2xx,404; repeatable', gather)
    .option('--header <name: value>', "sent with every callback; repeatable; '' is none", gather)
    .option(
      '--alert <addresses>',
      "told by mail when a job dies: a@b.c,d@e.f; repeatable; '' is nobody",
      gather,
    )
    .option('--title <text>')
    .option('--owner <text>');
}

export function topicJsonOf(flags: TopicFlags): Record<string, unknown> {
  const json: Record<string, unknown> = {
    callbackUrl: flags.callback,
    delay: flags.delay,
    retryIf: flags.rule,
    timeout: flags.timeout,
    maxAttempts: numberOf('--max-attempts', flags.maxAttempts),
    backoff: backoffOf(flags.backoff),
    jitter: numberOf('--jitter', flags.jitter),
    priority: flags.priority,
    concurrency: numberOf('--concurrency', flags.concurrency),
    rate: numberOf('--rate', flags.rate),
    method: flags.method,
    format: flags.format,
    emptyReply: flags.emptyReply,
    okStatus: flags.okStatus?.flatMap(listOf),
    headers:
      flags.header === undefined ? undefined : parseHeaders(flags.header.filter((text) => text !== '')),
    alertEmails: flags.alert?.flatMap(listOf).filter((address) => address !== ''),
    title: flags.title,
    owner: flags.owner,
  };
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== undefined));
}

function listOf(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

function numberOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,9}(\.\d{1,9})?$/.test(text)) throw new Exit('usage', `${flag}: "${text}" is no number`);
  return Number(text);
}

/** "15s,3m" and "15s" are ladders; what begins as JSON is handed on as JSON. */
function backoffOf(text: string | undefined): unknown {
  if (text === undefined || text === '2n+1') return text;
  if (!/^\s*[[{]/.test(text)) return listOf(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Exit('usage', `--backoff: ${(error as Error).message}`, { cause: error });
  }
}
