// The cases for stores that run the same scripts on the same single bucket as redis.test.ts, which runs all
// cases: Redis behind Sentinel, and one shard of several. They differ in how a call finds its server, so
// one case per kind of call (and every call that passes a cursor or a hint through the client) shows what
// differs.

import { cases } from './exercise.ts';
import type { Case } from './trial.ts';

const titles = [
  'push: stores a job due now as ready',
  'push: stores a job due later as delayed',
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
