// Mistakes of the finishing writes and of leases that end without one.

import { change, type Mutant, mutant } from './mutant.ts';

export const endingMutants: readonly Mutant[] = [
  mutant('ack keeps the job', 'ack: removes the job', (m) =>
    change(m, 'ack', () => (item) => (m.leased(item) === null ? { kind: 'lease_lost' } : { kind: 'acked' })),
  ),
  mutant('retry ignores its delay', 'retry: delays the job from now on and keeps the failed attempt', (m) =>
    change(m, 'retry', (right) => (item) => right({ ...item, delayMs: 0 })),
  ),
  mutant(
    'retry counts from the old due time',
    'retry: delays the job from now on and keeps the failed attempt',
    (m) =>
      change(m, 'retry', (right) => (item) => {
        const job = m.leased(item);
        const dueAt = (job?.dueAt ?? 0) + item.delayMs - 5;
        const outcome = right(item);
        if (job !== null) job.dueAt = dueAt;
        return outcome;
      }),
  ),
  mutant('retry without delay waits for the timer', 'retry: without delay makes the job ready at once', (m) =>
    change(m, 'retry', (right) => (item) => {
      const job = m.leased(item);
      const outcome = right(item);
      if (job !== null) job.state = 'delayed';
      return outcome;
    }),
  ),
  mutant('retry makes a new version', 'retry: without delay makes the job ready at once', (m) =>
    change(m, 'retry', (right) => (item) => {
      const job = m.leased(item);
      const outcome = right(item);
      if (job !== null) job.version = m.draw();
      return outcome;
    }),
  ),
  mutant('attempts are not kept', 'retry: delays the job from now on and keeps the failed attempt', (m) =>
    change(m, 'keepAttempt', () => () => {}),
  ),
  mutant(
    'the first attempts are kept, not the last',
    'retry: keeps the last 10 attempts, oldest first',
    (m) =>
      change(m, 'keepAttempt', () => (job, attempt) => {
        job.attempts = [...job.attempts, attempt].slice(0, 10);
      }),
  ),
  mutant('all attempts are kept', 'retry: keeps the last 10 attempts, oldest first', (m) =>
    change(m, 'keepAttempt', () => (job, attempt) => {
      job.attempts = [...job.attempts, attempt];
    }),
  ),
  mutant(
    'bury without an attempt counts one',
    'bury: without an attempt adds no failure and names the last one',
    (m) =>
      change(m, 'bury', (right) => (item) => {
        const job = m.leased(item);
        if (job !== null && item.attempt === null) job.failures += 1;
        return right(item);
      }),
  ),
  mutant('bury owes no alert', 'bury: makes a dead letter for gone and owes its alert in one step', (m) =>
    change(m, 'oweAlert', () => () => {}),
  ),
  mutant(
    'bury forgets the reason',
    'bury: makes a dead letter for no_retry and owes its alert in one step',
    (m) => change(m, 'bury', (right) => (item) => right({ ...item, reason: 'attempts_exhausted' })),
  ),
  mutant(
    'release counts an attempt',
    'release: returns the job to its old place, without attempt or strike',
    (m) =>
      change(m, 'release', (right) => (lease) => {
        const job = m.leased(lease);
        if (job !== null) job.failures += 1;
        return right(lease);
      }),
  ),
  mutant(
    'release adds a strike',
    'release: returns the job to its old place, without attempt or strike',
    (m) =>
      change(m, 'release', (right) => (lease) => {
        const job = m.leased(lease);
        if (job !== null) job.strikes += 1;
        return right(lease);
      }),
  ),
  mutant(
    'release puts the job at the end',
    'release: returns the job to its old place, without attempt or strike',
    (m) =>
      change(m, 'release', (right) => (lease) => {
        const job = m.leased(lease);
        const outcome = right(lease);
        if (job !== null) job.dueAt = m.now() + 1;
        return outcome;
      }),
  ),
  mutant('release clears the strikes', 'strikes: release neither adds nor clears any', (m) =>
    change(m, 'release', (right) => (lease) => {
      const job = m.leased(lease);
      if (job !== null) job.strikes = 0;
      return right(lease);
    }),
  ),
  mutant('an outcome leaves the strikes', 'strikes: an outcome clears them', (m) =>
    change(m, 'retry', (right) => (item) => {
      const job = m.leased(item);
      const strikes = job?.strikes ?? 0;
      const outcome = right(item);
      if (job !== null) job.strikes = strikes;
      return outcome;
    }),
  ),

  mutant(
    'a lost lease costs no strike',
    'recover: returns an expired lease to its old place, with a strike',
    (m) =>
      change(m, 'strike', (right) => (ended, max) => {
        const strikes = new Map(m.all().map((job) => [job, job.strikes]));
        const recovered = right(ended, max);
        for (const [job, n] of strikes) job.strikes = n;
        return recovered;
      }),
  ),
  mutant(
    'a lost lease costs an attempt',
    'recover: returns an expired lease to its old place, with a strike',
    (m) =>
      change(m, 'strike', (right) => (ended, max) => {
        for (const job of m.inState('reserved'))
          if (job.lease !== null && ended(job.lease)) job.failures += 1;
        return right(ended, max);
      }),
  ),
  mutant('a lease is recovered before it expires', 'recover: takes no lease before it expires', (m) =>
    change(m, 'recover', () => (max) => m.strike((lease) => lease.untilMs <= m.now() + 10_000, max)),
  ),
  mutant('a lease is recovered 1 ms before it expires', 'recover: takes no lease before it expires', (m) =>
    change(m, 'hasEnded', () => (lease) => lease !== null && lease.untilMs <= m.now() + 1),
  ),
  mutant('recover ignores max', 'recover: takes at most max; returns whether more expired', (m) =>
    change(m, 'recover', (right) => () => right(500)),
  ),
  mutant('a job is never poison', 'recover: buries a job with strike 5 as poison and owes its alert', (m) =>
    change(m, 'strike', (right) => (ended, max) => {
      for (const job of m.inState('reserved')) job.strikes = Math.min(job.strikes, 3);
      return right(ended, max);
    }),
  ),
  mutant('poison owes no alert', 'recover: buries a job with strike 5 as poison and owes its alert', (m) =>
    change(m, 'oweAlert', (right) => (job, deadAt, reason) => {
      if (reason !== 'poison') right(job, deadAt, reason);
    }),
  ),
  mutant(
    'recovering a dead owner also takes its siblings',
    'recoverOwners dead: takes the leases of one incarnation only',
    (m) =>
      change(m, 'recoverOwners', (right) => (instance, _which, max) => right(instance, { living: [] }, max)),
  ),
  mutant(
    'recovering a dead owner also takes other instances',
    'recoverOwners dead: takes the leases of one incarnation only',
    (m) =>
      change(
        m,
        'recoverOwners',
        () => (_instance, which, max) =>
          m.strike(({ owner }) => 'dead' in which && owner.incarnation === which.dead, max),
      ),
  ),
  mutant(
    'the living are not spared',
    'recoverOwners living: takes the leases of all other incarnations',
    (m) =>
      change(
        m,
        'recoverOwners',
        (right) => (instance, which, max) =>
          right(instance, 'living' in which ? { living: which.living.slice(1) } : which, max),
      ),
  ),
  mutant(
    'incarnations after the list are not spared',
    'recoverOwners living: spares incarnations above all named ones',
    (m) =>
      change(
        m,
        'recoverOwners',
        (right) => (instance, which, max) =>
          right(instance, 'living' in which ? { living: [...which.living, 9e15] } : which, max),
      ),
  ),
  mutant(
    'held leases are released',
    'releaseUnheld: releases unheld leases of the owner without a strike',
    (m) => change(m, 'releaseUnheld', (right) => (owner) => right(owner, [])),
  ),
  mutant(
    'leases of other owners are released',
    'releaseUnheld: releases unheld leases of the owner without a strike',
    (m) =>
      change(m, 'releaseUnheld', (right) => (owner, held) => {
        const siblings = [5, 6].map((incarnation) => right({ ...owner, incarnation }, held));
        return Math.max(...siblings);
      }),
  ),
  mutant(
    'unheld leases get a strike',
    'releaseUnheld: releases unheld leases of the owner without a strike',
    (m) =>
      change(m, 'releaseUnheld', () => (owner, held) => {
        const mine = (lease: { token: number; owner: typeof owner }) =>
          lease.owner.instance === owner.instance && lease.owner.incarnation === owner.incarnation;
        return m.strike((lease) => mine(lease) && !held.includes(lease.token), 500).returned;
      }),
  ),
];
