// What a case about a registry gets and uses.

import { topicDefaults } from '../../../src/core/topic/topic.ts';
import type { Registry, TopicDraft } from '../../../src/ports/registry.ts';
import { StoreError } from '../../../src/ports/store-error.ts';
import type { PageSize } from '../../../src/registry/sql/tables/topic-pages.ts';

export interface RegistryUnderTest {
  /** Another connection to the test's registry; the first call creates it. Closed with the test. */
  readonly open: (page?: Partial<PageSize>) => Promise<Registry>;
  /** Runs SQL from outside; returns the rows. */
  readonly run: (sql: string) => Promise<readonly Record<string, unknown>[]>;
}

/** One fact about a registry. */
export interface RegistryCase {
  readonly title: string;
  check(under: RegistryUnderTest): Promise<void>;
}

export const fact = (title: string, check: RegistryCase['check']): RegistryCase => ({ title, check });

export function draft(topic: string, more: Partial<TopicDraft> = {}): TopicDraft {
  return {
    ...topicDefaults,
    callbackUrl: 'http://127.0.0.1:9000/',
    topic,
    state: 'active',
    secrets: [{ secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw', untilAt: null }],
    ...more,
  };
}

export async function created(registry: Registry, topic: TopicDraft) {
  const outcome = await registry.create(topic);
  if (outcome.kind !== 'created') throw new Error(outcome.kind);
  return outcome.topic;
}

export const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no failure',
    (error: unknown) => (error instanceof StoreError ? error.failure : error),
  );
