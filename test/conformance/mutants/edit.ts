// Mistakes of edit.

import { withAgainOf } from '../../../src/core/extension.ts';
import { change, type Mutant, mutants } from './mutant.ts';

const requeued = 'edit with requeue: a dead letter is ready with the new content, in one step';
const kept = (state: string) => `edit: a ${state} job keeps its due time, failures and attempts`;

export const editMutants: readonly Mutant[] = mutants({
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
});
