// Serves the registry through the store's socket: one JSON call {method, args} per request. Owns the list of
// methods, which of them change something, and the answers for workers of an older version.

import { asKnown, type KnownTopic, type Topic } from '../../../core/topic/topic.ts';
import type {
  ChangePlace,
  Registry,
  TopicChanges,
  TopicRecord,
  TopicStats,
} from '../../../ports/registry.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import type { RegistryPages } from '../owner/registry-pages.ts';

/** `again`: a repeat is harmless, so a client may send the call again after a lost connection. */
export const registryMethods = {
  id: { changes: false, again: true },
  changesAfter: { changes: false, again: true },
  get: { changes: false, again: true },
  remains: { changes: false, again: true },
  create: { changes: true, again: false },
  update: { changes: true, again: false },
  turn: { changes: true, again: false },
  remove: { changes: true, again: false },
  addStats: { changes: false, again: false },
  statsOf: { changes: false, again: true },
  statsPage: { changes: false, again: true },
  putSeries: { changes: false, again: true },
  series: { changes: false, again: true },
  tokens: { changes: false, again: true },
  createToken: { changes: true, again: false },
  removeToken: { changes: true, again: false },
  useTokens: { changes: false, again: true },
  sessions: { changes: false, again: true },
  createSession: { changes: true, again: false },
  useSession: { changes: true, again: true },
  removeSessions: { changes: true, again: true },
  createSignInLink: { changes: false, again: false },
  takeSignInLink: { changes: false, again: false },
  createOperation: { changes: false, again: false },
  operations: { changes: false, again: true },
  operation: { changes: false, again: true },
  claimOperation: { changes: false, again: false },
  checkpointOperation: { changes: false, again: true },
  stopOperation: { changes: false, again: true },
  schedules: { changes: false, again: true },
  schedule: { changes: false, again: true },
  createSchedule: { changes: false, again: false },
  updateSchedule: { changes: false, again: false },
  removeSchedule: { changes: false, again: false },
  claimSchedules: { changes: false, again: false },
  endTicks: { changes: false, again: true },
  addAudit: { changes: false, again: true },
  audit: { changes: false, again: true },
  trimAudit: { changes: false, again: true },
  shards: { changes: false, again: true },
  writeShards: { changes: true, again: false },
  // For workers of an older version during a reload: everything in one answer.
  changes: { changes: false, again: true },
  stats: { changes: false, again: true },
} as const satisfies Readonly<Record<string, { changes: boolean; again: boolean }>>;
export type RegistryMethod = keyof typeof registryMethods;

/** Methods with another name on the socket than in the port: an older version used the name for another
 *  answer. */
const called: Readonly<
  Partial<Record<RegistryMethod, (registry: Registry, ...args: never[]) => Promise<unknown>>>
> = {
  statsOf: (registry, topic: string, day: number) => registry.stats(topic, day),
  changes: everyChange,
  stats: everyStat,
};

export type Served =
  /** `text`: JSON, already encoded */
  | ({ readonly changed: boolean } & ({ readonly result: unknown } | { readonly text: Buffer }))
  /** `cause`: an unexpected error */
  | { readonly failure: StoreFailure; readonly cause?: unknown };

const refusals: readonly unknown[] = ['exists', 'full', 'changed', 'absent'];

/** Never rejects. */
export async function serveRegistry(
  registry: Registry | undefined,
  call: unknown,
  pages: RegistryPages,
): Promise<Served> {
  const { method, args } = Object(call) as { readonly method?: unknown; readonly args?: unknown };
  if (registry === undefined || typeof method !== 'string' || !Object.hasOwn(registryMethods, method))
    return { failure: { kind: 'not_stored', code: 'no_registry' } };
  if (!Array.isArray(args)) return { failure: { kind: 'not_stored', code: 'bad_call' } };
  const name = method as RegistryMethod;
  try {
    if (name === 'changesAfter')
      return { text: await pages.page(registry, args[0] as ChangePlace), changed: false };
    const result = (await run(registry, name, args)) ?? null;
    const kind = typeof result === 'object' && result !== null && 'kind' in result ? result.kind : result;
    return { result, changed: registryMethods[name].changes && !refusals.includes(kind) };
  } catch (error) {
    if (error instanceof StoreError) return { failure: error.failure };
    return { failure: { kind: 'unknown', code: 'registry_failed' }, cause: error };
  }
}

function run(registry: Registry, name: RegistryMethod, args: readonly unknown[]): Promise<unknown> {
  const other = called[name];
  if (other !== undefined) return other(registry, ...(args as never[]));
  const method = registry[name as keyof Registry] as (...args: readonly unknown[]) => Promise<unknown>;
  return method.apply(registry, args as unknown[]);
}

// Older versions, during a reload

interface OlderChanges {
  readonly revision: number;
  readonly topics: readonly Topic[];
  readonly deleted: readonly string[];
}

/** All pages in one answer, without unreadable topics. */
async function everyChange(registry: Registry, since: number): Promise<OlderChanges> {
  const topics = new Map<string, Topic>();
  const deleted = new Set<string>();
  let place: ChangePlace = { revision: since, name: null };
  for (;;) {
    const page = await registry.changes(place);
    for (const record of page.topics) {
      try {
        topics.set(record.name, registry.read(record).open());
        deleted.delete(record.name);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
      }
    }
    for (const { name } of page.deleted) {
      topics.delete(name);
      deleted.add(name);
    }
    if (page.next === null)
      return { revision: page.revision, topics: [...topics.values()], deleted: [...deleted] };
    place = page.next;
  }
}

async function everyStat(registry: Registry, topic: string | null, day: number): Promise<TopicStats[]> {
  if (topic !== null) {
    const stats = await registry.stats(topic, day);
    return stats === null ? [] : [stats];
  }
  const all: TopicStats[] = [];
  for (let after: string | null = ''; after !== null; ) {
    const page = await registry.statsPage(after, day);
    for (const stats of page.stats) all.push(stats);
    after = page.next;
  }
  return all;
}

/** Converts the answer of an older dq-store, which decrypts the topics itself, into one page. */
export class OlderTopics {
  readonly #topics = new WeakMap<TopicRecord, KnownTopic>();

  pageOf({ revision, topics, deleted }: OlderChanges): TopicChanges {
    const records = topics.map((topic) => {
      const { state, createdAt, updatedAt } = topic;
      const texts = { name: topic.topic, state, settings: '', secrets: '' };
      const record: TopicRecord = { ...texts, revision: topic.revision, createdAt, updatedAt };
      this.#topics.set(record, asKnown(topic));
      return record;
    });
    return {
      revision,
      topics: records,
      deleted: deleted.map((name) => ({ name, revision })),
      next: null,
    };
  }

  get(record: TopicRecord): KnownTopic | undefined {
    return this.#topics.get(record);
  }
}

/** An older dq-store does not know the method. */
export function isOlderStore(error: unknown): boolean {
  return error instanceof StoreError && error.failure.code === 'no_registry';
}
