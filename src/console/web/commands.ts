// Command lines for a POSIX shell that the page copies: a request as curl, and a topic as dq topic add.

import type { TopicJson } from '../../core/topic/settings.ts';
import { isUsed, type TopicFormField, topicForm } from './topic-form.ts';

interface CurlRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** text, or base64 of other bytes; neither: none */
  readonly body?: string;
  readonly bodyBase64?: string;
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** --data-raw, because --data-binary reads a file where the body begins with @. */
export function curlOf({ method, url, headers, body, bodyBase64 }: CurlRequest): string {
  const command = [
    `curl -X ${method} ${quoted(url)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    // curl would add a content type of its own.
    ...(Object.hasOwn(headers, 'content-type') ? [] : ["-H 'content-type:'"]),
    ...(bodyBase64 === undefined ? [] : ['--data-binary @-']),
    ...(body === undefined || body === '' ? [] : [`--data-raw ${quoted(body)}`]),
  ].join(' \\\n  ');
  return bodyBase64 === undefined ? command : `echo ${bodyBase64} | base64 -d | ${command}`;
}

/** Creates a topic with the settings of another one. Settings with their default are written too: a default
 *  may change. `headers`: false where the session does not see their values. */
export function topicCommand(topic: TopicJson, headers: boolean): string {
  const flags = topicForm.flatMap((field) =>
    field.flag === undefined || !isUsed(field, topic.delivery) || isImplied(field, topic, headers)
      ? []
      : valuesOf(field, topic).map((value) => `${field.flag} ${argument(value)}`),
  );
  return [`dq topic add ${topic.topic}`, ...flags].join(' \\\n  ');
}

const argument = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : quoted(text));

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
