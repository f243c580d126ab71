// The command line that creates a topic with the settings of another one. Settings with their default are
// written too: a default may change.

import type { TopicJson } from '../../core/topic/settings.ts';
import { isUsed, type TopicFormField, topicForm } from './topic-form.ts';

/** `headers`: false where the session does not see their values. */
export function topicCommand(topic: TopicJson, headers: boolean): string {
  const flags = topicForm.flatMap((field) =>
    field.flag === undefined || !isUsed(field, topic.delivery) || isImplied(field, topic, headers)
      ? []
      : valuesOf(field, topic).map((value) => `${field.flag} ${quoted(value)}`),
  );
  return [`dq topic add ${topic.topic}`, ...flags].join(' \\\n  ');
}

/** --callback and --target say the delivery. */
const isImplied = ({ name }: TopicFormField, { delivery }: TopicJson, headers: boolean): boolean =>
  name === 'delivery' ? delivery !== 'pull' : name === 'headers' && !headers;

/** The values of a flag, which repeats that of a header. */
function valuesOf({ name, kind }: TopicFormField, topic: TopicJson): readonly string[] {
  if (kind === 'headers')
    return Object.entries(topic.headers).map(([header, value]) => `${header}: ${value}`);
  const value = topic[name];
  const text =
    kind === 'target'
      ? targetText(topic)
      : kind === 'backoff'
        ? backoffText(topic.backoff)
        : Array.isArray(value)
          ? value.join(',')
          : String(value ?? '');
  return text === '' ? [] : [text];
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
