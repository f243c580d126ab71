// The story of a job: accepted, due, each attempt with verdict, request and reply, what operators did, and what
// comes next. Its lines are the points of the timeline.

import { type ComponentChildren, Fragment } from 'preact';
import type { AttemptSampleJson } from '../../../contract/api/attempt.ts';
import type { AttemptJson, JobJson } from '../../../contract/api/job.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { PointDot, type TimelinePoint } from '../charts/timeline.tsx';
import { targetText } from '../commands.ts';
import { clock, dots, duration, preciseClock } from '../format.ts';
import { JsonView, readable } from '../parts/json-view.tsx';
import { Code, type Colour, Pill } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, type Word } from '../words/words.ts';

export const endOf = ({ startedAt, durationMs }: AttemptJson): number => Date.parse(startedAt) + durationMs;

/** `status 502`, `timeout`, `rule` */
export function failureText({ reason, status }: AttemptJson): string {
  if (reason === 'status' && status !== null) return t('op_status', { status });
  return reason ?? (status === null ? '' : String(status));
}

/** `502`, `timeout`, `rule`, `200` */
export const shortResult = ({ reason, status }: Pick<AttemptJson, 'reason' | 'status'>): string =>
  reason === null || reason === 'status' ? String(status ?? '') : reason;

/** Amber: a snooze, or the receiver answered with a status of a success, and the settings of the topic said no. */
export const attemptColour = ({ outcome, reason }: Pick<AttemptSampleJson, 'outcome' | 'reason'>): Colour => {
  if (outcome === 'delivered') return 'done';
  return outcome === 'again' || reason === 'rule' || reason === 'empty_reply' ? 'retry' : 'dead';
};

/** `points`: by time. Between two of them stands the requeue whose time is not known. */
export function Story({
  job,
  topic,
  points,
}: {
  job: JobJson;
  topic: TopicJson | null;
  points: readonly TimelinePoint[];
}) {
  const shown = storyOf(points);
  const last = job.attempts.at(-1);
  const earlier = job.attempts.findLast(({ beforeRequeue }) => beforeRequeue);
  return (
    <ol class="tries">
      {shown.map((point, n) => {
        const attempt = attemptAt(point, job);
        const key = `${point.kind} ${point.at.toString()}`;
        if (attempt === undefined) return <Mark key={key} point={point} before={shown[n - 1]} />;
        const isRequeued = attempt === earlier && shown[n + 1]?.kind !== 'move';
        return (
          <Fragment key={key}>
            <Attempt job={job} topic={topic} attempt={attempt} isOpen={attempt === last} />
            {isRequeued ? <Requeued /> : null}
          </Fragment>
        );
      })}
    </ol>
  );
}

/** Planned attempts are one row: the last one, which says what follows if all fail. */
const storyOf = (points: readonly TimelinePoint[]): readonly TimelinePoint[] =>
  points.filter(({ kind }, n) => kind !== 'now' && (kind !== 'planned' || n === points.length - 1));

const attemptAt = ({ kind, at }: TimelinePoint, { attempts }: JobJson): AttemptJson | undefined =>
  kind === 'failed' || kind === 'delivered'
    ? attempts.find(({ startedAt }) => Date.parse(startedAt) === at)
    : undefined;

function Mark({ point, before }: { point: TimelinePoint; before: TimelinePoint | undefined }) {
  const { kind, label, time, note, pill, at } = point;
  const waited =
    kind === 'due' && before !== undefined ? t('waited', { time: duration(at - before.at) }) : '';
  const isComing = kind === 'next' || kind === 'planned';
  return (
    <li class={isComing ? 'mark faint' : 'mark'}>
      <PointDot kind={kind} />
      <span>{label}</span>
      <Time class="num soft" at={at} text={isComing ? clock : preciseClock} />
      <span class="text">{dots(waited, kind === 'next' ? time : note)}</span>
      {isComing && pill !== undefined ? <Pill colour="quiet">{pill}</Pill> : null}
    </li>
  );
}

const Requeued = () => (
  <li class="mark">
    <PointDot kind="move" />
    <span class="nowrap">{t('flow_requeue')}</span>
    <span />
    <span class="text">{t('counts_again')}</span>
  </li>
);

function Attempt({
  job,
  topic,
  attempt,
  isOpen,
}: {
  job: JobJson;
  topic: TopicJson | null;
  attempt: AttemptJson;
  isOpen: boolean;
}) {
  return (
    <li>
      <details open={isOpen}>
        <summary>
          <svg class="icon s chev" aria-hidden="true">
            <use href="#i-chev" />
          </svg>
          <span class="nowrap">{t('attempt_n', { n: attempt.attempt })}</span>
          <time class="num soft">{preciseClock(Date.parse(attempt.startedAt))}</time>
          <span class="num soft">{duration(attempt.durationMs)}</span>
          <span class="text mono faint">
            {attempt.replyExcerpt === ''
              ? (attempt.detail ?? '')
              : readable(attempt.replyExcerpt).replaceAll('\n', ' ')}
          </span>
          <Pill colour={attemptColour(attempt)}>{shortResult(attempt) || t('job_done')}</Pill>
        </summary>
        <div class="detail">
          <Verdict attempt={attempt} topic={topic} />
          {topic === null || topic.delivery === 'pull' ? null : (
            <Request job={job} attempt={attempt} topic={topic} />
          )}
          {topic?.delivery === 'mq' ? null : (
            <Reply attempt={attempt} isWide={topic === null || topic.delivery === 'pull'} />
          )}
        </div>
      </details>
    </li>
  );
}

/** A text with parts of the page in the places of its {names}. */
function rich(key: Word, parts: Readonly<Record<string, ComponentChildren>>): ComponentChildren {
  return t(key)
    .split(/\{(\w+)\}/)
    .map((text, n) => (n % 2 === 0 ? text : (parts[text] ?? text)));
}

const mono = (text: string | number) => <span class="mono">{text}</span>;

function Verdict({ attempt, topic }: { attempt: AttemptJson; topic: TopicJson | null }) {
  const isDelivered = attempt.outcome === 'delivered';
  const late =
    attempt.latenessMs === undefined ? '' : ` · ${t('late_by', { time: duration(attempt.latenessMs) })}`;
  return (
    <div class="wide verdict">
      <Pill colour={attemptColour(attempt)}>
        {isDelivered ? t('job_done') : t('failed_reason', { reason: attempt.reason ?? '' })}
      </Pill>
      <span>
        {isDelivered
          ? attempt.status === null && topic?.delivery === 'mq'
            ? t('passed_confirmed')
            : rich('passed_status', { status: mono(attempt.status ?? '') })
          : whyFailed(attempt, topic)}
      </span>
      {attempt.nextDelayMs === undefined ? null : (
        <span class="soft">
          {t('next_wait', { time: duration(attempt.nextDelayMs) })}
          {attempt.nextBy === 'retry_after'
            ? ` (${t('asked_by_receiver')})`
            : typeof topic?.backoff === 'string'
              ? ` (${t('backoff_is', { backoff: topic.backoff })})`
              : ''}
        </span>
      )}
      <span class="faint">
        {t('attempt_by', { notifier: attempt.notifier, host: attempt.host })}
        {late}
      </span>
    </div>
  );
}

function whyFailed(attempt: AttemptJson, topic: TopicJson | null): ComponentChildren {
  const { reason, status, detail, ruleValues = {} } = attempt;
  if (reason === 'status') {
    const statuses = mono(topic?.okStatus.join(', ') ?? '2xx');
    const key = topic?.retryIf ? 'failed_status_rule' : 'failed_status';
    return rich(key, { status: mono(status ?? ''), statuses });
  }
  const values = Object.entries(ruleValues);
  if ((reason === 'rule' || reason === 'dead_rule') && values.length > 0)
    return rich(`failed_${reason}_values`, {
      values: values.map(([name, value], n) => (
        <>
          {n === 0 ? '' : ', '}
          {mono(`${name} = ${value}`)}
        </>
      )),
    });
  const sentence = reason === null ? '' : t(`failed_${reason}`);
  return detail === undefined ? (
    sentence
  ) : (
    <>
      {sentence} {mono(detail)}
    </>
  );
}

/** The request or message as far as it is known: the headers of dq. Method, URL and target are those of the
 *  topic today. */
function Request({ job, attempt, topic }: { job: JobJson; attempt: AttemptJson; topic: TopicJson }) {
  const isMessage = topic.delivery === 'mq';
  const signed: readonly (readonly [string, ComponentChildren])[] = [
    ['webhook-id', job.webhookId],
    ['webhook-timestamp', String(Math.floor(Date.parse(attempt.startedAt) / 1_000))],
    [
      'webhook-signature',
      <>
        v1,<span class="c">{t('new_each_attempt')}</span>
      </>,
    ],
  ];
  const lines: readonly (readonly [string, ComponentChildren])[] = [
    ...(job.contentType == null || topic.format !== 'raw'
      ? []
      : [['content-type', job.contentType] as const]),
    ...(isMessage ? [['message-id', job.webhookId] as const] : signed),
    ['dq-topic', job.topic],
    ['dq-job-id', isMessage ? job.id : encodeURIComponent(job.id)],
    ['dq-attempt', String(attempt.attempt)],
    ['dq-max-attempts', String(job.maxAttempts ?? topic.maxAttempts)],
    ...(attempt.traceparent === undefined ? [] : [['traceparent', attempt.traceparent] as const]),
  ];
  return (
    <div class={isMessage ? 'wide' : ''}>
      <h3>{t(isMessage ? 'message' : 'request')}</h3>
      <Code>
        <b>{isMessage ? 'PUBLISH' : topic.method}</b> {isMessage ? targetText(topic) : topic.callbackUrl}
        {lines.map(([name, value]) => (
          <>
            {'\n'}
            <span class="k">{name}:</span> {value}
          </>
        ))}
      </Code>
    </div>
  );
}

function Reply({ attempt, isWide }: { attempt: AttemptJson; isWide: boolean }) {
  const { status, replyHeaders = [], replyExcerpt, detail } = attempt;
  const text = readable(replyExcerpt);
  return (
    <div class={isWide ? 'wide' : ''}>
      <h3>
        {t('reply')}
        {status === null ? null : (
          <span class={attempt.outcome === 'delivered' ? 'tag good' : 'tag bad'}>{status}</span>
        )}
        <span class="tag">{duration(attempt.durationMs)}</span>
      </h3>
      {status === null ? (
        <p class="faint">{detail ?? t('no_reply_received')}</p>
      ) : replyHeaders.length === 0 && text === '' ? (
        <p class="faint">{t('empty_reply')}</p>
      ) : replyHeaders.length === 0 ? (
        <JsonView text={text} raw />
      ) : (
        <Code>
          {replyHeaders.map((header, n) => {
            const colon = header.indexOf(':');
            return (
              <>
                {n === 0 ? '' : '\n'}
                <span class="k">{header.slice(0, colon + 1)}</span>
                {header.slice(colon + 1)}
              </>
            );
          })}
          {text === '' ? '' : `\n\n${text}`}
        </Code>
      )}
    </div>
  );
}
