// Mistakes with the identity of leases, versions and jobs.

import type { Lease } from '../../../src/core/job.ts';
import type { Model } from '../model.ts';
import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

const finishes = ['ack', 'retry', 'bury', 'release'] as const;

/** A finishing write that uses the stored version instead of the sent one. */
function unfenced(verb: (typeof finishes)[number]): (model: Model) => void {
  return (model) => {
    const loosen = <T extends Lease>(lease: T): T => {
      const job = model.jobs.get(model.nameOf(lease));
      return { ...lease, version: job?.version ?? lease.version };
    };
    alter(
      model,
      verb,
      (right) => ((item: never) => (right as (item: never) => never)(loosen(item))) as never,
    );
  };
}

const fences: readonly Mutant[] = finishes.flatMap((verb) => [
  mutant(`${verb} ignores the version`, `${verb}: rejects another token and another version`, unfenced(verb)),
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
]);

const numbers: readonly Mutant[] = mutants({
  'identity: topic and id are never joined ambiguously': {
    'topic and id are joined by a dot': change('nameOf', () => (key) => `${key.topic}.${key.id}`),
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
