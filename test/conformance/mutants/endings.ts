// Mistakes of the finishing writes and of leases that end without one.

import { change, type Mutant, mutants } from './mutant.ts';

export const endingMutants: readonly Mutant[] = mutants({
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
  'retry: keeps the last 10 attempts, oldest first': {
    'the first attempts are kept, not the last': change('keepAttempt', () => (job, attempt) => {
      job.attempts = [...job.attempts, attempt].slice(0, 10);
    }),
    'all attempts are kept': change('keepAttempt', () => (job, attempt) => {
      job.attempts = [...job.attempts, attempt];
    }),
  },
  'recover: takes no lease before it expires': {
    'a lease is recovered 1 ms before it expires': change(
      'hasEnded',
      (_, m) => (lease) => lease !== null && lease.untilMs <= m.now() + 1,
    ),
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
