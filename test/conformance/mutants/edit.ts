// Mistakes of edit.

import { withAgainOf } from '../../../src/core/extension.ts';
import { change, type Mutant, mutants } from './mutant.ts';

const requeued = 'edit with requeue: a dead letter is ready with the new content, in one step';
const kept = (state: string) => `edit: a ${state} job keeps its due time, failures and attempts`;

export const editMutants: readonly Mutant[] = mutants({
  'edit: changes nothing when the job is reserved': {
    'edit takes a job from its notifier': change('edit', (right, m) => (item) => {
      const job = m.jobs.get(m.nameOf(item));
      if (job?.state === 'reserved') m.makeReady(job);
      return right(item);
    }),
  },
  'edit: changes nothing when the job is dead': {
    'edit leaves a dead letter with a body that was never called': change('edit', (right, m) => (item) => {
      const job = m.jobs.get(m.nameOf(item));
      if (job?.state === 'dead') job.body = item.body;
      return right(item);
    }),
  },
  'edit with requeue: changes nothing when the job is delayed': {
    'edit with requeue starts a live job again': change('edit', (right, m) => (item) => {
      const isLive = m.jobs.get(m.nameOf(item))?.state === 'delayed';
      return right(isLive ? { ...item, requeue: false } : item);
    }),
  },
  'edit: leaves a job alone that has another version than its caller read': {
    'edit ignores the version that its caller read': change('edit', (right, m) => (item) => {
      const { version = item.version } = m.jobs.get(m.nameOf(item)) ?? {};
      return right({ ...item, version });
    }),
  },
  'edit: a job that is due is called with the new content only': {
    'edit keeps the body': change('renew', (right) => (job, item) => right(job, { ...item, body: job.body })),
  },
  'edit: webhook-id derives from the first origin, also after several edits and the end': {
    'edit keeps the origin': change('renew', (right) => (job, item) => {
      const { origin } = job;
      right(job, item);
      job.origin = origin;
    }),
    'the history has the origin of the last edit': change('end', (right, m) => (job, state) => {
      right(job, state);
      const ended = m.ended.get(m.nameOf(job));
      if (ended !== undefined) m.ended.set(m.nameOf(job), { ...ended, origin: job.origin });
    }),
  },
  'edit: keeps the number of snoozes that the job has by now': {
    'edit stores the number that its caller read': change('renew', (right, m) => (job, item) => {
      right(job, item);
      m.setOptions(job, item.extension);
    }),
  },
  'edit with requeue: the number of snoozes begins again': {
    'edit with requeue keeps the number of snoozes': change('renew', (right, m) => (job, item) => {
      const { extension = null } = job;
      right(job, item);
      m.setOptions(job, withAgainOf(extension, item.extension));
    }),
  },
  [kept('delayed')]: {
    'edit makes a delayed job due': change('renew', (right, m) => (job, item) => {
      right(job, { ...item, when: item.when ?? { at: m.now() } });
    }),
    'edit starts the attempts again': change('renew', (right) => (job, item) => {
      right(job, item);
      job.failures = 0;
    }),
  },
  [kept('ready')]: {
    'edit drops the attempts': change('renew', (right) => (job, item) => {
      right(job, item);
      job.attempts = [];
    }),
  },
  'edit: keeps the strikes': {
    'edit forgets the strikes': change('renew', (right) => (job, item) => {
      right(job, item);
      job.strikes = 0;
    }),
  },
  [requeued]: {
    'edit with requeue keeps the failures': change('renew', (right) => (job, item) => {
      const { failures } = job;
      right(job, item);
      if (item.requeue) job.failures = failures;
    }),
    'edit with requeue forgets the owed alert': change('renew', (right, m) => (job, item) => {
      if (item.requeue) m.alerts.delete(job.version);
      right(job, item);
    }),
  },
  'edit: a job moves to the priority of its topic': {
    'edit keeps the priority': change(
      'renew',
      (right) => (job, item) => right(job, { ...item, priority: job.priority }),
    ),
  },
});
