// Topics: their fields, which core/topic/fields.ts declares, their secret, their capacity, and the preview of
// a draft. The parsers of that table decide what dq accepts; a test compares both.

import { type TSchema, type TUnsafe, Type } from 'typebox';
import { jobStates } from '../../core/job.ts';
import { replyVerdicts } from '../../core/sample-replies.ts';
import { type TopicField, textOf } from '../../core/topic/field-kinds.ts';
import { topicColumns, topicFields, topicStates } from '../../core/topic/fields.ts';
import { apiName, type TopicJson } from '../../core/topic/settings.ts';
import { CapacityReason } from './job.ts';
import {
  closed,
  count,
  countOrNull,
  dueJob,
  each,
  FieldProblem,
  flag,
  instant,
  type JsonOf,
  orNull,
  pageOf,
  pagingParams,
  problems,
  reply,
  TopicName,
  text,
  textOrNull,
  texts,
  topicParam,
  yes,
} from './schema.ts';
import { TopicAttention } from './stats.ts';

/** Where the default is not a telling example. */
const examples: Readonly<Record<string, unknown>> = {
  topic: 'order.close',
  callbackUrl: 'https://shop.example.org/callbacks/order-close',
  title: 'Close unpaid orders',
  owner: 'shop',
  headers: { 'x-tenant': 'shop' },
  delay: '30m',
  retryIf: '{res.code}!=200',
  deadIf: '{res.code}=="E_ARG"',
  againIf: '{res.state}=="pending"',
  againAfter: '{res.retry_in}s',
  backoff: ['15s', '3m', '1h'],
  jitter: 0.1,
  alertEmails: ['ops@example.org'],
  alertHooks: ['ops-chat'],
  state: 'active',
  secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw',
};

/** The value in the API's JSON; undefined where there is none, or where another field changes it. */
function defaultOf(field: TopicField): unknown {
  if (field.default === undefined || field.defaultText !== undefined) return undefined;
  return field.print === undefined ? field.default : field.print(field.default);
}

function schemaOf<T = string>(name: string, field: TopicField): TUnsafe<T> {
  const example = examples[name] ?? defaultOf(field) ?? field.default;
  return Type.Unsafe<T>({ ...field.schema, description: textOf(field), examples: [example] });
}

type Settings = Omit<TopicJson, 'topic' | 'secretDigest' | 'revision' | 'createdAt' | 'updatedAt'>;
type SettingSchemas = { readonly [K in keyof Settings]: TUnsafe<Settings[K]> };

const fields: readonly [string, TopicField][] = Object.entries({ ...topicFields, state: topicColumns.state });
const settings = Object.fromEntries(
  fields.map(([key, field]) => [apiName(key), schemaOf(apiName(key), field)]),
) as unknown as SettingSchemas;

/** As in a request that creates or replaces: a missing field takes its default. */
const withDefaults = Object.fromEntries(
  fields.map(([key, field]) => {
    const schema = schemaOf(apiName(key), field);
    const byDefault = defaultOf(field);
    return [apiName(key), byDefault === undefined ? schema : Type.Unsafe({ ...schema, default: byDefault })];
  }),
);

const Name = schemaOf('topic', topicColumns.topic);
const TopicSecret = schemaOf('secret', topicColumns.secret);

const optional = (schemas: Readonly<Record<string, TSchema>>) =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, Type.Optional(schema)]));

const ignored = optional({
  secretDigest: textOrNull('as read, ignored', null),
  revision: count('as read, ignored; the header If-Match compares it', 17),
});
const written = { ...optional({ ...withDefaults, secret: TopicSecret }), ...ignored };
export const TopicInput = closed({ topic: Name, ...written }, { title: 'TopicInput' });

export const TopicReplacement = closed(
  { topic: Type.Optional(Name), ...written },
  { title: 'TopicReplacement' },
);

export const TopicPatch = closed(
  { ...optional({ topic: Name, ...settings, secret: TopicSecret }), ...ignored },
  { title: 'TopicPatch' },
);

/** A reply has every member. */
const shown = {
  topic: Name,
  ...settings,
  secretDigest: textOrNull(
    'HMAC-SHA256 of the name with the secret as the key, base64url; null: the caller lacks the scope admin',
    'ePQ-TBnUl4p1CFH5633C6g_234kBLxx2vCXMfkgNESg',
  ),
  revision: count('number of the last change; give it as If-Match to change no later one', 17),
  createdAt: instant('when the topic was created'),
  updatedAt: instant('when the topic was last changed'),
};

const Topic = Type.Object(shown, { title: 'Topic' });

const TopicWithSecret = Type.Object(
  {
    ...shown,
    secret: text('signing secret; shown here and never again', 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw'),
  },
  { title: 'TopicWithSecret' },
);
export type TopicWithSecretJson = JsonOf<typeof TopicWithSecret>;

const tags = ['topics'];
const params = closed(topicParam);

export const listTopicsSchema = {
  operationId: 'listTopics',
  tags,
  summary: 'Topics by name',
  querystring: closed({
    search: Type.Optional(text('part of name, title or owner; ignores case', 'order')),
    owner: Type.Optional(text('exact owner', 'shop')),
    state: Type.Optional(Type.Enum([...topicStates], { description: 'state of the topic' })),
    ...pagingParams,
  }),
  response: { 200: reply('a page', pageOf(Topic)), ...problems(503) },
};

export const createTopicSchema = {
  operationId: 'createTopic',
  tags,
  summary: 'Register a topic',
  response: { 201: reply('the topic and its secret', TopicWithSecret), ...problems(409, 413, 415, 503) },
};

export const getTopicSchema = {
  operationId: 'getTopic',
  tags,
  summary: 'Read a topic',
  params,
  response: { 200: reply('the topic', Topic), ...problems(404, 503) },
};

export const putTopicSchema = {
  operationId: 'putTopic',
  tags,
  summary: 'Create or replace a topic; missing fields take their defaults, the secret stays',
  params,
  response: {
    200: reply('replaced', Topic),
    201: reply('created, with its secret', TopicWithSecret),
    ...problems(404, 412, 413, 415, 503),
  },
};

export const patchTopicSchema = {
  operationId: 'patchTopic',
  tags,
  summary: 'Change the given fields of a topic',
  params,
  response: { 200: reply('changed', Topic), ...problems(404, 412, 413, 415, 503) },
};

export const removeTopicSchema = {
  operationId: 'removeTopic',
  tags,
  summary: 'Remove a topic without jobs; with jobs: 409 and no change. Takes 2 s',
  params,
  querystring: closed({
    jobs: Type.Optional(Type.Enum(['purge'], { description: 'also remove its jobs, dead letters included' })),
  }),
  response: {
    200: reply('removed', Type.Object({ deleted: yes, purged: count('jobs removed', 0) })),
    ...problems(404, 409, 412, 413, 503),
  },
};

export const stateVerb = {
  tags: ['topics'],
  params: closed(topicParam),
  response: { 200: reply('the topic', Topic), ...problems(404, 413, 503) },
};

const StoredStates = closed(each(jobStates, (state) => count(`${state} jobs stored now`, 1)));

const NotifierCapacity = closed(
  {
    notifier: text('name of its process, as in /v1/processes', 'dq-notifier-0'),
    reasons: orNull(
      Type.Array(CapacityReason),
      'reasons of this notifier; null: it did not answer in time',
      [],
    ),
  },
  { title: 'NotifierCapacity' },
);

const Capacity = closed(
  {
    topic: TopicName,
    states: orNull(StoredStates, 'stored jobs; null: the store does not answer', {
      delayed: 3,
      ready: 0,
      reserved: 0,
      dead: 1,
    }),
    attention: orNull(
      TopicAttention,
      'as in GET /v1/summary, without `reasons` where nothing is wrong; null: the store does not answer',
    ),
    delayed: orNull(
      closed({
        retrying: countOrNull(
          'those that wait for another attempt; null: too many delayed jobs to look at each',
          2,
        ),
        next: closed(dueJob, { description: 'the one that is due first' }),
      }),
      'its delayed jobs; null: there is none, or no answer',
    ),
    reasons: Type.Array(CapacityReason, { description: 'reasons of the whole instance' }),
    notifiers: Type.Array(NotifierCapacity, { description: 'each notifier of this instance' }),
  },
  { title: 'TopicCapacity' },
);
export type CapacityJson = JsonOf<typeof Capacity>;

export const topicCapacitySchema = {
  operationId: 'topicCapacity',
  tags: ['topics'],
  summary: 'Why jobs of a topic are not called now',
  params: closed(topicParam),
  response: {
    200: reply('without any reason, dq calls the jobs of the topic as soon as they are due', Capacity),
    ...problems(404, 503),
  },
};

const CallbackDestination = closed(
  {
    host: text('host of the callback URL', 'shop.example.org'),
    addresses: texts('its addresses, as this machine resolves it now', ['10.20.4.18']),
    verdict: Type.Enum(['allowed', 'refused', 'unknown'], {
      description:
        'of the egress policy; refused: every address is forbidden; unknown: not resolved, at most one per second',
    }),
    reason: textOrNull('why it is refused or unknown'),
  },
  { title: 'CallbackDestination' },
);
export type CallbackDestinationJson = JsonOf<typeof CallbackDestination>;

const TopicPreview = closed(
  {
    errors: Type.Array(FieldProblem, { description: 'mistakes; empty: the draft can be saved' }),
    waitsMs: orNull(
      Type.Array(Type.Integer()),
      'wait after each failed attempt but the last, without jitter; null: the draft has mistakes',
      [60_000, 180_000],
    ),
    totalMs: countOrNull('sum of the waits', 240_000),
    destination: orNull(
      CallbackDestination,
      'where callbacks go; null: the draft has mistakes, or the caller lacks the scope admin',
    ),
  },
  { title: 'TopicPreview' },
);
export type TopicPreviewJson = JsonOf<typeof TopicPreview>;

export const previewTopicSchema = {
  operationId: 'previewTopic',
  tags: ['topics'],
  summary: 'What a draft of a topic would do; changes nothing',
  description: 'The draft of a registered topic is read as in PATCH, every other one as in POST.',
  response: { 200: reply('the preview', TopicPreview), ...problems(413, 415, 503) },
};

const RotatedSecret = closed(
  {
    topic: TopicName,
    secret: text('the new secret; shown here and never again', 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw'),
    oldSignsUntil: instant('until when the previous secret also signs'),
  },
  { title: 'RotatedSecret' },
);
export type RotatedSecretJson = JsonOf<typeof RotatedSecret>;

export const rotateSecretSchema = {
  operationId: 'rotateSecret',
  tags: ['topics'],
  summary: "Rotate a topic's secret; the previous one also signs for 24 h",
  params: closed(topicParam),
  response: { 200: reply('the new secret', RotatedSecret), ...problems(404, 412, 413, 415, 503) },
};

export const SecretInput = closed({ secret: Type.Optional(TopicSecret) }, { title: 'SecretInput' });

const RuleTest = closed(
  {
    rule: Type.Optional(text('one rule to evaluate; instead of topic and draft', '{res.code}!=200')),
    topic: Type.Optional(text('topic that judges the reply', 'order.close')),
    draft: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description: 'fields of a topic, as in PATCH, in place of those of `topic` or of the defaults',
          examples: [{ deadIf: '{res.code}=="E_ARG"' }],
        },
      ),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'headers of the reply, by name',
        examples: [{ 'dq-again': '10m' }],
      }),
    ),
    status: Type.Optional(
      Type.Integer({
        minimum: 100,
        maximum: 999,
        default: 200,
        description: 'HTTP status of the reply',
        examples: [200],
      }),
    ),
    body: text('text of the reply', '{"code":500}'),
  },
  { title: 'RuleTest' },
);

const RuleResult = closed(
  {
    retry: Type.Optional(flag('of a rule: whether it is true', true)),
    verdict: Type.Optional(
      Type.Enum([...replyVerdicts], {
        description: 'of a topic or draft: what dq would do with a job after its first attempt',
      }),
    ),
    by: Type.Optional(
      textOrNull(
        'of a topic or draft: the field or reply header that decides; null: no check matches',
        'deadIf',
      ),
    ),
    values: Type.Record(Type.String(), Type.Unknown(), {
      description: 'value of each reference of the rules, in a first attempt',
      examples: [{ 'res.code': 500 }],
    }),
  },
  { title: 'RuleResult' },
);

export const testRuleSchema = {
  operationId: 'testRule',
  tags: ['operation'],
  summary: 'Evaluate a rule on a reply, or judge the reply as a topic does',
  body: RuleTest,
  response: { 200: reply('the result', RuleResult), ...problems(404, 413, 415) },
};
