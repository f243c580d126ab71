// The use case of removing a topic. Order is everything: offline first, then the time every process needs to see it, then the
// look at what is stored. Counting first would let a push slip in behind the count, and its job would be an orphan.

import { setTimeout as sleep } from 'node:timers/promises';
import { DqError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Registry } from '../registry/registry.ts';
import { type StoreAdmin, StoreError } from '../store/job-store.ts';
import { patchTopic } from './change-topic.ts';

/** Answers how many jobs went with it. Rejects with topic_has_jobs, and leaves it offline, when jobs are stored and `purge`
 *  is false, or when they are more than can be purged in `purgeMs`: a caller would give up, and not know how far it came.
 *  Interrupted anywhere, the topic is offline and the call can be repeated. */
export async function removeTopic(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  purge: boolean,
  purgeMs: number = limits.purgeCallMs,
): Promise<number> {
  const offline = await patchTopic(registry, name, { settings: {}, state: 'offline' });
  await sleep(limits.topicChangeMs);
  const purged = purge ? await purgeAll(admin, name, purgeMs) : 0;
  const stored = await jobsOf(admin, name);
  if (stored > 0)
    throw new DqError(
      'topic_has_jobs',
      purge
        ? `${purged} jobs of topic ${name} are removed, ${stored} are left; it is offline now. Call again for the rest`
        : `topic ${name} still has ${stored} jobs; it is offline now. Remove it with ?jobs=purge, or set it active again`,
      { extra: { purged, jobs: stored } },
    );
  const removed = await registry.remove(name, offline.revision);
  if (removed === 'changed')
    throw new DqError('not_stored', `topic ${name} was changed while it was being removed; it stays`);
  return purged;
}

/** In steps, between which the store serves everybody else. */
async function purgeAll(admin: StoreAdmin, name: string, purgeMs: number): Promise<number> {
  const end = performance.now() + purgeMs;
  let total = 0;
  for (;;) {
    const { purged, more } = await admin.purgeTopic(name, limits.purgeStepMax);
    total += purged;
    if (!more || performance.now() >= end) return total;
  }
}

async function jobsOf(admin: StoreAdmin, name: string): Promise<number> {
  const { topics, missing = [] } = await admin.counts();
  // What does not answer may hold some.
  if (missing.length > 0) throw new StoreError({ kind: 'not_stored', code: 'shard_away' });
  const counts = topics[name];
  // What every object inherits is no count: a topic may be called `constructor`.
  if (counts === undefined || !Object.hasOwn(topics, name)) return 0;
  return counts.delayed + counts.ready + counts.reserved + counts.dead;
}
