// Job: where it is and why, its timeline, attempts, body and details.

import { useState } from 'preact/hooks';
import type { JobJson, JobSummaryJson } from '../../../contract/api/job.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import { type EndState, endStates } from '../../../core/job.ts';
import { heldOf, isHeld } from '../../../core/job-why.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { call, topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may } from '../api/session.ts';
import { Timeline, timelineLegend } from '../charts/timeline.tsx';
import { backoffText, curlOf } from '../commands.ts';
import { clock, dots, duration, exactClock, number, relative, useSecond, zone } from '../format.ts';
import {
  Button,
  Card,
  CopyButton,
  copyText,
  Empty,
  errorText,
  type Fact,
  Facts,
  Head,
  JobLink,
  JobState,
  jobColours,
  LoadError,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { reasonText } from '../parts/topic-state.tsx';
import { go, hrefQuery } from '../router.ts';
import { t, type Word } from '../words/words.ts';
import { endOf, failureText, Story } from './job-attempts.tsx';
import { JobBody, JobEdit } from './job-body.tsx';
import { JobFlow, pointsOf, useJobMarks } from './job-flow.tsx';
import { askCancel, askReschedule, requeueJob, runNow } from './topic-actions.tsx';

/** Soon due or running: each second; else every 5 s. */
function everyMs(job: JobJson): number {
  const soon = job.state === 'delayed' && Date.parse(job.dueAt) - daemonNow() < 30_000;
  return soon || job.state === 'reserved' || job.state === 'ready' ? 1_000 : 5_000;
}

export function Job({ topic, id }: { topic: string; id: string }) {
  useSecond();
  const poll = usePoll<JobJson>(topicPath(topic, 'jobs', id), everyMs);
  const settings = usePoll<TopicJson>(topicPath(topic), 10_000);
  const [isEdited, setEdited] = useState(false);
  const job = poll.data;
  if (job === null && poll.error?.status === 404)
    return <Absent topic={topic} id={id} isKnown={poll.error.code !== 'topic_not_found'} />;
  return (
    <>
      <Head
        sub={
          <>
            <TopicLink topic={topic} />
            {job === null ? null : (
              <>
                {' · '}
                <Time at={job.createdAt} text={(ms) => t('accepted_ago', { time: relative(ms) })} />
              </>
            )}
          </>
        }
        actions={
          job === null ? undefined : <Actions job={job} refresh={poll.refresh} edit={() => setEdited(true)} />
        }
      >
        <div class="title">
          <h1 class="id">{id}</h1>
          <CopyButton text={id} label={t('copy_id')} />
          {job === null ? null : <JobState state={job.state} attempt={job.attempt} held={heldOf(job.why)} />}
        </div>
      </Head>
      <LoadError error={poll.error} what={t('job')} retry={poll.refresh} />
      {job !== null && isEdited ? (
        <JobEdit job={job} close={() => setEdited(false)} refresh={poll.refresh} />
      ) : null}
      {job === null ? <Waiting rows={8} error={poll.error} /> : <Details job={job} topic={settings.data} />}
    </>
  );
}

/** The answer to an id without a job: whether the topic is known, and ids that begin alike. */
function Absent({ topic, id, isKnown }: { topic: string; id: string; isKnown: boolean }) {
  const alike = usePoll<PageOf<JobSummaryJson>>('/v1/jobs', 60_000, { topic, idPrefix: id, limit: '5' });
  const items = alike.data?.items ?? [];
  return (
    <>
      <Head title={id} sub={<TopicLink topic={topic} />} />
      <Card>
        <Empty>
          {isKnown ? '' : `${t('topic_absent')} `}
          {t('job_absent')} {t('search_request_logs')}
        </Empty>
      </Card>
      <JobFlow topic={topic} id={id} isOptional />
      {items.length === 0 ? null : (
        <Card title={t('ids_alike')}>
          <ul class="list">
            {items.map((job) => (
              <li key={job.id}>
                <JobState {...job} />
                <span class="grow">
                  <JobLink topic={job.topic} id={job.id} />
                </span>
                <Time class="faint num" at={job.dueAt} />
              </li>
            ))}
          </ul>
        </Card>
      )}
    </>
  );
}

function Actions({ job, refresh, edit }: { job: JobJson; refresh: () => void; edit: () => void }) {
  const key = { topic: job.topic, id: job.id, version: job.version };
  const act = (work: Promise<void>): void => {
    work.then(refresh, (error: unknown) => toast(errorText(error)));
  };
  const waits = job.state === 'delayed' || job.state === 'ready';
  const canEdit = job.state === 'dead' && may('operate') && may('push') && job.body !== undefined;
  return (
    <>
      {job.state === 'delayed' && may('operate') ? (
        <Button look="main" icon="play" onClick={() => act(runNow(key))}>
          {t('run_now')}
        </Button>
      ) : null}
      {job.state === 'dead' && may('operate') ? (
        <Button look="main" icon="redo" onClick={() => act(requeueJob(key))}>
          {t('requeue')}
        </Button>
      ) : null}
      {waits && may('operate') ? (
        <Button icon="clock" onClick={() => askReschedule(key, refresh)}>
          {t('reschedule')}…
        </Button>
      ) : null}
      {canEdit ? (
        <Button icon="pen" onClick={edit}>
          {t('edit_requeue')}…
        </Button>
      ) : null}
      {may('push') && job.body !== undefined && !canEdit ? (
        <Button icon="copy" onClick={() => go(hrefQuery(['push'], { topic: job.topic, from: job.id }))}>
          {t('push_again')}
        </Button>
      ) : null}
      {job.endedAt === undefined && may('push') ? (
        <Button look="danger" icon="x" onClick={() => askCancel(key, job.state === 'reserved', refresh)}>
          {t('cancel_job')}…
        </Button>
      ) : null}
    </>
  );
}

/** The sentence that answers "where is my job?". */
function headline({ why, state, attempt, maxAttempts, ...job }: JobJson): string {
  const at = Date.parse(why.at ?? job.dueAt);
  const values = {
    next: attempt + 1,
    max: maxAttempts ?? attempt + 1,
    count: number(attempt),
    time: relative(at),
    clock: clock(at),
  };
  switch (why.code) {
    case 'waits_until_due':
    case 'waits_to_retry':
      // Due meanwhile: the next answer says what holds it.
      if (at <= daemonNow()) return t('here_due');
      return t(why.held === undefined ? `here_${why.code}` : 'here_due_later', values);
    case 'waits_again':
      if (at <= daemonNow()) return t('here_due');
      return t('here_waits_again', { ...values, count: number(job.again ?? 0) });
    case 'not_promoted':
      return t('here_not_promoted', values);
    case 'ahead':
      if (why.ahead == null) return t('here_soon');
      return why.ahead === 0 ? t('here_next') : t('here_ahead', { count: countOf(why.ahead) });
    case 'running':
      return t('here_running', { ...values, time: duration(daemonNow() - Date.parse(why.since ?? '')) });
    case 'dead':
      if (job.deadReason === undefined) return t('here_dead', values);
      return t(`here_dead_${job.deadReason}`, values, t('here_dead'));
    case 'ended':
      return isEnd(state) ? t(`here_${state}`, values) : t('here_unknown');
    default:
      return t(`here_${why.code}`, values, t('here_unknown'));
  }
}

const isEnd = (state: JobJson['state']): state is EndState => endStates.some((end) => end === state);

/** What explains it: a later hold, the notifiers' reasons, the last failure. */
function explanation(job: JobJson): string {
  const { why } = job;
  const last = job.attempts.at(-1);
  const parts = [
    why.held === undefined ? '' : t(`then_${why.held}`),
    why.code !== 'ahead' && typeof why.ahead === 'number' && why.ahead > 0
      ? t('jobs_first', { count: countOf(why.ahead) })
      : '',
    sentenceOf((why.reasons ?? []).map((reason) => reasonText(reason).message)),
    typeof why.notifier === 'string' ? t('called_by', { notifier: why.notifier }) : '',
    why.code === 'dead' ? t('dead_since_time', { time: relative(Date.parse(why.at ?? job.dueAt)) }) : '',
    last === undefined
      ? job.state === 'delayed' || job.state === 'ready'
        ? t('no_attempt_yet')
        : ''
      : last.outcome === 'failed'
        ? t('last_failed', { reason: failureText(last), time: relative(endOf(last)) })
        : '',
  ];
  return parts.filter((part) => part !== '').join(' ');
}

/** The server counts up to 1,000. */
const countOf = (ahead: number): string => (ahead < 1_000 ? number(ahead) : `≥ ${number(ahead)}`);

/** The words of the server, which are English. */
function sentenceOf(parts: readonly string[]): string {
  const text = parts.join('; ');
  return text === '' ? '' : `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** Hands of a clock for a job that waits or runs; a mark for one that does not. */
const faces: Readonly<Partial<Record<JobJson['state'], string>>> = {
  dead: 'M16 16l12 12m0-12-12 12',
  done: 'M14 23l6 6 11-13',
  cancelled: 'M15 22h14',
  purged: 'M15 22h14',
  expired: 'M15 22h14',
};

function Details({ job, topic }: { job: JobJson; topic: TopicJson | null }) {
  const first = headline(job);
  const points = pointsOf(job, useJobMarks(job.topic, job.id));
  const hasCurl = may('operate') && job.bytes !== undefined && topic?.delivery === 'push';
  return (
    <>
      <section class="card where" aria-label={t('state')}>
        <Face job={job} />
        <div>
          <strong>
            {/^(waits_|not_promoted|ended)/.test(job.why.code) ? (
              <Time at={job.why.at ?? job.dueAt} text={() => first} />
            ) : (
              first
            )}
          </strong>
          <span class="soft">{explanation(job)}</span>
        </div>
        <CopyButton text={location.href} label={t('copy_link')} icon="link">
          {t('copy_link')}
        </CopyButton>
      </section>
      <div class="desk">
        <Card
          title={t('timeline')}
          note={dots(t('times_in', { zone: zone() }), t('long_gaps'))}
          end={timelineLegend()}
          look="body"
        >
          <Timeline points={points} label={`${first} ${explanation(job)}`} />
        </Card>
      </div>
      <div class="cols">
        <Card
          width={8}
          title={t('story')}
          note={t('story_note')}
          end={hasCurl ? <CurlButton job={job} /> : undefined}
        >
          <Story job={job} topic={topic} points={points} />
        </Card>
        <div class="c4 stack">
          <JobBody job={job} />
          <Card title={t('details')} look="body">
            <Facts rows={factsOf(job)} />
          </Card>
        </div>
      </div>
      <JobFlow topic={job.topic} id={job.id} />
    </>
  );
}

function Face({ job }: { job: JobJson }) {
  const isHeldNow = job.state === 'ready' && isHeld(job.why);
  const colour = (job.state === 'delayed' && job.attempt > 0) || isHeldNow ? 'retry' : jobColours[job.state];
  const face = faces[job.state];
  const line = { fill: 'none', class: `stroke-${colour}`, 'stroke-linecap': 'round' } as const;
  return (
    <svg class="clock" viewBox="0 0 44 44" aria-hidden="true">
      <circle cx="22" cy="22" r="18" fill="none" class="stroke-quiet" stroke-width="3" opacity="0.35" />
      <path
        d={face === undefined ? 'M22 4a18 18 0 0 1 15.6 27' : 'M22 4a18 18 0 1 1-.1 0'}
        stroke-width="3"
        {...line}
      />
      <path d={face ?? 'M22 12v10l6 4'} stroke-width="2.5" stroke-linejoin="round" {...line} />
    </svg>
  );
}

const exact = (at: string) => <Time at={at} text={exactClock} />;

function factsOf(job: JobJson): readonly Fact[] {
  const { maxAttempts, attempt, deadline, backoff, deadAt, deadReason, endedAt, keptUntil, shard } = job;
  return [
    [t('version'), job.version, true],
    ['webhook-id', job.webhookId, true],
    job.traceparent !== undefined && ['traceparent', job.traceparent, true],
    [t('accepted'), exact(job.createdAt)],
    [t('due'), exact(job.dueAt)],
    [t('attempts'), maxAttempts === null ? number(attempt) : t('n_of_max', { n: attempt, max: maxAttempts })],
    deadline !== undefined && [t('deadline'), exact(deadline)],
    backoff !== undefined && [t('own_backoff'), backoffText(backoff), true],
    deadAt !== undefined && [t('dead_since'), exact(deadAt)],
    deadReason !== undefined && [t('dead_reason'), t(`bury_${deadReason}`)],
    job.alert != null && [t('alert_mail'), t(`alert_${job.alert}`)],
    endedAt !== undefined && [t('ended'), exact(endedAt)],
    keptUntil !== undefined && [t('kept_for'), keptFor(keptUntil)],
    job.again !== undefined && [t('snoozes'), number(job.again)],
    job.strikes !== undefined && [t('strikes'), number(job.strikes)],
    shard != null && [t('shard'), shard, true],
  ];
}

/** How long dq keeps a dead or ended job from now on, and until when. */
function keptFor(until: string) {
  return (
    <>
      {duration(Math.max(0, Date.parse(until) - daemonNow()))} · {exact(until)}
    </>
  );
}

/** Copies the callback as dq would send it now. */
function CurlButton({ job }: { job: JobJson }) {
  const copy = async (from: Element): Promise<void> => {
    try {
      const path = topicPath(job.topic, 'jobs', job.id, 'request');
      await copyText(curlOf(await call('POST', path)), from);
    } catch (error) {
      toast(errorText(error));
    }
  };
  return (
    <Button look="plain s" icon="copy" onClick={(event) => void copy(event.currentTarget)}>
      {t('copy_as_curl' as Word)}
    </Button>
  );
}
