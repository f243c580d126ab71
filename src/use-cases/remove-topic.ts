// The use case of removing a topic. A topic with jobs is not touched. Of one without, offline comes first, then the time that every
// process needs to see it, then a second look at what is stored: counting alone would let a push slip in behind the count, and its
// job would be an orphan. Jobs that have come meanwhile end the removal, and the topic gets its former state back.

import { setTimeout as sleep } from 'node:timers/promises';
import { DqError } from '../core/errors.ts';
import { type StoreAdmin, StoreError } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import {
  beginRemoval,
  endRemoval,
  findTopic,
  patchTopic,
  topicNotFound,
  turnOffline,
} from './change-topic.ts';
import { useCaseLimits } from './limits.ts';

/** Answers how many jobs went with it. Rejects with topic_has_jobs, and leaves the topic as it was, when jobs are stored and `purge` is
 *  false. With `purge` it rejects so, and leaves the topic offline, when they are more than can be purged in `purgeMs`: a caller would
 *  give up, and not know how far it came. Interrupted anywhere, the call can be repeated; without `purge` a process that dies in
 *  between leaves a mark by which dq-upkeep gives the topic its state back (removal-watch.ts). */
export async function removeTopic(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  purge: boolean,
  purgeMs: number = useCaseLimits.purgeCallMs,
): Promise<number> {
  const known = await findTopic(registry, name);
  if (known === null) throw topicNotFound(name);
  // Its former state is unreadable.
  const turn = 'topic' in known ? setOffline : turnOffline;
  if (purge) return removeWithJobs(registry, admin, name, purgeMs, turn);
  if ('topic' in known) return removeEmpty(registry, admin, name);
  await requireEmpty(admin, name);
  const revision = await turnOffline(registry, name);
  await sleep(useCaseLimits.topicChangeMs);
  await requireEmpty(admin, name);
  await remove(registry, name, revision);
  return 0;
}

async function removeEmpty(registry: Registry, admin: StoreAdmin, name: string): Promise<number> {
  await requireEmpty(admin, name);
  const offline = await beginRemoval(registry, name);
  try {
    await sleep(useCaseLimits.topicChangeMs);
    await requireEmpty(admin, name);
    await remove(registry, name, offline.revision);
    return 0;
  } catch (error) {
    await endRemoval(registry, name).catch(() => {
      // dq-upkeep does it when the registry answers again; the caller is to know why the topic was not removed.
    });
    throw error;
  }
}

async function removeWithJobs(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  purgeMs: number,
  turn: typeof setOffline,
): Promise<number> {
  const revision = await turn(registry, name);
  await sleep(useCaseLimits.topicChangeMs);
  const purged = await purgeAll(admin, name, purgeMs);
  const jobs = await jobsOf(admin, name);
  if (jobs > 0)
    throw new DqError(
      'topic_has_jobs',
      `${purged} jobs of topic ${name} are removed, ${jobs} are left; it is offline now. Call again for the rest`,
      { extra: { purged, jobs } },
    );
  await remove(registry, name, revision);
  return purged;
}

async function setOffline(registry: Registry, name: string): Promise<number> {
  return (await patchTopic(registry, name, { settings: {}, state: 'offline' })).revision;
}

async function requireEmpty(admin: StoreAdmin, name: string): Promise<void> {
  const jobs = await jobsOf(admin, name);
  if (jobs === 0) return;
  throw new DqError(
    'topic_has_jobs',
    `topic ${name} has ${jobs} jobs, dead letters included; nothing was changed. Remove it with them by ?jobs=purge`,
    { extra: { purged: 0, jobs } },
  );
}

async function remove(registry: Registry, name: string, revision: number): Promise<void> {
  if ((await registry.remove(name, revision)) === 'changed')
    throw new DqError('not_stored', `topic ${name} was changed while it was being removed; it stays`);
}

/** In steps, between which the store serves everybody else. */
async function purgeAll(admin: StoreAdmin, name: string, purgeMs: number): Promise<number> {
  const end = performance.now() + purgeMs;
  let total = 0;
  for (;;) {
    const { purged, more } = await admin.purgeTopic(name, useCaseLimits.purgeStepMax);
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
