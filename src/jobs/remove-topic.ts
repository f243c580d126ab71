// The use case of removing a topic. Order is everything: offline first, then the time every process needs to see it, then the
// look at what is stored. Counting first would let a push slip in behind the count, and its job would be an orphan.

import { setTimeout as sleep } from 'node:timers/promises';
import { DqError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Registry } from '../registry/registry.ts';
import type { StoreAdmin } from '../store/job-store.ts';
import { patchTopic } from './change-topic.ts';

/** Answers how many jobs went with it. Rejects with topic_has_jobs, and leaves it offline, when jobs are stored and `purge`
 *  is false. Interrupted anywhere, the topic is offline and the call can be repeated. */
export async function removeTopic(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  purge: boolean,
): Promise<number> {
  const offline = await patchTopic(registry, name, { settings: {}, state: 'offline' });
  await sleep(limits.topicChangeMs);
  const purged = purge ? await purgeAll(admin, name) : 0;
  const stored = await jobsOf(admin, name);
  if (stored > 0)
    throw new DqError(
      'topic_has_jobs',
      `topic ${name} still has ${stored} jobs; it is offline now. Remove it with ?jobs=purge, or set it active again`,
    );
  const removed = await registry.remove(name, offline.revision);
  if (removed === 'changed')
    throw new DqError('not_stored', `topic ${name} was changed while it was being removed; it stays`);
  return purged;
}

/** In steps, between which the store serves everybody else. */
async function purgeAll(admin: StoreAdmin, name: string): Promise<number> {
  let total = 0;
  for (;;) {
    const { purged, more } = await admin.purgeTopic(name, limits.purgeStepMax);
    total += purged;
    if (!more) return total;
  }
}

async function jobsOf(admin: StoreAdmin, name: string): Promise<number> {
  const { topics } = await admin.counts();
  const counts = topics[name];
  // What every object inherits is no count: a topic may be called `constructor`.
  if (counts === undefined || !Object.hasOwn(topics, name)) return 0;
  return counts.delayed + counts.ready + counts.reserved + counts.dead;
}
