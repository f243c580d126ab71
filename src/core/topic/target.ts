// The target of a topic as users write it: the broker and the place in it that get the jobs. Reads and prints
// it. Registration accepts the brokers of the configuration only.

import { brokerNamePattern, noTarget, type Target } from '../broker.ts';
import type { FieldErrors } from '../errors.ts';
import { unknownName } from '../suggest.ts';
import type { More, TopicField, TopicPolicy } from './field-kinds.ts';

/** Bytes of an AMQP 0-9-1 short string, which names of exchanges and queues and routing keys are. */
const nameBytesMax = 255;

const members = {
  broker: 'name of a broker',
  to: 'queue, exchange or address',
  key: 'routing key or subject',
};

export function target(help: string, more: More): TopicField<Target, Target | null> {
  return {
    ...more,
    help,
    default: noTarget,
    kind: 'target',
    defaultText: 'none',
    bounds: `\`{"broker", "to", "key"}\`, \`to\` and \`key\` at most ${nameBytesMax} bytes`,
    schema: {
      type: ['object', 'null'],
      properties: {
        broker: { type: 'string', pattern: brokerNamePattern.source, description: members.broker },
        to: { type: 'string', minLength: 1, maxLength: nameBytesMax, description: members.to },
        key: { type: ['string', 'null'], maxLength: nameBytesMax, description: members.key },
      },
      required: ['broker', 'to'],
      additionalProperties: false,
    },
    print: (value) => (value.broker === '' ? null : value),
    parse: parseTarget,
  };
}

function parseTarget(
  value: unknown,
  field: string,
  errors: FieldErrors,
  { brokers }: TopicPolicy,
): Target | undefined {
  if (value === null) return noTarget;
  if (typeof value !== 'object' || Array.isArray(value))
    return errors.reject(field, 'must be an object such as {"broker":"main","to":"orders"}');
  const { broker, to, key = null, ...rest } = value as Readonly<Record<string, unknown>>;
  const before = errors.count;
  for (const name of Object.keys(rest))
    errors.reject(
      `${field}.${name}`,
      unknownName('member', name, Object.keys(members), `write ${Object.keys(members).join(', ')}`),
    );
  if (typeof broker !== 'string' || !brokers.has(broker))
    errors.reject(`${field}.broker`, unknownBroker(brokers));
  const toProblem = to === '' ? 'must not be empty' : nameProblem(to);
  if (toProblem !== null) errors.reject(`${field}.to`, toProblem);
  const keyProblem = key === null ? null : nameProblem(key);
  if (keyProblem !== null) errors.reject(`${field}.key`, keyProblem);
  return errors.count === before
    ? { broker: broker as string, to: to as string, key: key as string | null }
    : undefined;
}

/** Never the given value: it may be a URL with a credential. */
export function unknownBroker(brokers: TopicPolicy['brokers']): string {
  const names = [...brokers.keys()];
  return names.length === 0
    ? 'no broker is configured; add one to brokers in the configuration of dq, and reload'
    : `must be a name of brokers in the configuration of dq: ${names.join(', ')}`;
}

function nameProblem(value: unknown): string | null {
  if (typeof value !== 'string') return 'must be a string';
  const bytes = Buffer.byteLength(value);
  if (bytes > nameBytesMax) return `must be at most ${nameBytesMax} bytes, not ${bytes}`;
  return /\p{Cc}|\p{Cs}/u.test(value) ? 'must be text without control characters or line breaks' : null;
}

/** `main/orders` and `main/events#order.created` as JSON; null for other text. The last `#` begins the
 *  key. */
export function targetJson(text: string): Target | null {
  const slash = text.indexOf('/');
  const hash = text.lastIndexOf('#');
  if (slash < 1) return null;
  const end = hash > slash ? hash : text.length;
  const key = hash > slash ? text.slice(hash + 1) : null;
  return { broker: text.slice(0, slash), to: text.slice(slash + 1, end), key };
}
