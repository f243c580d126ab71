// The cases for stores that run the same scripts on the same single bucket as redis.test.ts, which runs all
// cases: Redis behind Sentinel, and one shard of several. They differ in how a call finds its server, so
// one case per kind of call (and every call that passes a cursor or a hint through the client) shows what
// differs.

import { cases } from './exercise.ts';
import type { Case } from './trial.ts';

const titles = [
  'push: stores a job due now as ready',
  'push: stores a job due later as delayed',
  'push with a window: each item of a call has its own',
  'cancel: returns an outcome per item',
  'promote: moves only due jobs',
  'reserve: leases a ready job and keeps its body',
  'reserve: concurrent calls get each job once',
  'ack: removes the job',
  'retry: delays the job from now on and keeps the failed attempt',
  'release: returns the job to its old place, without attempt or strike',
  'recover: returns an expired lease to its old place, with a strike',
  'recoverOwners dead: takes the leases of one incarnation only',
  'releaseUnheld: releases unheld leases of the owner without a strike',
  'pull: recover lists an expired lease and changes nothing',
  'extend: moves the end of a lease; its token stays',
  'dead list: pages skip and repeat nothing while others die or go',
  'requeue: makes a dead letter ready as a new version; its alert stays owed',
  'edit: a job that is due is called with the new content only',
  'search: pages skip and repeat nothing while others come or go',
  'history: keeps a job delivered at once with its attempt, without body',
  'alerts claim: expires, and the alert is owed again',
  'counts: counts every topic that has a job, by state, and no other',
  'purgeTopic: removes at most max and returns whether more are left',
  'fsck: counts live and dead jobs, and finds no problems',
  'hint due: sent only when a push becomes the earliest delayed job',
  'hint ready: sent only when the ready queue stops being empty',
];

/** Throws when a title has no case. */
export const smokeCases: readonly Case[] = titles.map((title) => {
  const found = cases.find((each) => each.title === title);
  if (found === undefined) throw new Error(`unknown case "${title}"`);
  return found;
});

const titlesOfOnePartition = [
  'promote: orders several topics by due time, turns by their first jobs',
  'push: topics of a call get turns in the order of their first jobs',
  'reserve: takes turns over the topics of a priority',
  'reserve: takes the earliest due of a topic first, equal ones by version',
  'dead requeue: oldest death first, at most max; returns whether more are left',
  'dead purge: oldest death first, at most max; returns whether more are left',
  'forget: removes older entries, the oldest end first, at most max',
  'expire: removes older dead letters, the oldest death first, at most max',
  'alerts due: names topics with owed alerts, the longest owed first',
  'position: counts the jobs that reserve takes before',
  'hint due: sent only when a push becomes the earliest delayed job',
  'hint ready: sent only when the ready queue stops being empty',
  'pull: a topic gets jobs while it has fewer leases than are left',
  'numbers: each lease of a reserve has its own token',
];

const isOfOnePartition = ({ title }: Case) => titlesOfOnePartition.includes(title);

/** Cases of an order, a bound or distinct numbers: they hold for the jobs of each shard. */
export const casesOfOnePartition: readonly Case[] = cases.filter(isOfOnePartition);
if (casesOfOnePartition.length !== titlesOfOnePartition.length) throw new Error('an unknown case');

/** Those that hold for any number of partitions. */
export const casesOfAllPartitions: readonly Case[] = cases.filter((each) => !isOfOnePartition(each));
