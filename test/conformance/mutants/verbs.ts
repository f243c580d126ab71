// Mistakes of run, reschedule and requeue of one job.

import type { VersionedKey } from '../../../src/core/job.ts';
import { change, type Mutant, mutant } from './mutant.ts';

const run = 'run: makes a delayed job ready as a new version with its history';
const another = (from: string) =>
  `reschedule: gives a ${from} job another due time, as a new version with its history`;
const requeued = 'requeue: makes a dead letter ready as a new version; its alert stays owed';

export const verbMutants: readonly Mutant[] = [
  ...(['cancel', 'run', 'reschedule', 'requeue'] as const).map((verb) =>
    mutant(
      `${verb} ignores the version that its caller read`,
      `${verb}: leaves a job alone that has another version than its caller read`,
      (m) =>
        change(m, verb, (right) => (item: never, ...rest: never[]) => {
          const { version, ...key } = item as VersionedKey;
          return (right as (...args: unknown[]) => never)(key, ...rest);
        }),
    ),
  ),
  mutant('run keeps the version', run, (m) =>
    change(m, 'run', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      const version = job?.version ?? 0;
      const outcome = right(key);
      if (job !== undefined) job.version = version;
      return outcome;
    }),
  ),
  ...(['run', 'reschedule'] as const).map((verb) =>
    mutant(`${verb} starts the attempts again`, verb === 'run' ? run : another('delayed'), (m) =>
      change(m, verb, (right) => (item: never) => {
        const outcome = (right as (item: never) => never)(item);
        const job = m.jobs.get(m.nameOf(item));
        if (job !== undefined) Object.assign(job, { failures: 0, attempts: [] });
        return outcome;
      }),
    ),
  ),
  mutant('run makes a new origin', run, (m) =>
    change(m, 'makeAnew', (right) => (job, dueAt) => {
      right(job, dueAt);
      job.origin = job.version;
    }),
  ),
  mutant('run forgets the strikes', 'run: keeps the strikes', (m) =>
    change(m, 'run', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      if (job !== undefined) job.strikes = 0;
      return right(key);
    }),
  ),
  mutant('run moves an overdue job to the end', 'run: an overdue job stays before later ones', (m) =>
    change(m, 'run', () => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      if (job?.state !== 'delayed') return { kind: 'absent' };
      m.makeAnew(job, m.now());
      return { kind: 'run', version: job.version, dueAt: job.dueAt };
    }),
  ),
  mutant('run fires a reserved job again', 'run: changes nothing when the job is reserved', (m) =>
    change(m, 'run', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      if (job?.state === 'reserved') m.makeAnew(job, m.now());
      return right(key);
    }),
  ),
  mutant('run revives the dead', 'run: changes nothing when the job is dead', (m) =>
    change(m, 'run', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      if (job?.state === 'dead') m.revive(job);
      return right(key);
    }),
  ),
  mutant(
    'reschedule takes a job from its notifier',
    'reschedule: changes nothing when the job is reserved',
    (m) =>
      change(m, 'reschedule', (right) => (item) => {
        const job = m.jobs.get(m.nameOf(item));
        if (job?.state === 'reserved') m.makeReady(job);
        return right(item);
      }),
  ),
  mutant('reschedule revives the dead', 'reschedule: changes nothing when the job is dead', (m) =>
    change(m, 'reschedule', (right) => (item) => {
      const job = m.jobs.get(m.nameOf(item));
      if (job?.state === 'dead') m.revive(job);
      return right(item);
    }),
  ),
  mutant('reschedule leaves a ready job where it is', another('ready'), (m) =>
    change(m, 'reschedule', (right) => (item) => {
      const job = m.jobs.get(m.nameOf(item));
      if (job?.state !== 'ready') return right(item);
      return { kind: 'rescheduled', state: 'ready', version: job.version, dueAt: job.dueAt };
    }),
  ),
  mutant(
    'reschedule keeps the version, so old leases stay valid',
    'reschedule: a recovered lease finishes nothing afterwards',
    (m) =>
      change(m, 'makeAnew', () => (job, dueAt) => {
        m.remove(job);
        m.schedule(job, dueAt);
        m.jobs.set(m.nameOf(job), job);
      }),
  ),
  mutant(
    'reschedule into the past waits for the timer',
    'reschedule: makes a delayed job ready when its new time is past',
    (m) =>
      change(m, 'reschedule', (right) => (item) => {
        const outcome = right(item);
        const job = m.jobs.get(m.nameOf(item));
        if (job?.state === 'ready') job.state = 'delayed';
        return outcome;
      }),
  ),
  mutant('requeue of one keeps the failures', requeued, (m) =>
    change(m, 'revive', (right) => (job) => {
      const { failures } = job;
      right(job);
      job.failures = failures;
    }),
  ),
  mutant('requeue of one forgets the owed alert', requeued, (m) =>
    change(m, 'requeue', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      if (job?.state === 'dead') m.alerts.delete(job.version);
      return right(key);
    }),
  ),
  mutant('requeue of one starts a live job again', 'requeue: changes nothing when the job is delayed', (m) =>
    change(m, 'requeue', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      if (job?.state === 'delayed') m.revive(job);
      return right(key);
    }),
  ),
];
