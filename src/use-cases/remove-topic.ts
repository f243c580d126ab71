// remove-topic.ts removes a topic without jobs, or with its jobs. It sets the topic offline, waits until
// every process has read that, and counts the jobs again: after a single count a push could still arrive, and
// its job would be an orphan. A topic with jobs stays unchanged. Jobs that arrive during the removal end it,
// and the topic gets its former state back.

import { DqError } from '../core/errors.ts';
import type { StoreAdmin } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import { StoreError, shardsAway } from '../ports/store-error.ts';
import { monotonicNow, sleep } from '../runtime/time.ts';
import {
  beginRemoval,
  endRemoval,
  findTopic,
  patchTopic,
  topicNotFound,
  turnOffline,
} from './change-topic.ts';
import { useCaseLimits } from './limits.ts';

/** Returns the number of purged jobs. Rejects with topic_has_jobs:
 *  - without `purge`, when jobs are stored; the topic stays unchanged.
 *  - with `purge`, when `purgeMs` does not suffice; the topic stays offline, and the error has the counts.
 *    After an interruption the call can be repeated. Without `purge` a process that dies in between leaves
 *    Topic.removal, by which dq-upkeep restores the topic's state (removal-watch.ts).
 *  Rejects with topic_in_use where another topic names it in onDone or onDead, and with topic_changed where
 *  the topic has not the revision `expected`; null = any. */
export async function removeTopic(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  purge: boolean,
  expected: number | null = null,
  purgeMs: number = useCaseLimits.purgeCallMs,
): Promise<number> {
  const known = await findTopic(registry, name);
  if (known === null) throw topicNotFound(name);
  await requireUnnamed(registry, name);
  // Without a readable record there is no former state.
  const turn = 'topic' in known ? setOffline : turnOffline;
  if (purge) return removeWithJobs(registry, admin, name, purgeMs, () => turn(registry, name, expected));
  if ('topic' in known) return removeEmpty(registry, admin, name, expected);
  await requireEmpty(admin, name);
  const revision = await turnOffline(registry, name, expected);
  await sleep(useCaseLimits.topicChangeMs);
  await requireEmpty(admin, name);
  await remove(registry, name, revision);
  return 0;
}

async function removeEmpty(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  expected: number | null,
): Promise<number> {
  await requireEmpty(admin, name);
  const offline = await beginRemoval(registry, name, expected);
  try {
    await sleep(useCaseLimits.topicChangeMs);
    await requireEmpty(admin, name);
    await remove(registry, name, offline.revision);
    return 0;
  } catch (error) {
    await endRemoval(registry, name).catch(() => {
      // dq-upkeep repeats it later; the caller needs the first error.
    });
    throw error;
  }
}

async function removeWithJobs(
  registry: Registry,
  admin: StoreAdmin,
  name: string,
  purgeMs: number,
  turn: () => Promise<number>,
): Promise<number> {
  // The removal of a topic whose jobs cannot be counted changes nothing.
  await jobsOf(admin, name);
  const revision = await turn();
  await sleep(useCaseLimits.topicChangeMs);
  const purged = await purgeAll(admin, name, purgeMs);
  const jobs = await jobsOf(admin, name);
  if (jobs > 0)
    throw new DqError(
      'topic_has_jobs',
      `topic ${name}: ${purged} jobs are purged, ${jobs} are left, and it is offline; call again for the rest`,
      { extra: { purged, jobs } },
    );
  await remove(registry, name, revision);
  return purged;
}

async function setOffline(registry: Registry, name: string, expected: number | null): Promise<number> {
  const offline = { settings: {}, state: 'offline' } as const;
  return (await patchTopic(registry, name, offline, null, expected)).revision;
}

async function requireEmpty(admin: StoreAdmin, name: string): Promise<void> {
  const jobs = await jobsOf(admin, name);
  if (jobs === 0) return;
  throw new DqError(
    'topic_has_jobs',
    `topic ${name}: has ${jobs} jobs, dead letters included; to remove them too, add ?jobs=purge`,
    { extra: { purged: 0, jobs } },
  );
}

async function requireUnnamed(registry: Registry, name: string): Promise<void> {
  const by = await registry.namedBy(name);
  if (by === null) return;
  const error = new DqError(
    'topic_in_use',
    `topic ${name}: ${by.topic} names it in ${by.field}; change that first`,
    { extra: { namedBy: by.topic } },
  );
  throw new DqError(
    'topic_in_use',
    `topic ${name}: one that this token does not cover names it in ${by.field}; have that changed first`,
    { naming: { topics: [by.topic], error } },
  );
}

async function remove(registry: Registry, name: string, revision: number): Promise<void> {
  const outcome = await registry.remove(name, revision);
  // A topic was changed meanwhile, and names it.
  if (outcome === 'in_use') await requireUnnamed(registry, name);
  if (outcome === 'changed' || outcome === 'in_use')
    throw new DqError('not_stored', `topic ${name}: changed during the removal and not removed; try again`);
}

/** Purges in steps, so that the store serves other calls in between. Returns the number of purged jobs. */
async function purgeAll(admin: StoreAdmin, name: string, purgeMs: number): Promise<number> {
  const end = monotonicNow() + purgeMs;
  let total = 0;
  for (;;) {
    const { purged, more } = await admin.purgeTopic(name, useCaseLimits.purgeStepMax);
    total += purged;
    if (!more || monotonicNow() >= end) return total;
  }
}

async function jobsOf(admin: StoreAdmin, name: string): Promise<number> {
  const { topics, missing = [] } = await admin.counts();
  // A shard without an answer may hold jobs of the topic.
  if (missing.length > 0) throw new StoreError(shardsAway(missing));
  const counts = topics[name];
  // Not an inherited member: a topic can be called `constructor`.
  if (counts === undefined || !Object.hasOwn(topics, name)) return 0;
  return counts.delayed + counts.ready + counts.reserved + counts.dead;
}
