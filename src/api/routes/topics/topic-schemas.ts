// topic-schemas.ts describes topics in /openapi.json, derived from core/topic/fields.ts. The parsers of that
// table decide what dq accepts; a test compares both.

import { type TSchema, Type } from 'typebox';
import { type TopicField, textOf } from '../../../core/topic/field-kinds.ts';
import { topicColumns, topicFields } from '../../../core/topic/fields.ts';
import { apiName } from '../../../core/topic/settings.ts';
import { closed, count, instant, text } from '../../http/schemas.ts';

/** Where the default is not a telling example. */
const examples: Readonly<Record<string, unknown>> = {
  topic: 'order.close',
  callbackUrl: 'https://shop.example.org/callbacks/order-close',
  title: 'Close unpaid orders',
  owner: 'shop',
  headers: { 'x-tenant': 'shop' },
  delay: '30m',
  retryIf: '{res.code}!=200',
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

function schemaOf(name: string, field: TopicField): TSchema {
  const example = examples[name] ?? defaultOf(field) ?? field.default;
  return Type.Unsafe<unknown>({ ...field.schema, description: textOf(field), examples: [example] });
}

const settings: Record<string, TSchema> = {};
/** as in a request that creates or replaces: a missing field takes its default */
const withDefaults: Record<string, TSchema> = {};
for (const [key, field] of Object.entries({ ...topicFields, state: topicColumns.state })) {
  const name = apiName(key, field);
  const schema = schemaOf(name, field);
  const byDefault = defaultOf(field);
  settings[name] = schema;
  withDefaults[name] =
    byDefault === undefined ? schema : Type.Unsafe<unknown>({ ...schema, default: byDefault });
}
const TopicName = schemaOf('topic', topicColumns.topic);
export const Secret = schemaOf('secret', topicColumns.secret);

const optional = (schemas: Readonly<Record<string, TSchema>>) =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, Type.Optional(schema)]));
const revision = Type.Optional(count('as read, ignored; the header If-Match compares it', 17));
const written = { ...optional({ ...withDefaults, secret: Secret }), revision };

export const TopicInput = closed({ topic: TopicName, ...written }, { title: 'TopicInput' });
export const TopicReplacement = closed(
  { topic: Type.Optional(TopicName), ...written },
  { title: 'TopicReplacement' },
);
export const TopicPatch = closed(
  { ...optional({ topic: TopicName, ...settings, secret: Secret }), revision },
  {
    title: 'TopicPatch',
  },
);

/** A reply has every member. */
const shown = {
  topic: TopicName,
  ...settings,
  revision: count('number of the last change; give it as If-Match to change no later one', 17),
  createdAt: instant('when the topic was created'),
  updatedAt: instant('when the topic was last changed'),
};
export const Topic = Type.Object(shown, { title: 'Topic' });
export const TopicWithSecret = Type.Object(
  {
    ...shown,
    secret: text('signing secret; shown here and never again', 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw'),
  },
  { title: 'TopicWithSecret' },
);
