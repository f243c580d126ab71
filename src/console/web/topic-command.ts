// The command line that creates a topic with the settings of another one. Settings with their default are
// written too: a default may change.

import type { TopicJson } from './api/types.ts';

/** `headers`: false where the session does not see their values. */
export function topicCommand(topic: TopicJson, headers: boolean): string {
  const { backoff, okStatus, alertEmails } = topic;
  const flags: (readonly [string, string | number | null])[] = [
    ['--callback', topic.callbackUrl],
    ['--title', topic.title],
    ['--owner', topic.owner],
    ['--method', topic.method],
    ['--format', topic.format],
    ...(headers
      ? Object.entries(topic.headers).map(([name, value]) => ['--header', `${name}: ${value}`] as const)
      : []),
    ['--delay', topic.delay],
    ['--timeout', topic.timeout],
    ['--rule', topic.retryIf],
    ['--ok-status', okStatus.join(',')],
    ['--empty-reply', topic.emptyReply],
    ['--max-attempts', topic.maxAttempts],
    ['--backoff', backoffText(backoff)],
    ['--jitter', topic.jitter],
    ['--priority', topic.priority],
    ['--concurrency', topic.concurrency],
    ['--rate', topic.rate],
    ['--alert', alertEmails.join(',')],
  ];
  const given = flags.flatMap(([flag, value]) =>
    value === null || value === '' ? [] : [`${flag} ${quoted(String(value))}`],
  );
  return [`dq topic add ${topic.topic}`, ...given].join(' \\\n  ');
}

function backoffText(backoff: TopicJson['backoff']): string {
  if (typeof backoff === 'string') return backoff;
  return Array.isArray(backoff) ? backoff.join(',') : JSON.stringify(backoff);
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
