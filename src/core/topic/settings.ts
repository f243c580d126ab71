// A topic as users write and read it (http-api.md, "Topics"): JSON → settings with every mistake named, and topic → JSON
// without its secret. The one place that knows the names of the API's topic fields. It stores nothing and asks nobody.

import { Complaints } from '../complaints.ts';
import { parseSecret } from '../delivery.ts';
import { formatDuration, formatInstant } from '../duration.ts';
import type { EgressPolicy } from '../egress-policy.ts';
import type { DqError } from '../errors.ts';
import { limits } from '../limits.ts';
import { parseRule } from '../rule/reply-rule.ts';
import { backoff, printBackoff } from './backoff.ts';
import {
  duration,
  emails,
  type FieldParser,
  flag,
  fraction,
  integer,
  label,
  oneOf,
  staticHeaders,
  statuses,
} from './field-parsers.ts';
import {
  defaultEmptyReply,
  type Topic,
  type TopicSettings,
  type TopicState,
  topicDefaults,
  topicNamePattern,
} from './topic.ts';

/** What a request said, and nothing it did not say. */
export interface TopicInput {
  readonly topic?: string;
  readonly settings: Partial<TopicSettings>;
  readonly secret?: string;
  readonly state?: TopicState;
}

export type TopicParsed =
  | { readonly ok: true; readonly input: TopicInput }
  | { readonly ok: false; readonly error: DqError };

type Judge = Pick<EgressPolicy, 'refusesUrl'>;

interface Field<T> {
  /** in the API's JSON */
  readonly name: string;
  readonly parse: FieldParser<T>;
  readonly print?: (value: T) => unknown;
}

const ruleSource: FieldParser<string> = (value, field, complaints) => {
  if (typeof value !== 'string') return complaints.refuse(field, 'must be a string');
  if (value === '') return value;
  const parsed = parseRule(value);
  return parsed.ok ? value : complaints.refuse(field, parsed.message, parsed.position);
};

/** callbackUrl is not among them: it needs the egress policy. */
const fields: { readonly [K in Exclude<keyof TopicSettings, 'callbackUrl'>]: Field<TopicSettings[K]> } = {
  title: { name: 'title', parse: label },
  owner: { name: 'owner', parse: label },
  method: { name: 'method', parse: oneOf('POST', 'PUT', 'GET') },
  format: { name: 'format', parse: oneOf('raw', 'form') },
  headers: { name: 'headers', parse: staticHeaders },
  delayMs: { name: 'delay', parse: duration(0, limits.delayMsMax), print: formatDuration },
  timeoutMs: {
    name: 'timeout',
    parse: duration(limits.topicTimeoutMsMin, limits.topicTimeoutMsMax),
    print: formatDuration,
  },
  retryIf: { name: 'retryIf', parse: ruleSource },
  okStatus: { name: 'okStatus', parse: statuses },
  emptyReply: { name: 'emptyReply', parse: oneOf('retry', 'accept') },
  maxAttempts: { name: 'maxAttempts', parse: integer(1, limits.topicAttemptsMax) },
  backoff: { name: 'backoff', parse: backoff, print: printBackoff },
  jitter: { name: 'jitter', parse: fraction(0, limits.topicJitterMax) },
  priority: { name: 'priority', parse: oneOf('high', 'normal', 'low') },
  concurrency: { name: 'concurrency', parse: integer(1, limits.topicConcurrencyMax) },
  rate: { name: 'rate', parse: integer(0, limits.topicRateMax) },
  alertEmails: { name: 'alertEmails', parse: emails },
  dangerouslySkipTlsVerify: { name: 'dangerouslySkipTlsVerify', parse: flag },
};

const keys = Object.keys(fields) as (keyof typeof fields)[];
const states = oneOf('active', 'paused', 'offline');

/** Every member that a topic's JSON may have when it is written. */
export const topicInputNames: ReadonlySet<string> = new Set([
  ...['topic', 'callbackUrl', 'secret', 'state'],
  ...keys.map((key) => fields[key].name),
]);

/** Of a topic that was read; who writes it back is told to leave them out. */
const setByDq: ReadonlySet<string> = new Set(['createdAt', 'updatedAt']);

/** `complete`: POST and PUT, which need a callbackUrl; PATCH does not. */
export function parseTopicInput(json: unknown, judge: Judge, complete: boolean): TopicParsed {
  const complaints = new Complaints();
  const input = readInput(json, judge, complete, complaints);
  if (complete) checkTogether(completeSettings(input), input, complaints);
  const error = complaints.error();
  return error === null ? { ok: true, input } : { ok: false, error };
}

function readInput(json: unknown, judge: Judge, complete: boolean, complaints: Complaints): TopicInput {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    complaints.refuse('body', 'must be a JSON object');
    return { settings: {} };
  }
  const given = json as Record<string, unknown>;
  for (const name of Object.keys(given))
    if (!topicInputNames.has(name))
      complaints.refuse(name, setByDq.has(name) ? 'is set by dq; leave it out' : 'is no field of a topic');
  const read = <T>(name: string, parse: FieldParser<T>): T | undefined =>
    Object.hasOwn(given, name) ? parse(given[name], name, complaints) : undefined;

  const settings: Record<string, unknown> = {};
  for (const key of keys) {
    const value = read<unknown>(fields[key].name, fields[key].parse);
    if (value !== undefined) settings[key] = value;
  }
  const url = read('callbackUrl', (value, field) => parseCallbackUrl(value, field, judge, complaints));
  if (url !== undefined) settings['callbackUrl'] = url;
  else if (complete && !Object.hasOwn(given, 'callbackUrl')) complaints.refuse('callbackUrl', 'is needed');

  const topic = read('topic', parseTopicName);
  const secret = read('secret', secretField);
  const state = read('state', states);
  return {
    settings,
    ...(topic === undefined ? {} : { topic }),
    ...(secret === undefined ? {} : { secret }),
    ...(state === undefined ? {} : { state }),
  };
}

export const parseTopicName: FieldParser<string> = (value, field, complaints) =>
  typeof value === 'string' && topicNamePattern.test(value)
    ? value
    : complaints.refuse(
        field,
        `must be 1 to ${limits.topicNameMax} of A-Z a-z 0-9 . _ - and begin with a letter or digit`,
      );

/** Answers the URL as the WHATWG parser writes it, so that what is judged here is what is dialled later. */
function parseCallbackUrl(
  value: unknown,
  field: string,
  judge: Judge,
  complaints: Complaints,
): string | undefined {
  if (typeof value !== 'string') return complaints.refuse(field, 'must be a string');
  // The parser drops blanks, tabs and line breaks silently.
  if (/[\s\p{Cc}\p{Cs}]/u.test(value)) return complaints.refuse(field, 'must not contain blanks');
  if (!URL.canParse(value) || value.length > limits.callbackUrlMax)
    return complaints.refuse(
      field,
      `must be an http or https URL of at most ${limits.callbackUrlMax} characters`,
    );
  const url = new URL(value);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    return complaints.refuse(field, 'must begin with http:// or https://');
  if (url.username !== '' || url.password !== '')
    return complaints.refuse(field, 'must not carry a user name or password; use headers');
  if (url.hash !== '') return complaints.refuse(field, 'must not have a fragment (#…), which is never sent');
  if (url.port === '0') return complaints.refuse(field, 'must not have port 0');
  if (url.href.length > limits.callbackUrlMax)
    return complaints.refuse(
      field,
      `must be at most ${limits.callbackUrlMax} characters when percent-encoded`,
    );
  const reason = judge.refusesUrl(url);
  return reason === null ? url.href : complaints.refuse(field, `may not be called: ${reason}`);
}

export const secretField: FieldParser<string> = (value, field, complaints) => {
  const parsed = parseSecret(value);
  return parsed.ok ? parsed.value : complaints.refuse(field, parsed.message);
};

/** What no field shows alone. `settings`: as they would be stored; `input`: what of them was asked for, to be named. A patch
 *  is checked once it is known what it changes. */
export function checkTogether(
  { method, format }: Pick<TopicSettings, 'method' | 'format'>,
  { settings: asked }: TopicInput,
  complaints: Complaints,
): void {
  if (method !== 'GET' || format === 'form') return;
  const field = asked.method === undefined ? 'format' : 'method';
  complaints.refuse(
    field,
    'method "GET" sends no body and needs format "form", which puts the job into the query',
  );
}

/** Replaces masked header values by those of `known`; null = no topic yet. Throws DqError for a masked value of a header that
 *  `known` does not have: stored, the mask would be sent in place of a credential. */
export function unmaskHeaders(input: TopicInput, known: Pick<TopicSettings, 'headers'> | null): TopicInput {
  const { headers } = input.settings;
  if (headers === undefined || !Object.values(headers).includes(maskedValue)) return input;
  const complaints = new Complaints();
  const kept = Object.entries(headers).map(([name, value]) => {
    if (value !== maskedValue) return [name, value];
    const stored = known !== null && Object.hasOwn(known.headers, name) ? known.headers[name] : undefined;
    if (stored === undefined)
      complaints.refuse(
        `headers.${name}`,
        `"${maskedValue}" keeps a stored value, and the topic has no header of this name; send the value`,
      );
    return [name, stored];
  });
  complaints.throwIfAny();
  return { ...input, settings: { ...input.settings, headers: Object.fromEntries(kept) } };
}

/** Settings not given = defaults. `input` must have come from a complete parse. */
export function completeSettings(input: TopicInput): TopicSettings {
  const { format = topicDefaults.format } = input.settings;
  return { ...topicDefaults, emptyReply: defaultEmptyReply(format), ...input.settings } as TopicSettings;
}

/** Stands for the value of a header where the caller may not see it. Sent back, it keeps the stored value. */
export const maskedValue = '***';

/** The API's JSON of a topic. Never its secret; `showsValues`: the values of its headers, which may be credentials. */
export function topicJson(topic: Topic, showsValues: boolean): Readonly<Record<string, unknown>> {
  const json: Record<string, unknown> = { topic: topic.topic, callbackUrl: topic.callbackUrl };
  for (const key of keys) json[fields[key].name] = printField(key, topic);
  if (!showsValues)
    json['headers'] = Object.fromEntries(Object.keys(topic.headers).map((name) => [name, maskedValue]));
  json['state'] = topic.state;
  json['createdAt'] = formatInstant(topic.createdAt);
  json['updatedAt'] = formatInstant(topic.updatedAt);
  return json;
}

function printField<K extends keyof typeof fields>(key: K, topic: Topic): unknown {
  const field: Field<TopicSettings[K]> = fields[key];
  return field.print === undefined ? topic[key] : field.print(topic[key]);
}
