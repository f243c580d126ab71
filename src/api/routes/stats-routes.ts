// /v1/stats: counters and stored jobs per topic. The body of GET /v1/stats is streamed, one member per topic.
// With 100,000 topics it has 25 MB: built as one text it would stop this process for a second. Topics are
// read by name in slices; other requests run between the slices.

import { Readable } from 'node:stream';
import { statsSchema, topicStatsSchema } from '../../contract/api/stats.ts';
import { createCalendar } from '../../core/calendar.ts';
import { type JobState, jobStates } from '../../core/job.ts';
import { statNames } from '../../core/series.ts';
import type { StateCounts, StoreAdmin } from '../../ports/job-store.ts';
import type { Registry, StatPage, TopicStats } from '../../ports/registry.ts';
import type { TopicBook } from '../../registry/topic-book.ts';
import { turn } from '../../runtime/time.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { mayTouch, needs } from '../http/route-access.ts';
import { nameToFind } from './topics/topic-routes.ts';

export function statsRoutes(api: Api, { role }: ApiContext): void {
  const { registry, store, topics, config, clock } = role;
  const calendar = createCalendar(config.timezone);

  api.get('/v1/stats', { schema: statsSchema, config: needs('read', 'handler') }, async (request, answer) => {
    await topics.refresh();
    const counts = await store.admin.counts();
    const day = calendar.dayOf(clock.now());
    const pieces = await statsText({
      topics,
      counts,
      statsPage: (after, of) => registry.statsPage(after, of),
      day,
      maySee: (topic) => mayTouch(request, topic),
    });
    return answer.type('application/json; charset=utf-8').send(Readable.from(pieces) as never);
  });

  api.get(
    '/v1/topics/:topic/stats',
    { schema: topicStatsSchema, config: needs('read', 'path') },
    async (request) => {
      const topic = nameToFind(request.params.topic);
      if ((await registry.remains(topic)) === null) throw topicNotFound(topic);
      const stats = await registry.stats(topic, calendar.dayOf(clock.now()));
      const counts = await store.admin.counts();
      return {
        topic,
        total: stats?.total ?? noCounts,
        today: stats?.today ?? noCounts,
        // A Map, because an object has inherited members: a topic can be called `constructor`.
        states: new Map(Object.entries(counts.topics)).get(topic) ?? noJobs,
        missing: counts.missing,
      };
    },
  );
}

interface StatsTable {
  readonly topics: Pick<TopicBook, 'get' | 'namesAfter'>;
  readonly counts: Awaited<ReturnType<StoreAdmin['counts']>>;
  readonly statsPage: Registry['statsPage'];
  /** today, as createCalendar numbers days */
  readonly day: number;
  readonly maySee: (topic: string) => boolean;
}

export const noJobs: StateCounts = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
export const noCounts = Object.fromEntries(statNames.map((name) => [name, 0])) as TopicStats['total'];

/** One topic of the table. */
export interface StatLine {
  readonly topic: string;
  readonly registered: boolean;
  readonly total: TopicStats['total'];
  readonly today: TopicStats['today'];
  readonly states: StateCounts;
}

/** The JSON in pieces. Rejects before the first piece when the statistics are unreadable. */
async function statsText(table: StatsTable): Promise<AsyncIterable<string>> {
  return pieces(table, await statLines(table));
}

/** The lines by name, in slices. Rejects when the statistics are unreadable. */
export async function statLines(table: StatsTable): Promise<AsyncIterable<readonly StatLine[]>> {
  return slices(table, await table.statsPage('', table.day));
}

async function* slices(
  { topics, counts, statsPage, day, maySee }: StatsTable,
  first: StatPage,
): AsyncGenerator<readonly StatLine[]> {
  const stored = new Map(Object.entries(counts.topics));
  const statistics = new StatReader(first, (after) => statsPage(after, day));
  for await (const names of allNames(topics, stored)) {
    const lines: StatLine[] = [];
    for (const topic of names) {
      const counters = await statistics.of(topic);
      if (!maySee(topic)) continue;
      const { total, today } = counters ?? { total: noCounts, today: noCounts };
      const registered = topics.get(topic) !== undefined;
      lines.push({ topic, registered, total, today, states: stored.get(topic) ?? noJobs });
    }
    yield lines;
  }
}

async function* pieces(
  { counts }: StatsTable,
  lines: AsyncIterable<readonly StatLine[]>,
): AsyncGenerator<string> {
  const sums: Record<JobState, number> = { ...noJobs };
  let orphaned = 0;
  let separator = '';
  yield '{"topics":[';
  for await (const slice of lines) {
    let text = '';
    for (const line of slice) {
      for (const state of jobStates) {
        sums[state] += line.states[state];
        if (!line.registered) orphaned += line.states[state];
      }
      text += separator + JSON.stringify(line);
      separator = ',';
    }
    yield text;
  }
  const { oldestOverdueMs, missing } = counts;
  const end = JSON.stringify({ states: sums, oldestOverdueMs, orphaned, missing });
  yield `],${end.slice(1)}`;
}

/** Names of registered topics and of stored jobs, each once, sorted. */
async function* allNames(
  topics: StatsTable['topics'],
  stored: ReadonlyMap<string, StateCounts>,
): AsyncGenerator<readonly string[]> {
  const others = [...stored.keys()].filter((name) => topics.get(name) === undefined).sort();
  let at = 0;
  for (let after = ''; ; await turn()) {
    const names = topics.namesAfter(after, useCaseLimits.topicsPerTurn);
    const last = names.at(-1);
    const from = at;
    while (at < others.length && (last === undefined || (others[at] as string) < last)) at += 1;
    const between = others.slice(from, at);
    yield between.length === 0 ? names : [...new Set([...names, ...between])].sort();
    if (last === undefined) return;
    after = last;
  }
}

/** Reads the statistics of topics in the order of their names; reads each page once. */
class StatReader {
  readonly #read: (after: string) => Promise<StatPage>;
  #page: ReadonlyMap<string, TopicStats>;
  #next: string | null;

  constructor(first: StatPage, read: (after: string) => Promise<StatPage>) {
    this.#page = byTopic(first);
    this.#next = first.next;
    this.#read = read;
  }

  async of(topic: string): Promise<TopicStats | undefined> {
    while (this.#next !== null && topic > this.#next) {
      const page = await this.#read(this.#next);
      this.#page = byTopic(page);
      this.#next = page.next;
    }
    return this.#page.get(topic);
  }
}

function byTopic({ stats }: StatPage): ReadonlyMap<string, TopicStats> {
  return new Map(stats.map((entry) => [entry.topic, entry]));
}
