// Mistakes of the finishing writes and of leases that end without one.

import type { Unheld } from '../../../src/ports/job-store.ts';
import { change, type Mutant, mutants } from './mutant.ts';

export const endingMutants: readonly Mutant[] = mutants({
  'ack: removes the job': {
    'ack keeps the job': change(
      'ack',
      (_, m) => (item) => (m.leased(item) === null ? { kind: 'lease_lost' } : { kind: 'acked' }),
    ),
  },
  'outcome: ack pushes the job that follows in the same step': {
    'ack pushes no outcome job': change('pushOutcome', () => () => {}),
  },
  'outcome: bury of a lost lease pushes nothing': {
    'an outcome job is pushed outside the fence': change('bury', (right, m) => (item) => {
      if (m.leased(item) === null) m.pushOutcome(item);
      return right(item);
    }),
  },
  'outcome: ack again after a loss pushes nothing while the id is known': {
    'an outcome job is pushed again': change('pushOutcome', (_, m) => ({ outcome }) => {
      if (outcome !== undefined) m.push({ ...outcome.job, mode: 'replace' });
    }),
  },
  'retry: delays the job from now on and keeps the failed attempt': {
    'retry ignores its delay': change('retry', (right) => (item) => right({ ...item, delayMs: 0 })),
    'retry counts from the old due time': change('retry', (right, m) => (item) => {
      const job = m.leased(item);
      const dueAt = (job?.dueAt ?? 0) + item.delayMs - 5;
      const outcome = right(item);
      if (job !== null) job.dueAt = dueAt;
      return outcome;
    }),
    'attempts are not kept': change('keepAttempt', () => () => {}),
  },
  'retry: without delay makes the job ready at once': {
    'retry without delay waits for the timer': change('retry', (right, m) => (item) => {
      const job = m.leased(item);
      const outcome = right(item);
      if (job !== null) job.state = 'delayed';
      return outcome;
    }),
    'retry makes a new version': change('retry', (right, m) => (item) => {
      const job = m.leased(item);
      const outcome = right(item);
      if (job !== null) job.version = m.draw();
      return outcome;
    }),
  },
  'retry: keeps the last 10 attempts, oldest first': {
    'the first attempts are kept, not the last': change('keepAttempt', () => (job, attempt) => {
      job.attempts = [...job.attempts, attempt].slice(0, 10);
    }),
    'all attempts are kept': change('keepAttempt', () => (job, attempt) => {
      job.attempts = [...job.attempts, attempt];
    }),
  },
  'retry: without an attempt counts no failure, keeps the attempts and clears the strikes': {
    'retry without an attempt counts one': change('retry', (right, m) => (item) => {
      const job = m.leased(item);
      if (job !== null && item.attempt === null) job.failures += 1;
      return right(item);
    }),
    'retry without an attempt leaves the strikes': change('retry', (right, m) => (item) => {
      const job = m.leased(item);
      const strikes = job?.strikes ?? 0;
      const outcome = right(item);
      if (job !== null && item.attempt === null) job.strikes = strikes;
      return outcome;
    }),
  },
  'retry: a new block, with an earlier one, without an attempt': {
    'retry ignores the new block': change(
      'retry',
      (right) =>
        ({ extension: _, ...item }) =>
          right(item),
    ),
  },
  'retry: a new block of a lost lease is not stored': {
    'a block is stored without the lease': change('retry', (right, m) => (item) => {
      const job = m.jobs.get(m.nameOf(item));
      if (job !== undefined && item.extension !== undefined) job.extension = item.extension;
      return right(item);
    }),
  },
  'bury: without an attempt adds no failure and names the last one': {
    'bury without an attempt counts one': change('bury', (right, m) => (item) => {
      const job = m.leased(item);
      if (job !== null && item.attempt === null) job.failures += 1;
      return right(item);
    }),
  },
  'bury: makes a dead letter for gone and owes its alert in one step': {
    'bury owes no alert': change('oweAlert', () => () => {}),
  },
  'bury: makes a dead letter for no_retry and owes its alert in one step': {
    'bury forgets the reason': change(
      'bury',
      (right) => (item) => right({ ...item, reason: 'attempts_exhausted' }),
    ),
  },
  'release: returns the job to its old place, without attempt or strike': {
    'release counts an attempt': change('release', (right, m) => (lease) => {
      const job = m.leased(lease);
      if (job !== null) job.failures += 1;
      return right(lease);
    }),
    'release adds a strike': change('release', (right, m) => (lease) => {
      const job = m.leased(lease);
      if (job !== null) job.strikes += 1;
      return right(lease);
    }),
    'release puts the job at the end': change('release', (right, m) => (lease) => {
      const job = m.leased(lease);
      const outcome = right(lease);
      if (job !== null) job.dueAt = m.now() + 1;
      return outcome;
    }),
  },
  'strikes: release neither adds nor clears any': {
    'release clears the strikes': change('release', (right, m) => (lease) => {
      const job = m.leased(lease);
      if (job !== null) job.strikes = 0;
      return right(lease);
    }),
  },
  'strikes: an outcome clears them': {
    'an outcome leaves the strikes': change('retry', (right, m) => (item) => {
      const job = m.leased(item);
      const strikes = job?.strikes ?? 0;
      const outcome = right(item);
      if (job !== null) job.strikes = strikes;
      return outcome;
    }),
  },
  'recover: returns an expired lease to its old place, with a strike': {
    'a lost lease costs no strike': change('strike', (right, m) => (ended, max) => {
      const strikes = new Map(m.all().map((job) => [job, job.strikes]));
      const recovered = right(ended, max);
      for (const [job, n] of strikes) job.strikes = n;
      return recovered;
    }),
    'a lost lease costs an attempt': change('strike', (right, m) => (ended, max) => {
      for (const job of m.inState('reserved')) if (job.lease !== null && ended(job.lease)) job.failures += 1;
      return right(ended, max);
    }),
  },
  'recover: takes no lease before it expires': {
    'a lease is recovered before it expires': change(
      'recover',
      (_, m) => (max) => m.strike((lease) => lease.untilMs <= m.now() + 10_000, max),
    ),
    'a lease is recovered 1 ms before it expires': change(
      'hasEnded',
      (_, m) => (lease) => lease !== null && lease.untilMs <= m.now() + 1,
    ),
  },
  'recover: takes at most max; returns whether more expired': {
    'recover ignores max': change('recover', (right) => () => right(500)),
  },
  'recover: names the lease of strike 5, and a bury of it makes the job poison': {
    'a job is never poison': change('strike', (right, m) => (ended, max) => {
      for (const job of m.inState('reserved')) job.strikes = Math.min(job.strikes, 3);
      return right(ended, max);
    }),
    'poison owes no alert': change('oweAlert', (right) => (job, deadAt, reason) => {
      if (reason !== 'poison') right(job, deadAt, reason);
    }),
  },
  'recoverOwners dead: takes the leases of one incarnation only': {
    'recovering a dead owner also takes its siblings': change(
      'recoverOwners',
      (right) => (instance, _which, max) => right(instance, { living: [] }, max),
    ),
    'recovering a dead owner also takes other instances': change(
      'recoverOwners',
      (_, m) => (_instance, which, max) =>
        m.strike(({ owner }) => 'dead' in which && owner.incarnation === which.dead, max),
    ),
  },
  'recoverOwners living: takes the leases of all other incarnations': {
    'the living are not spared': change(
      'recoverOwners',
      (right) => (instance, which, max) =>
        right(instance, 'living' in which ? { living: which.living.slice(1) } : which, max),
    ),
  },
  'recoverOwners living: spares incarnations above all named ones': {
    'incarnations after the list are not spared': change(
      'recoverOwners',
      (right) => (instance, which, max) =>
        right(instance, 'living' in which ? { living: [...which.living, 9e15] } : which, max),
    ),
  },
  'releaseUnheld: releases unheld leases of the owner without a strike': {
    'held leases are released': change(
      'releaseUnheld',
      (right) => (owner, _held, upTo) => right(owner, [], upTo),
    ),
    'leases of other owners are released': change('releaseUnheld', (right) => (owner, ...rest) => {
      const [one, other] = [5, 6].map((incarnation) => right({ ...owner, incarnation }, ...rest));
      return (one?.released ?? 0) > 0 ? (one as Unheld) : (other as Unheld);
    }),
    'unheld leases get a strike': change('releaseUnheld', (right, m) => (owner, held, upTo) => {
      const mine = (lease: { token: number; owner: typeof owner }) =>
        lease.owner.instance === owner.instance && lease.owner.incarnation === owner.incarnation;
      const released = m.strike((lease) => mine(lease) && !held.includes(lease.token), 500).returned;
      return { ...right(owner, held, upTo), released };
    }),
  },
  'releaseUnheld: releases no lease that was given after the look': {
    'later leases are released, too': change(
      'releaseUnheld',
      (right) => (owner, held, upTo) => right(owner, held, upTo === 0 ? 0 : Number.MAX_SAFE_INTEGER),
    ),
    'the look releases': change(
      'releaseUnheld',
      (right) => (owner, held) => right(owner, held, Number.MAX_SAFE_INTEGER),
    ),
  },
});
