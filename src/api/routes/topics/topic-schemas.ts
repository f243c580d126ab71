// Topics as /openapi.json describes them, derived from core/topic/fields.ts. The parsers there decide what is accepted and
// name every mistake; a test compares both.

import { type TSchema, Type } from 'typebox';
import type { TopicField } from '../../../core/topic/field-kinds.ts';
import { topicColumns, topicFields } from '../../../core/topic/fields.ts';
import { apiName } from '../../../core/topic/settings.ts';
import { closed, Instant } from '../../http/schemas.ts';

function schemaOf({ schema, help, more }: TopicField): TSchema {
  return Type.Unsafe<unknown>({ ...schema, description: more === undefined ? help : `${help}. ${more}` });
}

const settings = Object.fromEntries(
  Object.entries(topicFields).map(([key, field]) => [apiName(key, field), schemaOf(field)]),
);
const { callbackUrl = Type.Unknown(), ...optionalSettings } = settings;
const TopicName = schemaOf(topicColumns.topic);
const State = schemaOf(topicColumns.state);
export const Secret = schemaOf(topicColumns.secret);

const optional = Object.fromEntries(
  Object.entries({ ...optionalSettings, state: State, secret: Secret }).map(([name, schema]) => [
    name,
    Type.Optional(schema),
  ]),
);

export const TopicCreate = closed({ topic: TopicName, callbackUrl, ...optional });
export const TopicPut = closed({ topic: Type.Optional(TopicName), callbackUrl, ...optional });
export const TopicPatch = closed({
  topic: Type.Optional(TopicName),
  callbackUrl: Type.Optional(callbackUrl),
  ...optional,
});

/** Every member is present in a reply. */
const shown = { topic: TopicName, ...settings, state: State, createdAt: Instant, updatedAt: Instant };
export const Topic = Type.Object(shown);
export const TopicWithSecret = Type.Object({
  ...shown,
  secret: Type.String({ description: 'shown here and never again' }),
});
