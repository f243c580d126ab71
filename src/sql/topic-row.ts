// A topic as a row, and back. Stored settings are read over the defaults: a row written before a setting existed has it at
// its default. Members that this version does not know are left out. Secrets and headers are encrypted here.

import type { Topic, TopicSecret, TopicSettings, TopicState } from '../core/topic.ts';
import { topicDefaults } from '../core/topic.ts';
import type { TopicDraft } from '../registry/registry.ts';
import { StoreError } from '../store/job-store.ts';
import type { RegistrySchema } from './registry-schema.ts';
import type { Sealer } from './sealer.ts';
import { fromStoredHeaders, toStoredHeaders } from './stored-headers.ts';

type TopicRow = RegistrySchema['topic'];

const settingNames: readonly (keyof TopicSettings)[] = [
  'callbackUrl',
  ...(Object.keys(topicDefaults) as (keyof typeof topicDefaults)[]),
];

/** Every row has all settings of the dq that wrote it, so a default that changes later changes no topic. Of members that a row
 *  lacks, emptyReply had this default then. */
const defaultsOfRows: typeof topicDefaults = { ...topicDefaults, emptyReply: 'retry' };

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

/** Throws StoreError for a row that somebody broke by hand: half a topic must not come into force. */
export function toTopic(row: TopicRow, sealer: Sealer): Topic {
  try {
    const stored = JSON.parse(row.settings) as Partial<TopicSettings> & Pick<Topic, 'removal'>;
    if (typeof stored.callbackUrl !== 'string') throw new Error('settings have no callbackUrl');
    const known = settingNames.filter((name) => stored[name] !== undefined);
    return {
      ...defaultsOfRows,
      ...(Object.fromEntries(known.map((name) => [name, stored[name]])) as unknown as TopicSettings),
      headers: fromStoredHeaders(stored.headers ?? {}, row.name, sealer),
      topic: row.name,
      state: row.state as TopicState,
      secrets: JSON.parse(sealer.unseal(row.secrets, row.name)) as TopicSecret[],
      ...(stored.removal === undefined || row.state !== 'offline' ? {} : { removal: stored.removal }),
      revision: row.revision,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    };
  } catch (error) {
    const cause = new Error(`the row of topic ${row.name} is broken`, { cause: error });
    throw new StoreError({ kind: 'not_stored', code: 'damaged' }, { cause });
  }
}
