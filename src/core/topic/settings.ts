// A topic as users write and read it: JSON → settings with every mistake named, and topic → JSON without
// its secret. fields.ts declares the fields. Does no I/O.

import { formatInstant } from '../duration.ts';
import { type DqError, FieldErrors } from '../errors.ts';
import { unknownName } from '../suggest.ts';
import type { Backoff } from './backoff.ts';
import type { Delivery, TopicField, TopicPolicy } from './field-kinds.ts';
import { topicColumns, topicFields } from './fields.ts';
import { secretDigest } from './secrets.ts';
import {
  defaultEmptyReply,
  type Topic,
  type TopicSettings,
  type TopicState,
  topicDefaults,
} from './topic.ts';

/** The members that a request gives. */
export interface TopicInput {
  readonly topic?: string;
  readonly settings: Partial<TopicSettings>;
  readonly secret?: string;
  readonly state?: TopicState;
}

type TopicParsed =
  | { readonly ok: true; readonly input: TopicInput }
  | { readonly ok: false; readonly error: DqError };

type Key = keyof TopicSettings;
const fields = Object.entries(topicFields) as [Key, TopicField][];

type ApiName<K extends string> = K extends `${infer Name}Ms` ? Name : K;
type JsonOf<F> = F extends TopicField<infer _, infer Json> ? Json : never;

/** The name of a setting in the API's JSON, which has texts such as "30s" for milliseconds. */
export function apiName<K extends string>(key: K): ApiName<K> {
  return key.replace(/Ms$/, '') as ApiName<K>;
}

export type TopicFieldName = ApiName<keyof typeof topicFields>;

/** A topic in the API's JSON. */
export type TopicJson = {
  readonly [K in keyof typeof topicFields as ApiName<K>]: JsonOf<(typeof topicFields)[K]>;
} & {
  readonly topic: string;
  readonly state: TopicState;
  /** null: the caller lacks the scope `admin` */
  readonly secretDigest: string | null;
  readonly revision: number;
  readonly createdAt: string;
  readonly updatedAt: string;
};

/** Every member that a topic's JSON may have in a request. */
export const topicInputNames: ReadonlySet<string> = new Set([
  ...Object.keys(topicColumns),
  ...fields.map(([key]) => apiName(key)),
  // Ignored: clients send back what they read. If-Match compares the revision.
  'secretDigest',
  'revision',
]);

/** Members of a topic's JSON that a request must not have. */
const setByDq: ReadonlySet<string> = new Set(['createdAt', 'updatedAt']);

/** `complete`: POST and PUT, where a missing member takes its default. `named`: POST, whose path has no
 *  topic. */
export function parseTopicInput(
  json: unknown,
  policy: TopicPolicy,
  complete: boolean,
  named = false,
): TopicParsed {
  const errors = new FieldErrors();
  const input = readInput(json, policy, errors);
  if (named && input.topic === undefined && !errors.has('topic') && !errors.has('body'))
    errors.reject('topic', 'is required');
  if (complete) checkTogether(completeSettings(input), input, errors);
  const error = errors.error();
  return error === null ? { ok: true, input } : { ok: false, error };
}

function readInput(json: unknown, policy: TopicPolicy, errors: FieldErrors): TopicInput {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    errors.reject('body', 'must be a JSON object');
    return { settings: {} };
  }
  const given = json as Record<string, unknown>;
  for (const name of Object.keys(given))
    if (!topicInputNames.has(name)) errors.reject(name, unknownMessage(name));

  const settings: Record<string, unknown> = {};
  for (const [key, field] of fields) {
    const name = apiName(key);
    const value = read(given, name, field);
    if (value !== undefined) settings[key] = value;
  }
  const input: Record<string, unknown> = { settings };
  for (const [name, field] of Object.entries(topicColumns)) {
    const value = read(given, name, field);
    if (value !== undefined) input[name] = value;
  }
  return input as unknown as TopicInput;

  function read(from: Record<string, unknown>, name: string, field: TopicField): unknown {
    return Object.hasOwn(from, name) ? field.parse(from[name], name, errors, policy) : undefined;
  }
}

function unknownMessage(name: string): string {
  if (setByDq.has(name)) return 'is set by dq; leave it out';
  return unknownName('field', name, [...topicInputNames], 'leave it out');
}

/** Checks fields against each other. `settings`: as they would be stored; `input`: names the field that the
 *  request gave. A patch is checked after it is applied to the stored topic. */
export function checkTogether(
  settings: TopicSettings,
  { settings: given }: TopicInput,
  errors: FieldErrors,
): void {
  const { delivery } = settings;
  const isForm = settings.format === 'form';
  // Without a given one, its default depends on the format, which is then the mistake.
  for (const key of unusedBy(delivery))
    if (!isDefault(key, settings[key]) && !(key === 'emptyReply' && isForm && given[key] === undefined))
      errors.reject(apiName(key), `not used with delivery "${delivery}"; leave it out`);
  if (delivery === 'pull') return;
  // One that was rejected for another reason is missing here.
  const needed = delivery === 'mq' ? 'target' : 'callbackUrl';
  const isMissing = delivery === 'mq' ? settings.target.broker === '' : settings.callbackUrl === '';
  if (isMissing && !errors.has(needed))
    errors.reject(
      needed,
      delivery === 'mq'
        ? 'is needed with delivery "mq"; give a broker of the configuration and its queue, exchange or address'
        : 'is needed',
    );
  if (delivery === 'mq' && isForm)
    errors.reject('format', 'delivery "mq" publishes the body as pushed; use format "raw"');
  refuseNoPause(settings.backoff, settings, errors);
  if (settings.againIf !== '' && settings.againAfter === '' && !errors.has('againAfter'))
    errors.reject('againIf', 'needs againAfter; give a duration such as 10m');
  const { method, format } = settings;
  if (method !== 'GET' || format === 'form') return;
  const field = given.method === undefined ? 'format' : 'method';
  errors.reject(
    field,
    'method "GET" sends no body and needs format "form", which puts the job into the query',
  );
}

/** Fields that a topic of this delivery must not have. */
export function unusedBy(delivery: Delivery): readonly Key[] {
  return fields.flatMap(([key, { usedBy, isKept }]) =>
    usedBy === undefined || usedBy.includes(delivery) || isKept === true ? [] : [key],
  );
}

function isDefault(key: Key, value: unknown): boolean {
  return JSON.stringify(value) === JSON.stringify(topicDefaults[key]);
}

/** `settings` after a change of the delivery: without the fields that it does not use. */
export function withDelivery(settings: TopicSettings, delivery: Delivery = settings.delivery): TopicSettings {
  if (delivery === settings.delivery) return settings;
  const dropped: readonly Key[] = [...unusedBy(delivery), ...(delivery === 'mq' ? ['format' as const] : [])];
  return { ...settings, ...Object.fromEntries(dropped.map((key) => [key, topicDefaults[key]])) };
}

/** Replaces masked header values by those of `known`; null = no topic yet. Throws DqError for a masked value
 *  of a header that `known` lacks: dq would send the mask in place of a credential. */
export function unmaskHeaders(input: TopicInput, known: Pick<TopicSettings, 'headers'> | null): TopicInput {
  const { headers } = input.settings;
  if (headers === undefined || !Object.values(headers).includes(maskedValue)) return input;
  const errors = new FieldErrors();
  const kept = Object.entries(headers).map(([name, value]) => {
    if (value !== maskedValue) return [name, value];
    const stored = known !== null && Object.hasOwn(known.headers, name) ? known.headers[name] : undefined;
    if (stored === undefined)
      errors.reject(
        `headers.${name}`,
        `"${maskedValue}" keeps a stored value, and the topic has no header of this name; send the value`,
      );
    return [name, stored];
  });
  errors.throwIfAny();
  return { ...input, settings: { ...input.settings, headers: Object.fromEntries(kept) } };
}

/** Fills in the defaults. `input` comes from a complete parse. */
export function completeSettings(input: TopicInput): TopicSettings {
  const { format = topicDefaults.format } = input.settings;
  return { ...topicDefaults, emptyReply: defaultEmptyReply(format), ...input.settings } as TopicSettings;
}

/** Replaces the value of a header for callers without the scope `admin`. In a request it keeps the stored
 *  value. */
export const maskedValue = '***';

/** The API's JSON of a topic, without its secret. `showsValues`: with the values of its headers, which can
 *  be credentials, and with the digest of its secret. */
export function topicJson(topic: Topic, showsValues: boolean): TopicJson {
  const json: Record<string, unknown> = { topic: topic.topic, ...settingsJson(topic) };
  if (!showsValues)
    json['headers'] = Object.fromEntries(Object.keys(topic.headers).map((name) => [name, maskedValue]));
  json['state'] = topic.state;
  const [current] = topic.secrets;
  json['secretDigest'] =
    showsValues && current !== undefined ? secretDigest(topic.topic, current.secret) : null;
  json['revision'] = topic.revision;
  json['createdAt'] = formatInstant(topic.createdAt);
  json['updatedAt'] = formatInstant(topic.updatedAt);
  return json as TopicJson;
}

/** The API's JSON of settings, in the order of the fields. */
export function settingsJson(settings: TopicSettings): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    fields.map(([key, { print }]) => [
      apiName(key),
      print === undefined ? settings[key] : print(settings[key]),
    ]),
  );
}

/** Rejects waits of 0s, which would be calls without a pause. */
export function refuseNoPause(
  backoff: Backoff,
  { delivery }: Pick<TopicSettings, 'delivery'>,
  errors: FieldErrors,
): void {
  if (delivery === 'pull' || backoff.type !== 'ladder' || !backoff.stepsMs.includes(0)) return;
  errors.reject('backoff', 'a wait of 0s needs delivery "pull"; dq would call the receiver without a pause');
}
