// Counting jobs and clearing a topic. Counts come from memory, so asking often costs nothing however many jobs there are.

import { limits } from '../../core/limits.ts';
import type { Statement } from '../../sql/database.ts';
import type { StateCounts, StoreAdmin } from '../job-store.ts';
import type { Bench } from './bench.ts';
import { jobColumns, jobRowOf } from './job-rows.ts';
import { dead, delayed, ready, reserved, type StateCode } from './schema.ts';

const prios = [0, 1, 2] as const;

export class Census {
  readonly #bench: Bench;
  readonly #oldestReady: Statement;
  readonly #ofTopic: Statement;

  constructor(bench: Bench) {
    this.#bench = bench;
    this.#oldestReady = bench.db.prepare(
      'SELECT due FROM job WHERE state = 1 AND prio = ? AND topic = ? ORDER BY due LIMIT 1',
      { returnArrays: true },
    );
    this.#ofTopic = bench.db.prepare(
      `SELECT ${jobColumns} FROM job INDEXED BY job_topic WHERE topic = ? AND ended_at IS NULL LIMIT ?`,
      { returnArrays: true },
    );
  }

  counts(held: readonly string[] = []): Awaited<ReturnType<StoreAdmin['counts']>> {
    const without = new Set(held);
    const { ledger, now } = this.#bench;
    const topics: [string, StateCounts][] = [];
    let oldest = Infinity;
    for (const no of ledger.topicNumbers()) {
      const of = (state: StateCode) =>
        prios.reduce<number>((sum, prio) => sum + ledger.countOf(no, prio, state), 0);
      const counts = { delayed: of(delayed), ready: of(ready), reserved: of(reserved), dead: of(dead) };
      if (counts.delayed + counts.ready + counts.reserved + counts.dead === 0) continue;
      const name = ledger.topicName(no);
      topics.push([name, counts]);
      if (counts.ready > 0 && !without.has(name)) oldest = Math.min(oldest, this.#oldestReadyDue(no));
    }
    // From entries, not by assignment: a topic may be called `constructor`.
    return {
      topics: Object.fromEntries(topics),
      oldestReadyMs: oldest === Infinity ? null : Math.max(0, now - oldest),
    };
  }

  purgeTopic(topic: string, max: number): { readonly purged: number; readonly more: boolean } {
    const { ledger, rows, now } = this.#bench;
    const no = ledger.topicNumber(topic);
    if (no === undefined) return { purged: 0, more: false };
    const bound = Math.min(max, limits.bulkMax);
    const found = this.#ofTopic.all(no, bound + 1) as unknown[][];
    for (const columns of found.slice(0, bound)) rows.end(jobRowOf(columns), { state: 'purged', at: now });
    return { purged: Math.min(found.length, bound), more: found.length > bound };
  }

  #oldestReadyDue(no: number): number {
    const dues = prios
      .filter((prio) => this.#bench.ledger.countOf(no, prio, ready) > 0)
      .map((prio) => (this.#oldestReady.get(prio, no) as [number])[0]);
    return Math.min(...dues);
  }
}
