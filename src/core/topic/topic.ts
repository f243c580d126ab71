// What a topic is: a registered kind of job with its callback, policy and limits; and how names of topics in
// other systems become names of topics. fields.ts declares the settings, settings.ts reads what a user wrote.

import { limits } from '../limits.ts';
import type { TopicField } from './field-kinds.ts';
import { type topicColumns, topicFields, topicNamePattern } from './fields.ts';
import type { TopicSecret } from './secrets.ts';

type ValueOf<F> = F extends TopicField<infer T, infer _> ? T : never;
type Fields = typeof topicFields;

/** The settings of a topic by their stored names. */
export type TopicSettings = { readonly [K in keyof Fields]: ValueOf<Fields[K]> };
export type TopicState = ValueOf<typeof topicColumns.state>;

export interface Topic extends TopicSettings {
  readonly topic: string;
  readonly state: TopicState;
  /** the current one first */
  readonly secrets: readonly TopicSecret[];
  /** A removal that is under way has set the topic offline; the topic returns to this state when the removal
   *  fails. Offline topics only. */
  readonly removal?: { readonly formerState: TopicState };
  /** rises with every change of any topic in the registry */
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A topic without the fields that only a call needs. */
export type PlainTopic = Omit<Topic, 'secrets' | 'headers'>;

/** A topic in a cache. open() decrypts it, so that 100,000 topics cost a process little before their first
 *  call. */
export interface KnownTopic extends PlainTopic {
  /** Throws where the secrets or headers cannot be decrypted. */
  open(): Topic;
}

/** Whether dq may call its callback URL, or publish to its target, now. */
export function isCalled({ state, delivery }: Pick<Topic, 'state' | 'delivery'>): boolean {
  return state === 'active' && delivery !== 'pull';
}

/** Wraps a decrypted topic. */
export function asKnown({ secrets, headers, ...rest }: Topic): KnownTopic {
  return { ...rest, open: () => ({ ...rest, secrets, headers }) };
}

export const topicDefaults = Object.fromEntries(
  Object.entries(topicFields).flatMap(([name, field]: [string, TopicField]) =>
    field.default === undefined ? [] : [[name, field.default]],
  ),
) as unknown as TopicSettings;

/** Default of emptyReply for a format. A php-delayqueue receiver, which gets `form`, must answer with a
 *  body: its empty reply is a crash. Other receivers often answer with a status alone. */
export function defaultEmptyReply(format: TopicSettings['format']): TopicSettings['emptyReply'] {
  return format === 'form' ? 'retry' : 'accept';
}

/** A name of another system as a topic. Different names stay different, except that the encoded form of a
 *  name means this name too. The name itself where dq allows it. Otherwise `x_` and the UTF-8 bytes of the
 *  name: every byte except A-Z a-z 0-9 . - becomes `_` and two hex digits. null: empty, or too long in this
 *  form. */
export function topicOfForeign(name: string): string | null {
  if (topicNamePattern.test(name)) return name;
  const bytes = [...Buffer.from(name)].map((byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9.-]/.test(character) ? character : `_${byte.toString(16).padStart(2, '0')}`;
  });
  const encoded = `x_${bytes.join('')}`;
  return name === '' || encoded.length > limits.topicNameMax ? null : encoded;
}

/** The name in the other system. */
export function foreignOfTopic(topic: string): string {
  if (!topic.startsWith('x_')) return topic;
  const pieces = topic.slice(2).match(/_[0-9a-f]{2}|[^_]+|_/g) ?? [];
  const bytes = pieces.map((piece) =>
    /^_[0-9a-f]{2}$/.test(piece) ? Buffer.from(piece.slice(1), 'hex') : Buffer.from(piece),
  );
  const name = Buffer.concat(bytes).toString();
  return name !== topic && topicOfForeign(name) === topic ? name : topic;
}
