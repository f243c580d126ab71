// Mistakes of run, reschedule and requeue of one job.

import type { VersionedKey } from '../../../src/core/job.ts';
import { change, type Mutant, mutant, mutants } from './mutant.ts';

const run = 'run: makes a delayed job ready as a new version with its history';
const another = (from: string) =>
  `reschedule: gives a ${from} job another due time, as a new version with its history`;
const requeued = 'requeue: makes a dead letter ready as a new version; its alert stays owed';

export const verbMutants: readonly Mutant[] = [
  ...mutants({
    [run]: {
      'run keeps the version': change('run', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        const version = job?.version ?? 0;
        const outcome = right(key);
        if (job !== undefined) job.version = version;
        return outcome;
      }),
      'run makes a new origin': change('makeAnew', (right) => (job, dueAt) => {
        right(job, dueAt);
        job.origin = job.version;
      }),
    },
    'run: keeps the strikes': {
      'run forgets the strikes': change('run', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        if (job !== undefined) job.strikes = 0;
        return right(key);
      }),
    },
    'run: an overdue job stays before later ones': {
      'run moves an overdue job to the end': change('run', (_, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        if (job?.state !== 'delayed') return { kind: 'absent' };
        m.makeAnew(job, m.now());
        return { kind: 'run', version: job.version, dueAt: job.dueAt };
      }),
    },
    'run: changes nothing when the job is reserved': {
      'run fires a reserved job again': change('run', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        if (job?.state === 'reserved') m.makeAnew(job, m.now());
        return right(key);
      }),
    },
    'run: changes nothing when the job is dead': {
      'run revives the dead': change('run', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        if (job?.state === 'dead') m.revive(job);
        return right(key);
      }),
    },
    'reschedule: changes nothing when the job is reserved': {
      'reschedule takes a job from its notifier': change('reschedule', (right, m) => (item) => {
        const job = m.jobs.get(m.nameOf(item));
        if (job?.state === 'reserved') m.makeReady(job);
        return right(item);
      }),
    },
    'reschedule: changes nothing when the job is dead': {
      'reschedule revives the dead': change('reschedule', (right, m) => (item) => {
        const job = m.jobs.get(m.nameOf(item));
        if (job?.state === 'dead') m.revive(job);
        return right(item);
      }),
    },
    [another('ready')]: {
      'reschedule leaves a ready job where it is': change('reschedule', (right, m) => (item) => {
        const job = m.jobs.get(m.nameOf(item));
        if (job?.state !== 'ready') return right(item);
        return { kind: 'rescheduled', state: 'ready', version: job.version, dueAt: job.dueAt };
      }),
    },
    'reschedule: a recovered lease finishes nothing afterwards': {
      'reschedule keeps the version, so old leases stay valid': change('makeAnew', (_, m) => (job, dueAt) => {
        m.remove(job);
        m.schedule(job, dueAt);
        m.jobs.set(m.nameOf(job), job);
      }),
    },
    'reschedule: makes a delayed job ready when its new time is past': {
      'reschedule into the past waits for the timer': change('reschedule', (right, m) => (item) => {
        const outcome = right(item);
        const job = m.jobs.get(m.nameOf(item));
        if (job?.state === 'ready') job.state = 'delayed';
        return outcome;
      }),
    },
    [requeued]: {
      'requeue of one keeps the failures': change('revive', (right) => (job) => {
        const { failures } = job;
        right(job);
        job.failures = failures;
      }),
      'requeue of one forgets the owed alert': change('requeue', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        if (job?.state === 'dead') m.alerts.delete(job.version);
        return right(key);
      }),
    },
    'requeue: changes nothing when the job is delayed': {
      'requeue of one starts a live job again': change('requeue', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        if (job?.state === 'delayed') m.revive(job);
        return right(key);
      }),
    },
  }),
  ...(['cancel', 'run', 'reschedule', 'requeue'] as const).map((verb) =>
    mutant(
      `${verb} ignores the version that its caller read`,
      `${verb}: leaves a job alone that has another version than its caller read`,
      change(verb, (right) => (item: never, ...rest: never[]) => {
        const { version, ...key } = item as VersionedKey;
        return (right as (...args: unknown[]) => never)(key, ...rest);
      }),
    ),
  ),
  ...(['run', 'reschedule'] as const).map((verb) =>
    mutant(
      `${verb} starts the attempts again`,
      verb === 'run' ? run : another('delayed'),
      change(verb, (right, m) => (item: never) => {
        const outcome = (right as (item: never) => never)(item);
        const job = m.jobs.get(m.nameOf(item));
        if (job !== undefined) Object.assign(job, { failures: 0, attempts: [] });
        return outcome;
      }),
    ),
  ),
];
