// A topic as a row, and back. Stored settings are read over the defaults: a row written before a setting existed has it at
// its default. Members that this version does not know are left out. Secrets and headers are encrypted here and nowhere else, and
// decrypted only when a topic is opened: that costs four times what reading the rest does, and most topics are not called for hours.

import type { TopicSecret } from '../../../core/topic/secrets.ts';
import type { KnownTopic, PlainTopic, Topic, TopicSettings, TopicState } from '../../../core/topic/topic.ts';
import { topicDefaults } from '../../../core/topic/topic.ts';
import { StoreError } from '../../../ports/job-store.ts';
import type { TopicDraft, TopicRecord } from '../../../ports/registry.ts';
import type { Sealer } from '../keys/encryption.ts';
import { fromStoredHeaders, toStoredHeaders } from '../keys/stored-headers.ts';
import { sqlLimits } from '../limits.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

type TopicRow = RegistrySchema['topic'];
type Settings = Omit<TopicSettings, 'callbackUrl'>;

const defaults = Object.entries(topicDefaults) as [keyof Settings, unknown][];
const settingNames: readonly (keyof TopicSettings)[] = ['callbackUrl', ...defaults.map(([name]) => name)];
/** Every row has all settings of the dq that wrote it, so a default that changes later changes no topic. Of members that a row
 *  lacks, emptyReply had this default then. */
const defaultsOfRows: typeof topicDefaults = { ...topicDefaults, emptyReply: 'retry' };
const { headers: _, ...withoutHeaders } = defaultsOfRows;
const plainDefaults = Object.entries(withoutHeaders) as [keyof Settings, unknown][];
/** Each topic begins as a copy of this: an object that grows member by member takes four times the memory, and 100,000 of them 200 MB. */
const template: KnownTopic = {
  ...withoutHeaders,
  callbackUrl: '',
  topic: '',
  state: 'active',
  revision: 0,
  createdAt: 0,
  updatedAt: 0,
  open: () => {
    throw new Error('a topic that was not read');
  },
};
/** The defaults that are lists or objects. Topics share them: 100,000 copies of an empty list are 6 MB. */
const shared = new Map(defaults.map(([name, value]) => [name, JSON.stringify(value)]));
const states: readonly string[] = ['active', 'paused', 'offline'] satisfies readonly TopicState[];

export function toColumns(
  draft: TopicDraft,
  sealer: Sealer,
): Pick<TopicRow, 'state' | 'settings' | 'secrets'> {
  const settings: Record<string, unknown> = Object.fromEntries(
    settingNames.map((name) => [name, draft[name]]),
  );
  settings['headers'] = toStoredHeaders(draft.headers, draft.topic, sealer);
  // A dq from before drops it with its next write of the row.
  if (draft.removal !== undefined && draft.state === 'offline') settings['removal'] = draft.removal;
  return {
    state: draft.state,
    settings: JSON.stringify(settings),
    secrets: sealer.seal(JSON.stringify(draft.secrets), draft.topic),
  };
}

export function toRecord(row: TopicRow): TopicRecord {
  const { name, state, settings, secrets, revision, created_at: createdAt, updated_at: updatedAt } = row;
  return { name, state, settings, secrets, revision, createdAt, updatedAt };
}

/** Throws StoreError for a record that somebody damaged or a newer version wrote: half a topic must not come into force.
 *  `sealer`: asked for when the topic is opened. */
export function readTopic(record: TopicRecord, sealer: () => Sealer): KnownTopic {
  const { texts, rest } = orUnreadable(record.name, () => readSettings(record.settings));
  const known: Mutable<KnownTopic> = { ...rest.known };
  Object.assign(known, texts);
  known.topic = record.name;
  known.state = stateOf(record);
  known.revision = record.revision;
  known.createdAt = record.createdAt;
  known.updatedAt = record.updatedAt;
  if (known.state === 'offline' && rest.removal !== undefined) known.removal = rest.removal;
  known.open = opener(known, rest.headers, record.secrets, sealer);
  return known;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** By itself: what else its maker has in scope would be kept with it. */
function opener(
  known: PlainTopic,
  headers: Topic['headers'],
  secrets: string,
  sealer: () => Sealer,
): () => Topic {
  return () => {
    const { open: _, ...plain } = known as KnownTopic;
    const { topic: name } = plain;
    const key = sealer();
    return {
      ...plain,
      headers: orUnreadable(name, () => fromStoredHeaders(headers, name, key)),
      secrets: secretsOf({ name, secrets }, key),
    };
  };
}

/** Throws as readTopic does. */
export function toTopic(row: TopicRow, sealer: Sealer): Topic {
  return readTopic(toRecord(row), () => sealer).open();
}

/** Throws StoreError where they cannot be decrypted. */
export function secretsOf(
  { name, secrets }: Pick<TopicRow, 'name' | 'secrets'>,
  sealer: Sealer,
): readonly TopicSecret[] {
  return orUnreadable(name, () => JSON.parse(sealer.unseal(secrets, name)) as TopicSecret[]);
}

/** The members at the beginning of a settings document: often each topic has its own. */
const ownTexts = /^\{"callbackUrl":"(?:[^"\\]|\\.)*",(?:"(?:title|owner)":"(?:[^"\\]|\\.)*",)*(?=")/;

/** What is stored behind them. */
interface RestOfSettings {
  /** has these settings, and the template's name, state, revision and times */
  readonly known: KnownTopic;
  readonly headers: Topic['headers'];
  readonly removal: KnownTopic['removal'];
}

/** By their text. Most topics have the rest in common: parsing it for each of 100,000 topics would double the time of reading them. */
const keptRests = new Map<string, RestOfSettings>();

function readSettings(settings: string): {
  readonly texts: Partial<Pick<TopicSettings, 'callbackUrl' | 'title' | 'owner'>>;
  readonly rest: RestOfSettings;
} {
  const own = ownTexts.exec(settings)?.[0];
  // Written by something other than toColumns.
  if (own === undefined) return { texts: {}, rest: readRest(settings) };
  // Parsed, not sliced: a slice would keep the whole document in memory.
  const texts = JSON.parse(`${own.slice(0, -1)}}`) as Pick<TopicSettings, 'callbackUrl'>;
  const text = `{${settings.slice(own.length)}`;
  const kept = keptRests.get(text);
  if (kept !== undefined) return { texts, rest: kept };
  const rest = readRest(text, texts.callbackUrl);
  // Encrypted headers differ in every topic.
  if (text.length <= sqlLimits.settingsKeptChars && Object.keys(rest.headers).length === 0) {
    if (keptRests.size >= sqlLimits.settingsKept) keptRests.clear();
    keptRests.set(text, rest);
  }
  return { texts, rest };
}

/** `url`: stored before the rest */
function readRest(text: string, url?: string): RestOfSettings {
  const stored = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const { callbackUrl = url, headers = topicDefaults.headers, removal } = stored;
  if (typeof callbackUrl !== 'string') throw new Error('settings have no callbackUrl');
  if (kindOf(headers) !== 'object') throw new Error('the setting headers has a wrong type');
  const known: Record<string, unknown> = { ...template, callbackUrl };
  for (const [setting, byDefault] of plainDefaults) {
    const value = stored[setting];
    if (value === undefined || value === byDefault) continue;
    if (kindOf(value) !== kindOf(byDefault)) throw new Error(`the setting ${setting} has a wrong type`);
    if (!isDefault(setting, value)) known[setting] = value;
  }
  return {
    known: known as unknown as KnownTopic,
    headers: headers as Topic['headers'],
    removal: kindOf(removal) === 'object' ? (removal as KnownTopic['removal']) : undefined,
  };
}

function stateOf({ name, state }: Pick<TopicRecord, 'name' | 'state'>): TopicState {
  return orUnreadable(name, () => {
    if (!states.includes(state)) throw new Error(`unknown state ${JSON.stringify(state)}`);
    return state as TopicState;
  });
}

function isDefault(setting: keyof Settings, value: unknown): boolean {
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
