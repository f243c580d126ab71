// Reads all pages of a registry's answers.

import type { Topic } from '../../src/core/topic/topic.ts';
import type { ChangePlace, Registry, TopicStats } from '../../src/ports/registry.ts';

export interface AllChanges {
  readonly revision: number;
  readonly topics: readonly Topic[];
  readonly deleted: readonly string[];
}

/** Changes after a revision, topics decrypted. Rejects for unreadable topics. */
export async function changesOf(registry: Registry, since: number): Promise<AllChanges> {
  const topics: Topic[] = [];
  const deleted: string[] = [];
  for (let place: ChangePlace = { revision: since, name: null }; ; ) {
    const page = await registry.changes(place);
    topics.push(...page.topics.map((record) => registry.read(record).open()));
    deleted.push(...page.deleted.map(({ name }) => name));
    if (page.next === null) return { revision: page.revision, topics, deleted };
    place = page.next;
  }
}

/** All topics with statistics. */
export async function allStats(registry: Registry, day: number): Promise<readonly TopicStats[]> {
  const all: TopicStats[] = [];
  for (let after: string | null = ''; after !== null; ) {
    const page = await registry.statsPage(after, day);
    all.push(...page.stats);
    after = page.next;
  }
  return all;
}
