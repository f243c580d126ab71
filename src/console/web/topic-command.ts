// The command line that creates a topic with the settings of another one. Settings with their default are
// written too: a default may change.

import type { TopicJson } from './api/types.ts';

/** `headers`: false where the session does not see their values. */
export function topicCommand(topic: TopicJson, headers: boolean): string {
  const { backoff, alertEmails, alertHooks, delivery } = topic;
  const flags: Flag[] = [
    ...(delivery === 'pull' ? [['--delivery', 'pull'] as const, ['--lease', topic.lease] as const] : []),
    ...(delivery === 'mq' ? [['--target', targetText(topic)] as const] : []),
    ['--title', topic.title],
    ['--owner', topic.owner],
    ['--delay', topic.delay],
    ['--max-attempts', topic.maxAttempts],
    ['--backoff', backoffText(backoff)],
    ['--jitter', topic.jitter],
    ['--priority', topic.priority],
    ['--alert', alertEmails.join(',')],
    ['--alert-hook', alertHooks.join(',')],
    ...(delivery === 'push' ? callFlags(topic) : []),
    ...(delivery === 'pull' ? [] : sendFlags(topic, headers)),
  ];
  const given = flags.flatMap(([flag, value]) =>
    value === null || value === '' ? [] : [`${flag} ${quoted(String(value))}`],
  );
  return [`dq topic add ${topic.topic}`, ...given].join(' \\\n  ');
}

type Flag = readonly [string, string | number | null];

/** What only a call has. */
function callFlags(topic: TopicJson): readonly Flag[] {
  return [
    ['--callback', topic.callbackUrl],
    ['--method', topic.method],
    ['--format', topic.format],
    ['--rule', topic.retryIf],
    ['--ok-status', topic.okStatus.join(',')],
    ['--empty-reply', topic.emptyReply],
  ];
}

/** What a pull topic must not have. */
function sendFlags(topic: TopicJson, headers: boolean): readonly Flag[] {
  return [
    ...(headers
      ? Object.entries(topic.headers).map(([name, value]) => ['--header', `${name}: ${value}`] as const)
      : []),
    ['--timeout', topic.timeout],
    ['--concurrency', topic.concurrency],
    ['--rate', topic.rate],
  ];
}

/** As --target reads it: `main/orders`, `main/events#order.created`; '' = none. */
export function targetText({ target }: Pick<TopicJson, 'target'>): string {
  if (target === null || target === undefined) return '';
  return `${target.broker}/${target.to}${target.key === null ? '' : `#${target.key}`}`;
}

export function backoffText(backoff: TopicJson['backoff']): string {
  if (typeof backoff === 'string') return backoff;
  return Array.isArray(backoff) ? backoff.join(',') : JSON.stringify(backoff);
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
