// Mistakes with leases of pulled jobs, and with what a push brings along.

import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

export const pullMutants: readonly Mutant[] = [
  ...mutants({
    'extend: moves the end of a lease; its token stays': {
      'extend never shortens a lease': change('extend', (right, m) => (item) => {
        const untilMs = m.leased(item)?.lease?.untilMs ?? 0;
        return right({ ...item, leaseMs: Math.max(item.leaseMs, untilMs - m.now()) });
      }),
    },
    'pull: recover lists no lease before it expires': {
      'recover lists a pulled job 1 ms before it expires': change(
        'hasEnded',
        (_, m) => (lease) => lease !== null && lease.untilMs <= m.now() + 1,
      ),
    },
    'pull: the next job of an id has no lease of its own': {
      'a replaced job leaves its own lease behind': change('push', (right, m) => (pushed) => {
        const old = m.jobs.get(m.nameOf(pushed))?.extension;
        return right(old === undefined ? pushed : { extension: old, ...pushed });
      }),
    },
  }),
  ...(['token', 'version'] as const).map((field) =>
    mutant(
      `extend ignores the ${field}`,
      'extend: rejects another token and another version',
      change('extend', (right, m) => (item) => {
        const job = m.jobs.get(m.nameOf(item));
        const stored = { version: job?.version, token: job?.lease?.token }[field];
        return right({ ...item, [field]: stored ?? item[field] });
      }),
    ),
  ),
  ...(['reserves until none is left', 'stops all topics'] as const).map((mistake) =>
    mutant(
      `the bound of pull leases ${mistake}`,
      'pull: a topic gets jobs while it has fewer leases than are left',
      (m) => {
        if (mistake === 'reserves until none is left')
          alter(m, 'topicsAtLeaseLimit', (right) => () => (m.pullLeasesLeft() > 0 ? [] : right()));
        else alter(m, 'topicsAtLeaseLimit', (right) => () => (right().length > 0 ? ['hog', 'other'] : []));
      },
    ),
  ),
];
