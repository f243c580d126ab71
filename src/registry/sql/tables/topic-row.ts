// Converts topics to rows and back. Settings that a row lacks get their defaults; unknown members are
// ignored. Only this file encrypts secrets and headers, and it decrypts them only when a topic is opened:
// decryption takes four times as long as reading the rest, and most topics are not called for hours.

import { topicStates } from '../../../core/topic/fields.ts';
import type { TopicSecret } from '../../../core/topic/secrets.ts';
import {
  type KnownTopic,
  type PlainTopic,
  type Topic,
  type TopicSettings,
  type TopicState,
  topicDefaults,
} from '../../../core/topic/topic.ts';
import type { TopicDraft, TopicRecord } from '../../../ports/registry.ts';
import { StoreError } from '../../../ports/store-error.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import { sqlLimits } from '../limits.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

type TopicRow = RegistrySchema['topic'];

const defaults = Object.entries(topicDefaults) as [keyof TopicSettings, unknown][];
/** In front of a row: they differ per topic, and the rest seldom does. */
const ownNames = ['callbackUrl', 'title', 'owner'] as const;
const settingNames = [...new Set([...ownNames, ...defaults.map(([name]) => name)])];
/** A row holds all settings of the dq that wrote it, so a later default changes no topic. */
const { headers: _, ...withoutHeaders } = topicDefaults;
const plainDefaults = Object.entries(withoutHeaders) as [keyof TopicSettings, unknown][];
/** Topics are copies of this: objects that grow member by member take four times the memory, 200 MB per
 *  100,000. */
const template: KnownTopic = {
  ...withoutHeaders,
  topic: '',
  state: 'active',
  revision: 0,
  createdAt: 0,
  updatedAt: 0,
  open: () => {
    throw new Error('the topic was not read');
  },
};
/** Defaults that are lists or objects, shared by all topics: 100,000 copies of an empty list take 6 MB. */
const shared = new Map(defaults.map(([name, value]) => [name, JSON.stringify(value)]));

export function toColumns(
  draft: TopicDraft,
  cipher: SecretCipher,
): Pick<TopicRow, 'state' | 'settings' | 'secrets' | 'on_done' | 'on_dead'> {
  const settings: Record<string, unknown> = Object.fromEntries(
    settingNames.map((name) => [name, draft[name]]),
  );
  settings['headers'] = encryptHeaders(draft.headers, draft.topic, cipher);
  if (draft.removal !== undefined && draft.state === 'offline') settings['removal'] = draft.removal;
  return {
    state: draft.state,
    settings: JSON.stringify(settings),
    secrets: cipher.encrypt(JSON.stringify(draft.secrets), draft.topic),
    on_done: draft.onDone,
    on_dead: draft.onDead,
  };
}

export function toRecord(row: TopicRow): TopicRecord {
  const { name, state, settings, secrets, revision, created_at: createdAt, updated_at: updatedAt } = row;
  return { name, state, settings, secrets, revision, createdAt, updatedAt };
}

/** Throws StoreError for a damaged record: half a topic must not come into force. `cipher`: called when the
 *  topic is opened. */
export function readTopic(record: TopicRecord, cipher: () => SecretCipher): KnownTopic {
  const { texts, rest } = orUnreadable(record.name, () => readSettings(record.settings));
  const known: Mutable<KnownTopic> = { ...rest.known };
  Object.assign(known, texts);
  known.topic = record.name;
  known.state = stateOf(record);
  known.revision = record.revision;
  known.createdAt = record.createdAt;
  known.updatedAt = record.updatedAt;
  if (known.state === 'offline' && rest.removal !== undefined) known.removal = rest.removal;
  known.open = opener(known, rest.headers, record.secrets, cipher);
  return known;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A separate function: a closure inside readTopic would keep its other variables in memory. */
function opener(
  known: PlainTopic,
  headers: string | null,
  secrets: string,
  cipher: () => SecretCipher,
): () => Topic {
  return () => {
    const { open: _, ...plain } = known as KnownTopic;
    const { topic: name } = plain;
    const key = cipher();
    return {
      ...plain,
      headers: orUnreadable(name, () => decryptHeaders(headers, name, key)),
      secrets: secretsOf({ name, secrets }, key),
    };
  };
}

/** Throws as readTopic. */
export function toTopic(row: TopicRow, cipher: SecretCipher): Topic {
  return readTopic(toRecord(row), () => cipher).open();
}

/** Header values carry credentials. null: the topic has none. */
function encryptHeaders(headers: Topic['headers'], topic: string, cipher: SecretCipher): string | null {
  return Object.keys(headers).length === 0 ? null : cipher.encrypt(JSON.stringify(headers), ownerOf(topic));
}

/** Throws for headers encrypted with another key or for another topic. */
function decryptHeaders(stored: string | null, topic: string, cipher: SecretCipher): Topic['headers'] {
  return stored === null ? topicDefaults.headers : JSON.parse(cipher.decrypt(stored, ownerOf(topic)));
}

/** Owner of the encrypted headers. No topic name has a slash. */
function ownerOf(topic: string): string {
  return `${topic}/headers`;
}

/** Throws StoreError if decryption fails. */
export function secretsOf(
  { name, secrets }: Pick<TopicRow, 'name' | 'secrets'>,
  cipher: SecretCipher,
): readonly TopicSecret[] {
  return orUnreadable(name, () => JSON.parse(cipher.decrypt(secrets, name)) as TopicSecret[]);
}

/** The members of `ownNames` in a settings document. */
const ownTexts = /^\{"callbackUrl":"(?:[^"\\]|\\.)*",(?:"(?:title|owner)":"(?:[^"\\]|\\.)*",)*(?=")/;

/** The members after them. */
interface RestOfSettings {
  /** these settings, with the template's name, state, revision and times */
  readonly known: KnownTopic;
  /** encrypted */
  readonly headers: string | null;
  readonly removal: KnownTopic['removal'];
}

/** By their text. Most topics share the rest: parsing it for each of 100,000 topics would double the reading
 *  time. */
const keptRests = new Map<string, RestOfSettings>();

function readSettings(settings: string): {
  readonly texts: Partial<Pick<TopicSettings, (typeof ownNames)[number]>>;
  readonly rest: RestOfSettings;
} {
  const own = ownTexts.exec(settings)?.[0];
  // Not written by toColumns.
  if (own === undefined) return { texts: {}, rest: readRest(settings) };
  // Parsed, not sliced: a slice would keep the whole document in memory.
  const texts = JSON.parse(`${own.slice(0, -1)}}`) as Pick<TopicSettings, 'callbackUrl'>;
  const text = `{${settings.slice(own.length)}`;
  const kept = keptRests.get(text);
  if (kept !== undefined) return { texts, rest: kept };
  const rest = readRest(text, texts.callbackUrl);
  // Encrypted headers differ in every topic.
  if (text.length <= sqlLimits.settingsKeptChars && rest.headers === null) {
    if (keptRests.size >= sqlLimits.settingsKept) keptRests.clear();
    keptRests.set(text, rest);
  }
  return { texts, rest };
}

/** `url`: the callbackUrl before the rest */
function readRest(text: string, url?: string): RestOfSettings {
  const stored = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const { callbackUrl = url, headers = null, removal } = stored;
  if (typeof callbackUrl !== 'string') throw new Error('settings have no callbackUrl');
  if (headers !== null && typeof headers !== 'string')
    throw new Error('the setting headers has the wrong type');
  const known: Record<string, unknown> = { ...template, callbackUrl };
  for (const [setting, byDefault] of plainDefaults) {
    const value = stored[setting];
    if (value === undefined || value === byDefault) continue;
    if (kindOf(value) !== kindOf(byDefault)) throw new Error(`the setting ${setting} has the wrong type`);
    if (!isDefault(setting, value)) known[setting] = value;
  }
  return {
    known: known as unknown as KnownTopic,
    headers,
    removal: kindOf(removal) === 'object' ? (removal as KnownTopic['removal']) : undefined,
  };
}

function stateOf({ name, state }: Pick<TopicRecord, 'name' | 'state'>): TopicState {
  return orUnreadable(name, () => {
    const known = topicStates.find((one) => one === state);
    if (known === undefined) throw new Error(`unknown state ${JSON.stringify(state)}`);
    return known;
  });
}

function isDefault(setting: keyof TopicSettings, value: unknown): boolean {
  return typeof value === 'object' && JSON.stringify(value) === shared.get(setting);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'list' : typeof value;
}

function orUnreadable<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw unreadable(name, error);
  }
}

function unreadable(name: string, reason: unknown): StoreError {
  const cause = new Error(`cannot read the stored topic ${name}`, { cause: reason });
  return new StoreError({ kind: 'not_stored', code: 'unreadable_topic' }, { cause });
}
