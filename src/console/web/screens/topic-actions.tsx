// Actions on a topic and on jobs that several screens offer: each asks, calls, and says what was done.

import type { MovedJobJson } from '../../../contract/api/job.ts';
import { call, type Query, topicPath } from '../api/call.ts';
import { daemonNow } from '../api/session.ts';
import { durationMs } from '../backoff-waits.ts';
import { clock, number, relative } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { delayOrTime, isTime, rescheduleInput, type ShownJob, start } from '../parts/operations.tsx';
import { Code, CopyButton, toast } from '../parts/parts.tsx';
import { go, href } from '../router.ts';
import { t } from '../words/words.ts';

const setState = async (topic: string, verb: 'pause' | 'resume' | 'offline', done: () => void) => {
  await call('POST', topicPath(topic, verb));
  toast(t('done'));
  done();
};

export function askPause(topic: string, due: number, done = () => {}): void {
  ask({
    title: t('pause_question', { topic }),
    body: t('pause_text', { count: number(due) }),
    action: t('pause'),
    run: () => setState(topic, 'pause', done),
  });
}

export function askResume(topic: string, due: number, done = () => {}, concurrency?: number): void {
  ask({
    title: t('resume_question', { topic }),
    body:
      concurrency === undefined
        ? t('resume_text_short', { count: number(due) })
        : t('resume_text', { count: number(due), concurrency: number(concurrency) }),
    action: t('resume'),
    run: () => setState(topic, 'resume', done),
  });
}

export function askOffline(topic: string, jobs: number, done = () => {}): void {
  ask({
    title: t('offline_question', { topic }),
    body: t('offline_text', { count: number(jobs) }),
    action: t('take_offline'),
    danger: true,
    run: () => setState(topic, 'offline', done),
  });
}

/** Jobs of the topic are purged with it. */
export function askDelete(topic: string, jobs: number): void {
  ask({
    title: t('delete_question', { topic, count: number(jobs) }),
    body: t('delete_text', { topic }),
    action: t('delete_topic'),
    danger: true,
    typed: topic,
    run: async () => {
      await call('DELETE', topicPath(topic), { query: { jobs: jobs > 0 ? 'purge' : '' } });
      toast(t('done'));
      go(href('topics'));
    },
  });
}

/** Ends all jobs of the topic, dead letters too; the topic stays. */
export function askClear(topic: string, jobs: number): void {
  ask({
    title: t('clear_question', { topic, count: number(jobs) }),
    body: t('clear_text', { topic }),
    action: t('clear_jobs'),
    keep: t('keep_jobs'),
    danger: true,
    typed: topic,
    run: () => start([{ kind: 'clear', filter: { topic } }]),
  });
}

// Jobs

function jobCall(method: string, job: ShownJob, verb: readonly string[] = [], query: Query = {}) {
  const { topic, id, version } = job;
  const headers = { 'if-match': `"${version}"` };
  return call<MovedJobJson>(method, topicPath(topic, 'jobs', id, ...verb), { headers, query });
}

export async function runNow(job: ShownJob): Promise<void> {
  await jobCall('POST', job, ['run']);
  toast(t('toast_run'));
}

export async function requeueJob(job: ShownJob): Promise<void> {
  await jobCall('POST', job, ['requeue']);
  toast(t('toast_requeued', { count: 1 }));
}

export function askCancel(job: ShownJob, running: boolean, done = () => {}): void {
  ask({
    title: t('cancel_question'),
    body: t(running ? 'cancel_text_running' : 'cancel_text'),
    action: t('cancel_job'),
    keep: t('keep_job'),
    danger: true,
    run: async () => {
      await jobCall('DELETE', job);
      toast(t('job_cancelled'));
      done();
    },
  });
}

/** "10m" or a time → epoch ms by the daemon's clock; null: neither. */
export function dueOf(text: string): number | null {
  const value = text.trim();
  const waitMs = durationMs(value);
  if (waitMs !== null) return daemonNow() + waitMs;
  const at = isTime(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

/** "Due 14:42:09 (in 10 min)"; null: not known */
export const dueText = (at: number | null): string =>
  at === null ? '' : t('due_both', { clock: clock(at), time: relative(at) });

export function askReschedule(job: ShownJob, done = () => {}): void {
  ask({
    title: t('reschedule_question'),
    body: `${job.topic} · ${job.id}`,
    action: t('reschedule'),
    input: { ...rescheduleInput(), preview: (text) => dueText(dueOf(text)) },
    run: async (value) => {
      const { dueAt } = await jobCall('POST', job, ['reschedule'], delayOrTime(value));
      toast(t('toast_rescheduled', { time: relative(Date.parse(dueAt)) }));
      done();
    },
  });
}

/** A secret that dq made and shows once: its text, a button that copies it, and the warning. */
export function SecretOnce({ text }: { text: string }) {
  return (
    <div role="status">
      <div class="title">
        <Code isCut>{text}</Code>
        <CopyButton text={text} label={t('copy')} />
      </div>
      <p>
        <b>{t('secret_once')}</b>
      </p>
    </div>
  );
}
