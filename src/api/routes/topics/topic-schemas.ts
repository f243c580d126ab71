// Topics as /openapi.json describes them. What is accepted is decided by core/topic/settings.ts, which names every mistake in
// words; a test holds the two together.

import { Type } from 'typebox';
import { durationExamples, durationPattern } from '../../../core/duration.ts';
import { limits } from '../../../core/limits.ts';
import { mailAddressPattern } from '../../../core/mail-address.ts';
import { closed, Instant } from '../../http/schemas.ts';

const DurationValue = Type.Unsafe<string | number>({
  type: ['string', 'integer'],
  description: `a duration such as ${durationExamples}; of numbers 0 alone`,
  minimum: 0,
  maximum: 0,
  pattern: durationPattern,
});
const Label = Type.String({ maxLength: limits.topicLabelMax });
const TopicName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$' });
const State = Type.Enum(['active', 'paused', 'offline'], {
  description:
    'paused: pushes are accepted, deliveries held; offline: pushes are refused, deliveries held. Nothing is dropped by either',
});

const Backoff = Type.Union(
  [
    Type.Literal('2n+1'),
    Type.Array(DurationValue, { minItems: 1, maxItems: limits.backoffStepsMax }),
    closed({
      type: Type.Literal('exponential'),
      base: DurationValue,
      factor: Type.Number({ minimum: 1, maximum: limits.backoffFactorMax }),
      cap: DurationValue,
    }),
  ],
  {
    description:
      'waits after failures: 1, 3, 5 … retry.unit; a ladder whose last step repeats; or min(cap, base × factor^n)',
  },
);

export const Secret = Type.String({
  pattern: '^whsec_[A-Za-z0-9+/]+={0,2}$',
  description: `whsec_ and the base64 of ${limits.secretBytesMin}–${limits.secretBytesMax} bytes; made when not given`,
});

const settings = {
  title: Type.Optional(Label),
  owner: Type.Optional(Label),
  method: Type.Optional(Type.Enum(['POST', 'PUT', 'GET'], { description: 'GET needs format form' })),
  format: Type.Optional(
    Type.Enum(['raw', 'form'], {
      description:
        'raw: the body as it was pushed; form: its top-level members as form fields, of a GET in the query',
    }),
  ),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String({ maxLength: limits.topicHeaderValueMax }), {
      maxProperties: limits.topicHeadersMax,
      description:
        'sent with every callback; hop-by-hop headers and those that dq sets are refused. Callers without the scope admin see each value as ***; *** in a request keeps the stored value',
    }),
  ),
  delay: Type.Optional(DurationValue),
  timeout: Type.Optional(DurationValue),
  retryIf: Type.Optional(
    Type.String({ maxLength: limits.ruleCharsMax, description: 'retry rule; true means retry' }),
  ),
  okStatus: Type.Optional(
    Type.Array(Type.String({ pattern: '^[245](xx|\\d\\d)$' }), {
      minItems: 1,
      maxItems: limits.topicOkStatusMax,
    }),
  ),
  emptyReply: Type.Optional(
    Type.Enum(['retry', 'accept'], {
      description:
        'what a 2xx without a body means, a 204 excepted. Default: accept for format raw, retry for form; a PATCH of format alone leaves it as it is',
    }),
  ),
  maxAttempts: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.topicAttemptsMax })),
  backoff: Type.Optional(Backoff),
  jitter: Type.Optional(Type.Number({ minimum: 0, maximum: limits.topicJitterMax })),
  priority: Type.Optional(Type.Enum(['high', 'normal', 'low'])),
  concurrency: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.topicConcurrencyMax })),
  rate: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.topicRateMax,
      description: 'callbacks per second; 0 = no limit',
    }),
  ),
  alertEmails: Type.Optional(
    Type.Array(Type.String({ pattern: mailAddressPattern.source }), {
      maxItems: limits.topicEmailsMax,
      description: 'told when a job dies, beside alerts.emails of the configuration',
    }),
  ),
  dangerouslySkipTlsVerify: Type.Optional(Type.Boolean()),
  state: Type.Optional(State),
  secret: Type.Optional(Secret),
};
const CallbackUrl = Type.String({ format: 'uri', maxLength: limits.callbackUrlMax });

export const TopicCreate = closed({ topic: TopicName, callbackUrl: CallbackUrl, ...settings });
export const TopicPut = closed({ topic: Type.Optional(TopicName), callbackUrl: CallbackUrl, ...settings });
export const TopicPatch = closed({
  topic: Type.Optional(TopicName),
  callbackUrl: Type.Optional(CallbackUrl),
  ...settings,
});

const { secret: _, ...shown } = settings;
/** Every member is present in a reply. */
export const Topic = Type.Object({
  topic: TopicName,
  callbackUrl: CallbackUrl,
  ...Type.Required(Type.Object(shown)).properties,
  createdAt: Instant,
  updatedAt: Instant,
});
export const TopicWithSecret = Type.Object({
  ...Topic.properties,
  secret: Type.String({ description: 'shown here and never again' }),
});
