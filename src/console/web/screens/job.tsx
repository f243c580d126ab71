// Job: where it is and why, its timeline, attempts, body and details.

import { useState } from 'preact/hooks';
import { type CallError, topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may } from '../api/session.ts';
import type { AttemptJson, JobJson, TopicJson } from '../api/types.ts';
import { Timeline, TimelineList, type TimelinePoint, timelineLegend } from '../charts/timeline.tsx';
import { bytes, clock, duration, exactClock, number, relative, useSecond, zone } from '../format.ts';
import { isJson, JsonView } from '../parts/json-view.tsx';
import {
  Card,
  CopyButton,
  Empty,
  Facts,
  Head,
  Icon,
  JobState,
  LoadError,
  Pill,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { go, hrefQuery } from '../router.ts';
import { waitsOf } from '../waits.ts';
import { t, wordOf } from '../words/words.ts';
import { askCancel, askReschedule, requeueJob, runNow } from './topic-actions.tsx';

/** Soon due or running: each second; else every 5 s. */
function everyMs(job: JobJson): number {
  const soon = job.state === 'delayed' && Date.parse(job.dueAt) - daemonNow() < 30_000;
  return soon || job.state === 'reserved' || job.state === 'ready' ? 1_000 : 5_000;
}

export function Job({ topic, id }: { topic: string; id: string }) {
  const poll = usePoll<JobJson>(topicPath(topic, 'jobs', id), everyMs);
  const settings = usePoll<TopicJson>(topicPath(topic), 10_000);
  const job = poll.data;
  if (job === null && poll.error?.status === 404)
    return (
      <>
        <Head title={id} sub={<TopicLink topic={topic} />} />
        <Card>
          <Empty>{poll.error.code === 'topic_not_found' ? t('topic_absent') : t('job_absent')}</Empty>
        </Card>
      </>
    );
  return (
    <>
      <Head
        sub={
          <>
            <TopicLink topic={topic} />
            {job === null ? null : ` · ${t('accepted_ago', { time: relative(Date.parse(job.createdAt)) })}`}
          </>
        }
        actions={job === null ? undefined : <Actions job={job} refresh={poll.refresh} />}
      >
        <div class="title">
          <h1 class="id">{id}</h1>
          <CopyButton text={id} label={t('copy_id')} />
          {job === null ? null : (
            <JobState state={job.state} attempt={job.attempt} topicState={settings.data?.state} />
          )}
        </div>
      </Head>
      <LoadError error={poll.error} what={t('job')} retry={poll.refresh} />
      {job === null ? <Waiting rows={8} /> : <Details job={job} topic={settings.data} />}
    </>
  );
}

function Actions({ job, refresh }: { job: JobJson; refresh: () => void }) {
  const key = { topic: job.topic, id: job.id };
  const act = (work: Promise<void>): void => {
    work.then(refresh, (error: CallError) => toast(error.message));
  };
  return (
    <>
      {job.state === 'delayed' && may('operate') ? (
        <button type="button" class="btn main" onClick={() => act(runNow(key))}>
          <Icon name="play" />
          {t('run_now')}
        </button>
      ) : null}
      {job.state === 'dead' && may('operate') ? (
        <button type="button" class="btn main" onClick={() => act(requeueJob(key))}>
          <Icon name="redo" />
          {t('requeue')}
        </button>
      ) : null}
      {job.state === 'delayed' && may('operate') ? (
        <button type="button" class="btn" onClick={() => askReschedule(key, refresh)}>
          <Icon name="clock" />
          {t('reschedule')}…
        </button>
      ) : null}
      {may('push') && job.body !== undefined ? (
        <button
          type="button"
          class="btn"
          onClick={() => go(hrefQuery(['push'], { topic: job.topic, from: job.id }))}
        >
          <Icon name="copy" />
          {t('push_again')}
        </button>
      ) : null}
      {job.endedAt === undefined && may('push') ? (
        <button
          type="button"
          class="btn danger"
          onClick={() => askCancel(key, job.state === 'reserved', refresh)}
        >
          <Icon name="x" />
          {t('cancel_job')}…
        </button>
      ) : null}
    </>
  );
}

/** The sentence that answers "where is my job?", and what was before. */
function headline(job: JobJson, topic: TopicJson | null): readonly [string, string] {
  const due = Date.parse(job.dueAt);
  const last = job.attempts.at(-1);
  const max = job.maxAttempts ?? job.attempt + 1;
  const next = job.attempt + 1;
  const before =
    last === undefined
      ? t('no_attempt_yet')
      : last.outcome === 'failed'
        ? t('last_failed', { reason: reasonText(last), time: relative(endOf(last)) })
        : '';
  const ended = job.endedAt === undefined ? '' : relative(Date.parse(job.endedAt));
  switch (job.state) {
    case 'delayed': {
      const values = { next, max, time: relative(due), clock: clock(due) };
      return [t(job.attempt === 0 ? 'why_delayed' : 'why_retry', values), before];
    }
    case 'ready':
      if (topic?.state === 'paused') return [t('why_held'), before];
      if (topic?.state === 'offline') return [t('why_held_offline'), before];
      return [t('why_ready'), before];
    case 'reserved':
      return [t('why_reserved', { next, max }), before];
    case 'dead':
      return [t('why_dead', { count: job.attempt }), before];
    case 'done':
      return [t('why_done', { count: job.attempt, time: ended }), ''];
    default:
      return [wordOf(`why_${job.state}`, job.state).replace('{time}', ended), before];
  }
}

const endOf = ({ startedAt, durationMs }: AttemptJson): number => Date.parse(startedAt) + durationMs;

function reasonText({ reason, status }: AttemptJson): string {
  if (reason === 'status' && status !== null) return `status ${status}`;
  return reason ?? (status === null ? '' : String(status));
}

const tone: Readonly<Record<JobJson['state'], string>> = {
  delayed: 'delayed',
  ready: 'ready',
  reserved: 'running',
  dead: 'dead',
  done: 'done',
  cancelled: 'quiet',
  purged: 'quiet',
  expired: 'quiet',
};

function Details({ job, topic }: { job: JobJson; topic: TopicJson | null }) {
  useSecond();
  const [first, second] = headline(job, topic);
  const points = pointsOf(job, topic);
  const colour = job.state === 'delayed' && job.attempt > 0 ? 'retry' : tone[job.state];
  return (
    <>
      <section class="card where" aria-label={t('state')}>
        <svg class="clock" viewBox="0 0 44 44" aria-hidden="true">
          <circle cx="22" cy="22" r="18" fill="none" class="stroke-quiet" stroke-width="3" opacity="0.35" />
          <path
            d="M22 4a18 18 0 0 1 15.6 27"
            fill="none"
            class={`stroke-${colour}`}
            stroke-width="3"
            stroke-linecap="round"
          />
          <path
            d="M22 12v10l6 4"
            fill="none"
            class={`stroke-${colour}`}
            stroke-width="2.5"
            stroke-linecap="round"
          />
        </svg>
        <div>
          <strong>{first}</strong>
          <span class="soft">{second}</span>
        </div>
        <CopyButton text={location.href} label={t('copy_link')}>
          {t('copy_link')}
        </CopyButton>
      </section>
      <Card
        title={t('timeline')}
        note={`${t('times_in', { zone: zone() })} · ${t('long_gaps')}`}
        end={timelineLegend()}
      >
        <div class="body desk">
          <Timeline points={points} label={`${first} ${second}`} />
        </div>
        <TimelineList points={points} />
      </Card>
      <div class="cols">
        <Card
          width={8}
          title={t('attempts')}
          note={t('attempts_note', { count: number(Math.max(job.attempts.length, 10)) })}
        >
          {job.attempts.length === 0 ? (
            <Empty>{t('no_attempt_yet')}</Empty>
          ) : (
            <ol class="tries">
              {[...job.attempts].reverse().map((attempt, n) => (
                <Attempt
                  key={attempt.attempt}
                  attempt={attempt}
                  open={n === 0}
                  dueAt={job.attempts.length === 1 ? Date.parse(job.dueAt) : null}
                />
              ))}
            </ol>
          )}
        </Card>
        <div class="c4 stack">
          <Body job={job} />
          <Card title={t('details')}>
            <div class="body">
              <Facts
                rows={[
                  [t('version'), job.version, true],
                  [t('accepted'), exactClock(Date.parse(job.createdAt))],
                  [t('first_due'), exactClock(Date.parse(job.dueAt))],
                  [t('attempts'), number(job.attempt)],
                  [t('maximum_attempts'), job.maxAttempts === null ? '–' : number(job.maxAttempts)],
                  ...(job.endedAt === undefined
                    ? []
                    : [[t('ended'), exactClock(Date.parse(job.endedAt))] as const]),
                ]}
              />
            </div>
          </Card>
        </div>
      </div>
    </>
  );
}

/** Past points from the record, future ones from the topic's backoff. */
function pointsOf(job: JobJson, topic: TopicJson | null): readonly TimelinePoint[] {
  const now = daemonNow();
  const due = Date.parse(job.dueAt);
  const ended = job.endedAt === undefined ? null : Date.parse(job.endedAt);
  const points: TimelinePoint[] = [
    { at: Date.parse(job.createdAt), kind: 'accepted', label: t('accepted') },
    ...job.attempts.map(
      (attempt): TimelinePoint => ({
        at: Date.parse(attempt.startedAt),
        kind: attempt.outcome === 'delivered' ? 'delivered' : 'failed',
        label: t('attempt_n', { n: attempt.attempt }),
        note: attempt.outcome === 'delivered' ? String(attempt.status ?? '') : reasonText(attempt),
      }),
    ),
  ];
  if (job.attempts.length === 0 && ended === null) points.push({ at: due, kind: 'due', label: t('due') });
  if (ended !== null) points.push({ at: ended, kind: 'ended', label: wordOf(`job_${job.state}`, job.state) });
  else if (job.state === 'dead') {
    const last = job.attempts.at(-1);
    points.push({ at: last === undefined ? due : endOf(last), kind: 'dead', label: t('dead_letter') });
  } else {
    points.push({ at: now, kind: 'now', label: t('now') });
    const max = job.maxAttempts ?? 0;
    const waits = topic === null ? [] : waitsOf(topic);
    let at = Math.max(due, now);
    for (let attempt = job.attempt + 1; attempt <= max && points.length < 16; attempt += 1) {
      if (attempt > job.attempt + 1) at += waits[attempt - 2] ?? 0;
      if (attempt > 1 || job.attempts.length > 0 || due > now)
        points.push({ at, kind: 'planned', label: t('attempt_n', { n: attempt }) });
      if (waits.length === 0) break;
    }
  }
  return points.sort((a, b) => a.at - b.at || (a.kind === 'due' ? -1 : 1));
}

function Attempt({ attempt, open, dueAt }: { attempt: AttemptJson; open: boolean; dueAt: number | null }) {
  const delivered = attempt.outcome === 'delivered';
  const short = delivered
    ? String(attempt.status ?? '')
    : attempt.reason === 'status'
      ? String(attempt.status)
      : (attempt.reason ?? '');
  const colour = delivered ? 'done' : attempt.reason === 'rule' ? 'retry' : 'dead';
  const lateMs = dueAt === null ? null : Date.parse(attempt.startedAt) - dueAt;
  return (
    <li>
      <details open={open}>
        <summary>
          <svg class="icon s chev" aria-hidden="true">
            <use href="#i-chev" />
          </svg>
          <span class="nowrap">{t('attempt_n', { n: attempt.attempt })}</span>
          <time class="num soft">{clock(Date.parse(attempt.startedAt))}</time>
          <span class="num soft">{duration(attempt.durationMs)}</span>
          <span class="text mono faint">{attempt.replyExcerpt}</span>
          <Pill colour={colour}>{short}</Pill>
        </summary>
        <div class="detail">
          <div class="wide verdict">
            <Pill colour={colour}>
              {delivered ? t('delivered') : t('failed_reason', { reason: reasonText(attempt) })}
            </Pill>
            <span class="faint">
              {t('attempt_by', { notifier: attempt.notifier, host: attempt.host })}
              {lateMs !== null && lateMs >= 0 ? ` · ${t('late_by', { time: duration(lateMs) })}` : ''}
            </span>
          </div>
          <div class="wide">
            <h3>
              {t('reply')}
              {attempt.status === null ? null : (
                <span class={delivered ? 'tag good' : 'tag bad'}>{attempt.status}</span>
              )}
              <span class="tag">{duration(attempt.durationMs)}</span>
            </h3>
            {attempt.replyExcerpt === '' ? (
              <p class="faint">{t('empty_reply')}</p>
            ) : (
              <JsonView text={attempt.replyExcerpt} raw />
            )}
          </div>
        </div>
      </details>
    </li>
  );
}

function Body({ job }: { job: JobJson }) {
  const [raw, setRaw] = useState(false);
  const text = job.body ?? job.bodyBase64;
  if (text === undefined)
    return (
      <Card title={t('body')}>
        <Empty>{t('no_body')}</Empty>
      </Card>
    );
  const size =
    job.body === undefined ? Math.floor((text.length * 3) / 4) : new TextEncoder().encode(text).length;
  return (
    <Card
      title={t('body')}
      note={`${bytes(size)}${job.contentType ? ` · ${job.contentType}` : ''}${job.body === undefined ? ' · base64' : ''}`}
      end={
        <>
          {job.body !== undefined && isJson(text) ? (
            <button type="button" class="btn plain s" onClick={() => setRaw(!raw)}>
              {t(raw ? 'formatted' : 'raw')}
            </button>
          ) : null}
          <CopyButton text={text} label={t('copy')} />
        </>
      }
    >
      <div class="body">
        <JsonView text={text} raw={raw} />
      </div>
    </Card>
  );
}
