// change-topic.ts holds the use cases that write a topic: create, put, patch, set its state, rotate its
// secret, begin and end a removal. Each reads, changes and writes by compare-and-set, so two administrators
// never overwrite each other's change.

import { timingSafeEqual } from 'node:crypto';
import { formatTarget } from '../core/broker.ts';
import { DqError, FieldErrors, invalidField } from '../core/errors.ts';
import {
  type OutcomeField,
  type OutcomeProblem,
  type OutcomeTopics,
  outcomeFields,
} from '../core/topic/outcome-topics.ts';
import { makeSecret, rotatedSecrets, unexpired } from '../core/topic/secrets.ts';
import {
  checkTogether,
  completeSettings,
  type TopicInput,
  topicJson,
  unmaskHeaders,
  withDelivery,
} from '../core/topic/settings.ts';
import type { Topic, TopicSettings } from '../core/topic/topic.ts';
import type { BadOutcome, Registry, TopicDraft, TopicRemains } from '../ports/registry.ts';
import { StoreError } from '../ports/store-error.ts';
import { useCaseLimits } from './limits.ts';

/** Throws where the caller has no rights to a topic that onDone or onDead is to name. */
type MayName = (topic: string, field: OutcomeField) => void;

export interface ChangeWatch {
  readonly mayName?: MayName;
  /** Called before each write, whose outcome may stay unknown. `before`: null: there was no topic, or an
   *  unreadable one. */
  readonly onWrite?: (before: Topic | null, draft: TopicDraft) => void;
}

/** Rejects with topic_exists. */
export async function createTopic(
  registry: Registry,
  name: string,
  input: TopicInput,
  { mayName, onWrite }: ChangeWatch = {},
): Promise<Topic> {
  requireNamed(input.settings, null, mayName);
  const draft = newDraft(name, input);
  onWrite?.(null, draft);
  const created = await registry.create(draft);
  refuseOutcome(name, created);
  if (created.kind === 'exists')
    throw new DqError('topic_exists', `topic ${name} exists already; change it with PATCH`);
  return created.topic;
}

/** Creates or replaces: missing fields take their defaults, the secret stays. `created`: the caller must
 *  learn the secret. `expected`: as for patchTopic; then nothing is created. */
export function putTopic(
  registry: Registry,
  name: string,
  input: TopicInput,
  nowMs: number | null = null,
  expected: number | null = null,
  { mayName, onWrite }: ChangeWatch = {},
): Promise<{ readonly topic: Topic; readonly created: boolean }> {
  return untilWritten(name, async () => {
    const known = await findTopic(registry, name);
    requireRevision(name, known, expected);
    requireNamed(input.settings, known, mayName);
    if (known === null) {
      const draft = newDraft(name, input);
      onWrite?.(null, draft);
      const created = await registry.create(draft);
      refuseOutcome(name, created);
      return created.kind === 'created' ? { topic: created.topic, created: true } : undefined;
    }
    if (!('topic' in known)) {
      const draft = replacing(known, name, input, nowMs);
      onWrite?.(null, draft);
      const topic = updatedBy(name, await registry.update(draft, known.revision));
      // An unreadable secret was replaced by a generated one, which the caller must learn.
      return topic && { topic, created: known.secrets === null };
    }
    keepsSecret(known, input);
    const settings = completeSettings(unmaskHeaders(input, known));
    const draft = draftOf(known, settings, input.state ?? 'active', nowMs);
    onWrite?.(known, draft);
    const topic = updatedBy(name, await registry.update(draft, known.revision));
    return topic && { topic, created: false };
  });
}

/** Changes the given fields. Rejects with topic_not_found, and with topic_changed where the topic has not
 *  the revision `expected`. */
export function patchTopic(
  registry: Registry,
  name: string,
  input: TopicInput,
  nowMs: number | null = null,
  expected: number | null = null,
  { mayName, onWrite }: ChangeWatch = {},
): Promise<Topic> {
  return changeTopic(registry, name, (known) => {
    requireRevision(name, known, expected);
    requireNamed(input.settings, known, mayName);
    const draft = draftOf(known, patchedSettings(known, input), input.state ?? known.state, nowMs);
    onWrite?.(known, draft);
    // An explicit state ends the removal.
    return known.removal === undefined || input.state !== undefined
      ? draft
      : { ...draft, removal: known.removal };
  });
}

/** The topic as patchTopic would store it; null: as createTopic would. Throws DqError invalid. */
export function draftTopic(known: Topic | null, name: string, input: TopicInput): Topic {
  if (known !== null) return { ...known, ...patchedSettings(known, input) };
  return { ...newDraft(name, input), revision: 0, createdAt: 0, updatedAt: 0 };
}

/** Whether the write of the draft would be rejected for its outcome topics. Throws as it. */
export async function checkOutcomes(
  registry: Pick<Registry, 'outcomeProblem'>,
  { topic, onDone, onDead }: Pick<Topic, 'topic' | OutcomeField>,
  known: OutcomeTopics | null,
  mayName: MayName,
): Promise<void> {
  requireNamed({ onDone, onDead }, known, mayName);
  const problem = await registry.outcomeProblem({ topic, onDone, onDead });
  if (problem !== null) throw refusal(topic, problem);
}

/** One that it names already stays without rights to it, where the rest of the topic is changed. */
function requireNamed(
  given: Partial<OutcomeTopics>,
  known: OutcomeTopics | null,
  mayName: MayName | undefined,
): void {
  for (const field of outcomeFields) {
    const { [field]: target = '' } = given;
    if (target !== '' && target !== known?.[field]) mayName?.(target, field);
  }
}

function patchedSettings(known: Topic, input: TopicInput): TopicSettings {
  keepsSecret(known, input);
  const { settings: given } = unmaskHeaders(input, known);
  const settings = { ...withDelivery(settingsOf(known), given.delivery), ...given };
  const errors = new FieldErrors();
  checkTogether(settings, input, errors);
  errors.throwIfAny();
  return settings;
}

/** Sets the topic offline and remembers its state; changes nothing where it is offline. Rejects with
 *  topic_not_found, and with topic_changed where the topic has not the revision `expected`. */
export function beginRemoval(registry: Registry, name: string, expected: number | null): Promise<Topic> {
  return untilWritten(name, async () => {
    const known = await registry.get(name);
    if (known === null) throw topicNotFound(name);
    requireRevision(name, known, expected);
    if (known.state === 'offline') return known;
    const draft = draftOf(known, settingsOf(known), 'offline', null);
    const removal = { formerState: known.state };
    return updatedBy(name, await registry.update({ ...draft, removal }, known.revision));
  });
}

/** Restores the state that beginRemoval replaced and returns it; null when the topic is removed or its
 *  state was changed since. */
export function endRemoval(registry: Registry, name: string): Promise<Topic['state'] | null> {
  return untilWritten(name, async () => {
    const known = await registry.get(name);
    if (known?.removal === undefined) return null;
    const { formerState } = known.removal;
    const draft = draftOf(known, settingsOf(known), formerState, null);
    return updatedBy(name, await registry.update(draft, known.revision)) && formerState;
  });
}

/** Calls `make` again after a concurrent change. Rejects with topic_not_found. */
function changeTopic(registry: Registry, name: string, make: (known: Topic) => TopicDraft): Promise<Topic> {
  return untilWritten(name, async () => {
    const known = await findTopic(registry, name);
    if (known === null) throw topicNotFound(name);
    if (!('topic' in known)) throw topicUnreadable(name);
    return updatedBy(name, await registry.update(make(known), known.revision));
  });
}

/** Repeats the change while others come first: `change` returns undefined then. */
async function untilWritten<T>(name: string, change: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < useCaseLimits.topicChangeTries; tries++) {
    const written = await change();
    if (written !== undefined) return written;
  }
  throw new DqError(
    'not_stored',
    `topic ${name}: too many concurrent changes; nothing was changed, try again`,
  );
}

/** onDone or onDead names a topic that is not registered: TopicSuggestion can add a similar one. */
export class OutcomeTopicUnknown extends DqError {
  readonly topic: string;
  readonly field: OutcomeField;
  constructor({ field, message }: OutcomeProblem, topic: string) {
    super('invalid', `${field}: ${message}`, { errors: [{ field, message }] });
    this.topic = topic;
    this.field = field;
  }
}

function refuseOutcome<O extends { readonly kind: string }>(
  name: string,
  outcome: O | BadOutcome,
): asserts outcome is Exclude<O, BadOutcome> {
  if (outcome.kind === 'bad_outcome') throw refusal(name, (outcome as BadOutcome).problem);
}

function refusal(name: string, problem: OutcomeProblem): DqError {
  const { field, message, unknown, circle } = problem;
  if (unknown !== undefined) return new OutcomeTopicUnknown(problem, unknown);
  const error = invalidField(field, message);
  if (circle === undefined) return error;
  const unnamed = `leads back to ${name}, by topics that this token does not cover; name another topic`;
  const { errors } = invalidField(field, unnamed);
  return new DqError('invalid', `${field}: ${unnamed}`, { errors, naming: { topics: circle, error } });
}

/** undefined: another change came first. */
function updatedBy(name: string, outcome: Awaited<ReturnType<Registry['update']>>): Topic | undefined {
  refuseOutcome(name, outcome);
  return outcome.kind === 'updated' ? outcome.topic : undefined;
}

/** The error holds the current topic, so that a caller can compare it with its own changes. */
function requireRevision(name: string, known: Topic | TopicRemains | null, expected: number | null): void {
  if (expected === null || known?.revision === expected) return;
  if (known === null) throw topicNotFound(name);
  const topic = 'topic' in known ? topicJson(known, true) : null;
  throw new DqError(
    'topic_changed',
    `topic ${name}: its revision is ${known.revision}, not ${expected}; read it again and repeat the change`,
    { extra: { topic } },
  );
}

/** Replaces the secret; the former one also signs for limits.secretOverlapMs, so that receivers can be
 *  changed one by one. `given`: the new secret, or an old one again, instead of a generated one. `now`:
 *  storage clock, by which the former one expires. Not idempotent. Rejects with topic_not_found, and with
 *  topic_changed where the topic has not the revision `expected`. */
export function rotateSecret(
  registry: Registry,
  name: string,
  given: string | undefined,
  now: number,
  expected: number | null = null,
): Promise<Topic> {
  const secret = given ?? makeSecret();
  return changeTopic(registry, name, (known) => {
    requireRevision(name, known, expected);
    if (known.secrets[0]?.secret === secret)
      throw invalidField('secret', 'is the current one already; give another one, or none');
    return { ...known, secrets: rotatedSecrets(known.secrets, secret, now) };
  });
}

/** Has the topic's name, so that TopicSuggestion can add a similar one. */
export class TopicNotFound extends DqError {
  readonly topic: string;
  constructor(topic: string) {
    super('topic_not_found', `there is no topic ${JSON.stringify(topic)}`);
    this.topic = topic;
  }
}

/** null for an unknown topic. Rejects with unavailable for an unreadable record. */
export async function getTopic(registry: Registry, name: string): Promise<Topic | null> {
  const known = await findTopic(registry, name);
  if (known !== null && !('topic' in known)) throw topicUnreadable(name);
  return known;
}

/** Sets a topic offline, also one with an unreadable record. Returns its revision. Rejects
 *  as beginRemoval. */
export function turnOffline(registry: Registry, name: string, expected: number | null): Promise<number> {
  return untilWritten(name, async () => {
    const known = await findTopic(registry, name);
    if (known === null) throw topicNotFound(name);
    requireRevision(name, known, expected);
    const turned = await registry.turn(name, 'offline', known.revision);
    return turned.kind === 'updated' ? turned.revision : undefined;
  });
}

/** null for an unknown topic; TopicRemains for one with an unreadable record. */
export async function findTopic(
  registry: Pick<Registry, 'get' | 'remains'>,
  name: string,
): Promise<Topic | TopicRemains | null> {
  try {
    return await registry.get(name);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return registry.remains(name);
  }
}

export function isUnreadable(error: unknown): boolean {
  return error instanceof StoreError && error.failure.code === 'unreadable_topic';
}

export function topicUnreadable(name: string, cause?: unknown): DqError {
  return new DqError(
    'unavailable',
    `topic ${name}: cannot read its stored record; replace it with PUT or remove it`,
    { cause },
  );
}

/** Throws DqError topic_not_push for a topic without a delivery of these. */
export function requireDelivery(
  { topic, delivery }: Pick<Topic, 'topic' | 'delivery'>,
  ...deliveries: readonly Topic['delivery'][]
): void {
  if (deliveries.includes(delivery)) return;
  const what = deliveries.includes('mq') ? 'sends nothing' : 'makes no call';
  throw new DqError('topic_not_push', `topic ${topic}: its delivery is "${delivery}"; dq ${what} for it`);
}

/** Throws DqError topic_not_pull for a topic that dq delivers itself. */
export function requirePull({ topic, delivery, target }: Pick<Topic, 'topic' | 'delivery' | 'target'>): void {
  if (delivery === 'pull') return;
  const what = delivery === 'mq' ? `publishes its jobs to ${formatTarget(target)}` : 'calls its callback URL';
  throw new DqError('topic_not_pull', `topic ${topic}: dq ${what}; change delivery to pull first`);
}

export function topicNotFound(name: string): DqError {
  return new TopicNotFound(name);
}

function newDraft(name: string, input: TopicInput): TopicDraft {
  return {
    ...completeSettings(unmaskHeaders(input, null)),
    topic: name,
    state: input.state ?? 'active',
    secrets: [{ secret: input.secret ?? makeSecret(), untilAt: null }],
  };
}

/** Keeps a readable secret. */
function replacing(
  { secrets }: TopicRemains,
  name: string,
  input: TopicInput,
  nowMs: number | null,
): TopicDraft {
  const draft = newDraft(name, input);
  if (secrets === null || secrets.length === 0) return draft;
  keepsSecret({ topic: name, secrets }, input);
  return { ...draft, secrets: nowMs === null ? secrets : unexpired(secrets, nowMs) };
}

/** `nowMs`: storage clock, by which old secrets expire; null: keep them all. */
function draftOf(
  topic: Topic,
  settings: TopicSettings,
  state: Topic['state'],
  nowMs: number | null,
): TopicDraft {
  const secrets = nowMs === null ? topic.secrets : unexpired(topic.secrets, nowMs);
  return { ...settings, topic: topic.topic, state, secrets };
}

function settingsOf(topic: Topic): TopicSettings {
  const { topic: _, state, secrets, removal, revision, createdAt, updatedAt, ...settings } = topic;
  return settings;
}

/** Accepts the current secret. Another one would make receivers reject callbacks, so only a rotation may
 *  set it. */
function keepsSecret(topic: Pick<Topic, 'topic' | 'secrets'>, input: TopicInput): void {
  if (input.secret === undefined) return;
  const current = Buffer.from(topic.secrets[0]?.secret ?? '');
  const given = Buffer.from(input.secret);
  if (current.length === given.length && timingSafeEqual(current, given)) return;
  throw invalidField(
    'secret',
    `cannot be changed here; POST /v1/topics/${topic.topic}/secret rotates it, and the old one also signs for a while`,
  );
}

/** Throws DqError invalid for a body that names another topic than the path. */
export function checkNamed(path: string, input: TopicInput): void {
  if (input.topic !== undefined && input.topic !== path)
    throw invalidField('topic', `must be ${JSON.stringify(path)}, as in the path; or leave it out`);
}
