// Mistakes with the identity of leases, versions and jobs.

import type { Lease } from '../../../src/core/job.ts';
import type { Model } from '../model.ts';
import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

const finishes = ['ack', 'retry', 'bury', 'release'] as const;

/** A finishing write that uses the stored version or token instead of the sent one. */
function unfenced(verb: (typeof finishes)[number], field: 'version' | 'token'): (model: Model) => void {
  return (model) => {
    const loosen = <T extends Lease>(lease: T): T => {
      const job = model.jobs.get(model.nameOf(lease));
      const stored = { version: job?.version, token: job?.lease?.token }[field];
      return { ...lease, [field]: stored ?? lease[field] };
    };
    alter(
      model,
      verb,
      (right) => ((item: never) => (right as (item: never) => never)(loosen(item))) as never,
    );
  };
}

const fences: readonly Mutant[] = finishes.flatMap((verb) => [
  mutant(
    `${verb} ignores the token`,
    `${verb}: rejects a lease that was taken over`,
    unfenced(verb, 'token'),
  ),
  mutant(
    `${verb} ignores the version`,
    `${verb}: rejects another token and another version`,
    unfenced(verb, 'version'),
  ),
  mutant(
    `${verb} ignores who has the lease`,
    `${verb}: a pull client ends its own lease, and no lease of a process`,
    (m) =>
      alter(
        m,
        verb,
        (right) =>
          ((item: object) =>
            (right as (item: never) => never)({ ...item, isPulled: false } as never)) as never,
      ),
  ),
  mutant(
    `${verb} rejects an expired lease that was not recovered`,
    `${verb}: finishes an expired lease until it is recovered`,
    (m) =>
      alter(m, 'leased', (right) => (lease) => {
        const job = right(lease);
        return (job?.lease?.untilMs ?? 0) > m.now() ? job : null;
      }),
  ),
]);

const numbers: readonly Mutant[] = mutants({
  'numbers: each lease of a reserve has its own token': {
    'a token repeats the last number': change('drawToken', (_, m) => () => m.counter),
  },
  'numbers: versions and tokens rise and never repeat': {
    'numbers start again when the store is empty': change('draw', (right, m) => () => {
      if (m.jobs.size === 0) m.counter = 0;
      return m.counter === 0 ? right() - 3_000_000 : ++m.counter;
    }),
  },
  'push: numbers versions by the storage clock in microseconds': {
    'versions count from 1': change('draw', (_, m) => () => ++m.counter),
  },
  'push: of 100 concurrent pushes of one id, one survives': {
    'a version is only the clock': change('draw', (_, m) => () => m.now() * 1000),
  },
  'identity: topic and id are never joined ambiguously': {
    'topic and id are joined by a dot': change('nameOf', () => (key) => `${key.topic}.${key.id}`),
  },
  'identity: the same id in two topics is two jobs': {
    'the topic is not part of the identity': change('nameOf', () => (key) => key.id),
  },
  'bounds: ids of any 256 bytes of UTF-8 stay distinct byte for byte': {
    'ids are compared without case': change(
      'nameOf',
      (right) => (key) => right({ ...key, id: key.id.toLowerCase() }),
    ),
    'ids are normalised': change('nameOf', (right) => (key) => right({ ...key, id: key.id.normalize() })),
  },
  'bounds: topic names of any allowed shape stay distinct': {
    'topic names are cut': change(
      'nameOf',
      (right) => (key) => right({ ...key, topic: key.topic.slice(0, 127) }),
    ),
  },
});

export const fenceMutants: readonly Mutant[] = [...fences, ...numbers];
