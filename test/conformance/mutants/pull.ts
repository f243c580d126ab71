// Mistakes with leases of pulled jobs, and with what a push brings along.

import { optionsIn } from '../../../src/core/extension.ts';
import { isPulled, pullOwner } from '../../../src/core/job.ts';
import { change, type Mutant, mutant } from './mutant.ts';

export const pullMutants: readonly Mutant[] = [
  ...(['token', 'version'] as const).map((field) =>
    mutant(`extend ignores the ${field}`, 'extend: rejects another token and another version', (m) =>
      change(m, 'extend', (right) => (item) => {
        const job = m.jobs.get(m.nameOf(item));
        const stored = { version: job?.version, token: job?.lease?.token }[field];
        return right({ ...item, [field]: stored ?? item[field] });
      }),
    ),
  ),
  mutant(
    'the expiry of a lease ends an extended one',
    'pull: a lease that was extended does not end as expired',
    (m) =>
      change(
        m,
        'leased',
        (right) =>
          ({ ifExpired, ...lease }) =>
            right(lease),
      ),
  ),
  mutant(
    'an expired lease does not end',
    'pull: each end of an expired lease is possible until it is extended',
    (m) => change(m, 'leased', (right) => (lease) => (lease.ifExpired === true ? null : right(lease))),
  ),
  mutant('extend gives a new token', 'extend: moves the end of a lease; its token stays', (m) =>
    change(m, 'extend', (right) => (item) => {
      const outcome = right(item);
      const job = m.leased(item);
      if (job !== null && job.lease !== null) job.lease = { ...job.lease, token: m.drawToken() };
      return outcome;
    }),
  ),
  mutant('extend never shortens a lease', 'extend: moves the end of a lease; its token stays', (m) =>
    change(m, 'extend', (right) => (item) => {
      const untilMs = m.leased(item)?.lease?.untilMs ?? 0;
      return right({ ...item, leaseMs: Math.max(item.leaseMs, untilMs - m.now()) });
    }),
  ),
  mutant('extend rejects an expired lease', 'extend: an expired lease goes on until it is settled', (m) =>
    change(m, 'extend', (right) => (item) => {
      const job = m.leased(item);
      return job === null || m.hasEnded(job.lease) ? { kind: 'lease_lost' } : right(item);
    }),
  ),
  mutant('extend accepts the lease of a notifier', 'extend: rejects the lease of a notifier', (m) =>
    change(m, 'extend', () => (item) => {
      const job = m.leased(item);
      if (job === null || job.lease === null) return { kind: 'lease_lost' };
      job.lease = { ...job.lease, untilMs: m.now() + item.leaseMs };
      return { kind: 'extended', until: job.lease.untilMs };
    }),
  ),
  mutant(
    'the expiry of a pulled job is a strike',
    'pull: recover lists an expired lease and changes nothing',
    (m) => change(m, 'heldByProcesses', () => () => m.held(() => true)),
  ),
  mutant(
    'recoverOwners recovers pulled jobs',
    'pull: recoverOwners and releaseUnheld leave pulled jobs alone',
    (m) =>
      change(m, 'recoverOwners', (right) => (instance, which, max) => {
        const heldByProcesses = m.heldByProcesses;
        m.heldByProcesses = () => m.held(() => true);
        const recovered = right(instance, which, max);
        m.heldByProcesses = heldByProcesses;
        return recovered;
      }),
  ),
  mutant(
    'releaseUnheld releases pulled jobs',
    'pull: recoverOwners and releaseUnheld leave pulled jobs alone',
    (m) =>
      change(m, 'releaseUnheld', (right) => (owner, held) => {
        const heldByProcesses = m.heldByProcesses;
        m.heldByProcesses = () => m.held(() => true);
        const released = right(owner, held);
        m.heldByProcesses = heldByProcesses;
        return released;
      }),
  ),
  mutant(
    'an expiry is settled twice',
    'pull: of two callers of recover, one settles the expired lease',
    (m) =>
      change(m, 'leased', () => (lease) => {
        const job = m.jobs.get(m.nameOf(lease));
        return job?.version === lease.version ? job : null;
      }),
  ),
  mutant(
    'recover does not list pulled jobs',
    'pull: an expired lease is a failed attempt without a strike',
    (m) =>
      change(m, 'recover', (right) => (max) => {
        const { pulled, ...rest } = right(max);
        return rest;
      }),
  ),
  mutant("recover forgets a job's own options", "pull: recover lists a job's own options", (m) =>
    change(m, 'expiredPull', (right) => (job) => ({ ...right(job), options: {} })),
  ),
  mutant('recover lists a lease once', 'pull: recover lists an expired lease and changes nothing', (m) => {
    const listed = new Set<number>();
    change(m, 'recover', (right) => (max) => {
      const { pulled = [], ...rest } = right(max);
      const fresh = pulled.filter(({ lease }) => !listed.has(lease.token));
      for (const { lease } of fresh) listed.add(lease.token);
      return fresh.length > 0 ? { ...rest, pulled: fresh } : rest;
    });
  }),
  mutant(
    'recover lists pulled jobs before they expire',
    'pull: recover lists no lease before it expires',
    (m) => change(m, 'hasEnded', () => (lease) => lease !== null && isPulled(lease.owner)),
  ),
  mutant(
    'recover lists a pulled job 1 ms before it expires',
    'pull: recover lists no lease before it expires',
    (m) => change(m, 'hasEnded', () => (lease) => lease !== null && lease.untilMs <= m.now() + 1),
  ),
  mutant('recover lists more than max', 'pull: recover lists the earliest ends first, at most max', (m) =>
    change(m, 'recover', (right) => (max) => ({ ...right(max), ...right(500) })),
  ),
  mutant(
    'a full list of pulled jobs ends the recovery of others',
    'pull: expired pulled jobs do not keep back those of notifiers',
    (m) =>
      change(
        m,
        'strike',
        (right) => (ended, max) => right(ended, Math.max(0, max - m.held(isPulled).length)),
      ),
  ),
  ...(['reserves until none is left', 'stops all topics', 'concerns notifiers'] as const).map((mistake) =>
    mutant(
      `the bound of pull leases ${mistake}`,
      'pull: a topic gets jobs while it has fewer leases than are left',
      (m) => {
        if (mistake === 'reserves until none is left')
          change(m, 'topicsAtLeaseLimit', (right) => () => (m.pullLeasesLeft() > 0 ? [] : right()));
        else if (mistake === 'stops all topics')
          change(m, 'topicsAtLeaseLimit', (right) => () => (right().length > 0 ? ['hog', 'other'] : []));
        else change(m, 'reserve', (right) => (asked) => right({ ...asked, owner: pullOwner }));
      },
    ),
  ),
  mutant("a job's own lease is ignored", "pull: a job's own lease replaces the requested one", (m) =>
    change(m, 'lease', (right) => (job, owner, leaseMs) => {
      const { extension: own, ...plain } = job;
      delete job.extension;
      const held = right(job, owner, leaseMs);
      Object.assign(job, own === undefined ? {} : { extension: own });
      return { ...held, body: plain.body };
    }),
  ),
  mutant("a notifier gets a job's own lease", "pull: a notifier never gets a job's own lease", (m) =>
    change(
      m,
      'lease',
      (right) => (job, owner, leaseMs) => right(job, owner, optionsIn(job.extension).leaseMs ?? leaseMs),
    ),
  ),
  mutant(
    "a retry loses the job's own lease",
    "pull: retries, releases and new versions keep a job's own lease",
    (m) =>
      change(m, 'retry', (right) => (item) => {
        const job = m.leased(item);
        if (job !== null) delete job.extension;
        return right(item);
      }),
  ),
  mutant(
    "a new version loses the job's own lease",
    "pull: retries, releases and new versions keep a job's own lease",
    (m) =>
      change(m, 'makeAnew', (right) => (job, dueAt) => {
        delete job.extension;
        right(job, dueAt);
      }),
  ),
  mutant(
    'a replaced job leaves its own lease behind',
    'pull: the next job of an id has no lease of its own',
    (m) =>
      change(m, 'push', (right) => (pushed) => {
        const old = m.jobs.get(m.nameOf(pushed))?.extension;
        return right(old === undefined ? pushed : { extension: old, ...pushed });
      }),
  ),
  mutant('cancel as done is a cancel', 'cancel as done: ends a ready job as delivered', (m) =>
    change(m, 'cancel', (right) => (key) => right(key)),
  ),
  ...(['acceptedAt', 'failures'] as const).map((field) =>
    mutant(
      `an imported job loses its ${field}`,
      'push: keeps acceptedAt and failures of an imported job',
      (m) => change(m, 'push', (right) => (pushed) => right({ ...pushed, [field]: undefined })),
    ),
  ),
  mutant('a later acceptedAt stays', 'push: an acceptedAt after now becomes now', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const outcome = right(pushed);
      const job = m.jobs.get(m.nameOf(pushed));
      if (job !== undefined) job.acceptedAt = pushed.acceptedAt ?? job.acceptedAt;
      return outcome;
    }),
  ),
];
