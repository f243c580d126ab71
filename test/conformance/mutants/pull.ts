// Mistakes with leases of pulled jobs, and with what a push brings along.

import { optionsIn } from '../../../src/core/extension.ts';
import { isPulled, pullOwner } from '../../../src/core/job.ts';
import { alter, change, type Mutant, mutant, mutants } from './mutant.ts';

export const pullMutants: readonly Mutant[] = [
  ...mutants({
    'pull: a lease that was extended does not end as expired': {
      'the expiry of a lease ends an extended one': change(
        'leased',
        (right) =>
          ({ ifExpired, ...lease }) =>
            right(lease),
      ),
    },
    'pull: each end of an expired lease is possible until it is extended': {
      'an expired lease does not end': change(
        'leased',
        (right) => (lease) => (lease.ifExpired === true ? null : right(lease)),
      ),
    },
    'extend: moves the end of a lease; its token stays': {
      'extend gives a new token': change('extend', (right, m) => (item) => {
        const outcome = right(item);
        const job = m.leased(item);
        if (job !== null && job.lease !== null) job.lease = { ...job.lease, token: m.drawToken() };
        return outcome;
      }),
      'extend never shortens a lease': change('extend', (right, m) => (item) => {
        const untilMs = m.leased(item)?.lease?.untilMs ?? 0;
        return right({ ...item, leaseMs: Math.max(item.leaseMs, untilMs - m.now()) });
      }),
    },
    'extend: an expired lease goes on until it is settled': {
      'extend rejects an expired lease': change('extend', (right, m) => (item) => {
        const job = m.leased(item);
        return job === null || m.hasEnded(job.lease) ? { kind: 'lease_lost' } : right(item);
      }),
    },
    'extend: rejects the lease of a notifier': {
      'extend accepts the lease of a notifier': change('extend', (_, m) => (item) => {
        const job = m.leased(item);
        if (job === null || job.lease === null) return { kind: 'lease_lost' };
        job.lease = { ...job.lease, untilMs: m.now() + item.leaseMs };
        return { kind: 'extended', until: job.lease.untilMs };
      }),
    },
    'pull: recover lists an expired lease and changes nothing': {
      'the expiry of a pulled job is a strike': change('heldByProcesses', (_, m) => () => m.held(() => true)),
      'recover lists a lease once': (m) => {
        const listed = new Set<number>();
        alter(m, 'recover', (right) => (max) => {
          const { pulled = [], ...rest } = right(max);
          const fresh = pulled.filter(({ lease }) => !listed.has(lease.token));
          for (const { lease } of fresh) listed.add(lease.token);
          return fresh.length > 0 ? { ...rest, pulled: fresh } : rest;
        });
      },
    },
    'pull: recoverOwners and releaseUnheld leave pulled jobs alone': {
      'recoverOwners recovers pulled jobs': change('recoverOwners', (right, m) => (instance, which, max) => {
        const heldByProcesses = m.heldByProcesses;
        m.heldByProcesses = () => m.held(() => true);
        const recovered = right(instance, which, max);
        m.heldByProcesses = heldByProcesses;
        return recovered;
      }),
      'releaseUnheld releases pulled jobs': change('releaseUnheld', (right, m) => (...given) => {
        const heldByProcesses = m.heldByProcesses;
        m.heldByProcesses = () => m.held(() => true);
        const released = right(...given);
        m.heldByProcesses = heldByProcesses;
        return released;
      }),
    },
    'pull: of two callers of recover, one settles the expired lease': {
      'an expiry is settled twice': change('leased', (_, m) => (lease) => {
        const job = m.jobs.get(m.nameOf(lease));
        return job?.version === lease.version ? job : null;
      }),
    },
    'pull: an expired lease is a failed attempt without a strike': {
      'recover does not list pulled jobs': change('recover', (right) => (max) => {
        const { pulled, ...rest } = right(max);
        return rest;
      }),
    },
    "pull: recover lists a job's own options": {
      "recover forgets a job's own options": change('expiredPull', (right) => (job) => ({
        ...right(job),
        options: {},
      })),
    },
    'pull: recover lists no lease before it expires': {
      'recover lists pulled jobs before they expire': change(
        'hasEnded',
        () => (lease) => lease !== null && isPulled(lease.owner),
      ),
      'recover lists a pulled job 1 ms before it expires': change(
        'hasEnded',
        (_, m) => (lease) => lease !== null && lease.untilMs <= m.now() + 1,
      ),
    },
    'pull: recover lists the earliest ends first, at most max': {
      'recover lists more than max': change('recover', (right) => (max) => ({
        ...right(max),
        ...right(500),
      })),
    },
    'pull: expired pulled jobs do not keep back those of notifiers': {
      'a full list of pulled jobs ends the recovery of others': change(
        'strike',
        (right, m) => (ended, max) => right(ended, Math.max(0, max - m.held(isPulled).length)),
      ),
    },
    "pull: a job's own lease replaces the requested one": {
      "a job's own lease is ignored": change('lease', (right) => (job, owner, leaseMs) => {
        const { extension: own, ...plain } = job;
        delete job.extension;
        const held = right(job, owner, leaseMs);
        Object.assign(job, own === undefined ? {} : { extension: own });
        return { ...held, body: plain.body };
      }),
    },
    "pull: a notifier never gets a job's own lease": {
      "a notifier gets a job's own lease": change(
        'lease',
        (right) => (job, owner, leaseMs) => right(job, owner, optionsIn(job.extension).leaseMs ?? leaseMs),
      ),
    },
    "pull: retries, releases and new versions keep a job's own lease": {
      "a retry loses the job's own lease": change('retry', (right, m) => (item) => {
        const job = m.leased(item);
        if (job !== null) delete job.extension;
        return right(item);
      }),
      "a new version loses the job's own lease": change('makeAnew', (right) => (job, dueAt) => {
        delete job.extension;
        right(job, dueAt);
      }),
    },
    'pull: the next job of an id has no lease of its own': {
      'a replaced job leaves its own lease behind': change('push', (right, m) => (pushed) => {
        const old = m.jobs.get(m.nameOf(pushed))?.extension;
        return right(old === undefined ? pushed : { extension: old, ...pushed });
      }),
    },
    'cancel as done: ends a ready job as delivered': {
      'cancel as done is a cancel': change('cancel', (right) => (key) => right(key)),
    },
    'push: an acceptedAt after now becomes now': {
      'a later acceptedAt stays': change('push', (right, m) => (pushed) => {
        const outcome = right(pushed);
        const job = m.jobs.get(m.nameOf(pushed));
        if (job !== undefined) job.acceptedAt = pushed.acceptedAt ?? job.acceptedAt;
        return outcome;
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
  ...(['reserves until none is left', 'stops all topics', 'concerns notifiers'] as const).map((mistake) =>
    mutant(
      `the bound of pull leases ${mistake}`,
      'pull: a topic gets jobs while it has fewer leases than are left',
      (m) => {
        if (mistake === 'reserves until none is left')
          alter(m, 'topicsAtLeaseLimit', (right) => () => (m.pullLeasesLeft() > 0 ? [] : right()));
        else if (mistake === 'stops all topics')
          alter(m, 'topicsAtLeaseLimit', (right) => () => (right().length > 0 ? ['hog', 'other'] : []));
        else alter(m, 'reserve', (right) => (asked) => right({ ...asked, owner: pullOwner }));
      },
    ),
  ),
  ...(['acceptedAt', 'failures'] as const).map((field) =>
    mutant(
      `an imported job loses its ${field}`,
      'push: keeps acceptedAt and failures of an imported job',
      change('push', (right) => (pushed) => right({ ...pushed, [field]: undefined })),
    ),
  ),
];
