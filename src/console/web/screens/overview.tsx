// Overview: open problems, totals, topics that need attention with what to press, and what happened in the
// chosen range. Totals and topics come from the summary that the shell polls: the page judges nothing. Sessions of some topics see no series of all topics.

import { useEffect, useState } from 'preact/hooks';
import type { AlertsJson } from '../../../contract/api/alert.ts';
import type { SeriesColumn, SeriesJson } from '../../../contract/api/series.ts';
import type { SummaryJson, TopicAttentionJson } from '../../../contract/api/stats.ts';
import { problemWord } from '../../../core/capacity-reasons.ts';
import { figuresNewMs } from '../../../core/duration.ts';
import { usePoll } from '../api/poll.ts';
import { may, me, summary, topicCount } from '../api/session.ts';
import { Horizon } from '../charts/horizon.tsx';
import { Spark } from '../charts/spark.tsx';
import {
  dots,
  duration,
  durationParts,
  number,
  percent,
  relative,
  shortNumber,
  useSecond,
  zone,
} from '../format.ts';
import { Incidents } from '../parts/incidents.tsx';
import { List } from '../parts/list.tsx';
import { askRequeue } from '../parts/operations.tsx';
import {
  Button,
  Card,
  DeadCount,
  Empty,
  Head,
  LoadError,
  Loaded,
  NewTopicLink,
  Pill,
  Strip,
  type TileFacts,
  Tiles,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { lateText, reasonText, TopicState, waiting, waitingText } from '../parts/topic-state.tsx';
import { go, href, hrefQuery } from '../router.ts';
import { serverText, t } from '../words/words.ts';
import {
  FailedAttempts,
  isAbsent,
  Lateness,
  RangeChoice,
  rangeOf,
  reasonName,
  Throughput,
  useSeries,
} from './series-cards.tsx';
import { askPause, askResume } from './topic-actions.tsx';

export function Overview() {
  const { value } = summary;
  if (value !== null && topicCount(value) === 0) return <FirstSteps />;
  return <Figures data={value} />;
}

function Figures({ data }: { data: SummaryJson | null }) {
  const range = rangeOf();
  const series = useSeries(range);
  const isShown = !isAbsent(series.error);
  return (
    <>
      <Head
        title={t('overview')}
        sub={
          isShown
            ? t('range_sub', { range: t(`last_${range}`), zone: zone() })
            : t('times_in', { zone: zone() })
        }
        actions={isShown ? <RangeChoice value={range} /> : undefined}
      />
      {data === null ? null : <Strips {...data} />}
      <LoadError error={isShown ? series.error : null} what={t('throughput')} retry={series.refresh} />
      {data === null ? (
        <Waiting rows={2} />
      ) : (
        <Tiles label={t('overview')} tiles={isShown ? tilesOf(data, series.data) : tilesOfToday(data)} />
      )}
      {data === null ? null : <Troubles {...data} />}
      <div class="cols">
        {isShown ? (
          <>
            <Throughput series={series.data} />
            <Lateness series={series.data} width={4} />
          </>
        ) : null}
        <Horizon topic={null} />
        {isShown ? <FailedAttempts series={series.data} /> : null}
        <RecentEvents />
      </div>
    </>
  );
}

function FirstSteps() {
  const leads = may('admin');
  useEffect(() => {
    if (leads) go(href('first'), true);
  }, [leads]);
  if (leads) return null;
  return (
    <>
      <Head title={t('overview')} sub={t('topics_empty')} actions={<NewTopicLink />} />
      <Card>
        <Empty>{t('topics_sub')}</Empty>
      </Card>
    </>
  );
}

/** Of the steps that are over. */
const finished = (series: SeriesJson | null, name: 'pushed' | 'delivered'): SeriesColumn =>
  series === null ? [] : series.unfinished ? series[name].slice(0, -1) : series[name];

/** Of the newest recorded step, per minute; null: none. */
function newest(series: SeriesJson | null, name: 'pushed' | 'delivered'): number | null {
  const value = finished(series, name).findLast((one) => one !== null) ?? null;
  return series === null || value === null ? null : (value * 60) / series.step;
}

const perMinute = (value: number | null): string =>
  value === null ? '–' : value < 10 ? number(Math.round(value * 10) / 10) : shortNumber(Math.round(value));

function tilesOf(data: SummaryJson, series: SeriesJson | null): readonly TileFacts[] {
  const totals = series?.totals;
  const spark = (name: 'ready' | 'delayed' | 'dead', colour: 'retry' | 'delayed' | 'dead') => (
    <Spark values={series?.states[name] ?? []} colour={colour} label={t('state')} />
  );
  const first = totals === undefined || totals.firstAttempts === 0 ? null : totals;
  const success = first === null ? null : first.firstDelivered / first.firstAttempts;
  const { p50 = null, p99 = null, max = null } = totals?.lateness ?? {};
  const [due, delayed, dead] = storedTiles(data);
  return [
    {
      name: 'delivered',
      value: perMinute(newest(series, 'delivered')),
      ...(newest(series, 'delivered') === null ? {} : { unit: t('per_minute') }),
      how:
        series === null || newest(series, 'pushed') === null
          ? t('no_attempts_5m')
          : t('pushed_n', {
              count: perMinute(newest(series, 'pushed')),
              time: duration(series.step * 1_000),
            }),
      spark: <Spark values={finished(series, 'delivered')} colour="done" label={t('delivered')} />,
      to: href('topics'),
    },
    {
      name: 'first_attempt_success',
      value: success === null ? '–' : percent(success),
      ...(success === null ? {} : { unit: '%' }),
      how: first === null ? t('no_attempts_5m') : t('of_first', { count: shortNumber(first.firstAttempts) }),
      to: href('topics'),
      tone: success !== null && success < 0.95 ? 'warn' : undefined,
    },
    {
      name: 'lateness_p99',
      ...(p99 === null ? { value: '–' } : durationParts(p99)),
      how:
        p50 === null || max === null
          ? t('no_attempts_5m')
          : t('lateness_how', { p50: duration(p50), max: duration(max) }),
      to: hrefQuery(['jobs'], { state: 'ready' }),
      tone: p99 !== null && p99 > 60_000 ? 'warn' : undefined,
    },
    { ...due, spark: spark('ready', 'retry') },
    { ...delayed, spark: spark('delayed', 'delayed') },
    { ...dead, spark: spark('dead', 'dead') },
  ];
}

function storedTiles({ states, today, oldestOverdueMs }: SummaryJson): [TileFacts, TileFacts, TileFacts] {
  const overdue = oldestOverdueMs !== null && oldestOverdueMs > 1_000;
  return [
    {
      name: 'due_now',
      value: shortNumber(states.ready),
      how: overdue ? t('oldest_overdue', { time: duration(oldestOverdueMs) }) : t('nothing_overdue'),
      to: hrefQuery(['jobs'], { state: 'ready' }),
      tone: overdue ? 'warn' : undefined,
    },
    {
      name: 'delayed',
      value: shortNumber(states.delayed),
      how: t('delayed_how'),
      to: hrefQuery(['jobs'], { state: 'delayed' }),
    },
    {
      name: 'dead_letters',
      value: shortNumber(states.dead),
      how: t('dead_today', { count: number(today.dead) }),
      to: href('dead'),
      tone: states.dead > 0 ? 'bad' : undefined,
    },
  ];
}

function tilesOfToday(data: SummaryJson): readonly TileFacts[] {
  const { states, today } = data;
  return [
    {
      name: 'delivered_today',
      value: shortNumber(today.delivered),
      how: t('of_pushed', { count: shortNumber(today.pushed) }),
      to: href('topics'),
    },
    {
      name: 'retried_today',
      value: shortNumber(today.retried),
      how: t('retried_how'),
      to: href('topics'),
      tone: today.retried > 0 ? 'warn' : undefined,
    },
    {
      name: 'in_flight',
      value: shortNumber(states.reserved),
      how: t('in_flight_how'),
      to: hrefQuery(['jobs'], { state: 'reserved' }),
    },
    ...storedTiles(data),
  ];
}

/** Lines that a screen of 1280 × 800 has room for, below the totals. */
const troublesShown = 5;

function Troubles(data: SummaryJson) {
  const { attention, attentionCount, at, now } = data;
  const ageMs = Date.parse(now) - Date.parse(at);
  const [isWhole, setWhole] = useState(false);
  useSecond();
  const lines = isWhole ? attention : attention.slice(0, troublesShown);
  return (
    <Card
      title={t('attention')}
      note={dots(
        attentionCount > 0 && number(attentionCount),
        ageMs >= figuresNewMs && t('figures_of', { time: duration(ageMs) }),
      )}
      end={
        <a class="btn plain s" href={href('topics')}>
          {t('all_topics', { count: number(topicCount(data)) })}
        </a>
      }
    >
      <List
        items={lines}
        empty={t('attention_none')}
        more={lines.length < attention.length ? () => setWhole(true) : null}
        moreCount={attention.length - lines.length}
        keyOf={({ topic }) => topic}
        columns={{
          topic: {
            head: t('topic'),
            look: 'cut',
            width: 'w3',
            cell: ({ topic, title }) => (
              <span class="two">
                <a class="name" href={href('topics', topic)}>
                  {topic}
                </a>
                <small>{title}</small>
              </span>
            ),
            card: ({ topic }) => (
              <a class="name" href={href('topics', topic)}>
                {topic}
              </a>
            ),
          },
          problem: {
            head: t('problem'),
            look: 'cut',
            width: 'w3',
            cell: (line) => (
              <span class="two">
                <span>
                  <Trouble {...line} />
                </span>
                <small>{causeOf(line)}</small>
              </span>
            ),
            card: Trouble,
          },
          since: {
            head: t('since'),
            look: 'nowrap',
            isNamed: true,
            cell: Since,
          },
          waiting: {
            head: t('jobs_wait'),
            look: 'right nowrap',
            isNamed: true,
            cell: ({ topic, states }) => (
              <span class="two">
                <a href={hrefQuery(['jobs'], { topic })}>{number(waiting(states))}</a>
                <small class="num">{waitingText(states)}</small>
              </span>
            ),
            card: ({ states }) => waitingText(states),
          },
          late: {
            head: t('late_time'),
            look: 'right nowrap',
            isNamed: true,
            cell: Late,
            card: lateText,
          },
          dead: {
            head: t('dead_letters'),
            look: 'right',
            isNamed: true,
            cell: ({ topic, states }) => <DeadCount topic={topic} value={states.dead} />,
          },
          act: { head: null, look: 'right nowrap', cell: Remedy },
          cause: { head: '', isOff: true, cell: causeOf },
        }}
        card={{
          row: ['topic', 'problem'],
          soft: ['cause', 'since'],
          faint: ['waiting', 'late', 'dead'],
          act: ['act'],
        }}
      />
    </Card>
  );
}

/** Of a held topic dq knows the last change of its record. */
function Since(line: TopicAttentionJson) {
  const { since } = line;
  if (since === null) return <>–</>;
  const first = problemWord(line);
  const isLeast = first === 'paused' || first === 'offline';
  const text = (at: number) => (isLeast ? t('at_least', { time: relative(at) }) : relative(at));
  return <Time at={since} text={text} />;
}

function Trouble(line: TopicAttentionJson) {
  if (problemWord(line) === 'dead_letters') return <Pill colour="dead">{t('dead_letters')}</Pill>;
  return <TopicState {...line} />;
}

/** What the last failure said, what the notifiers say about the oldest job, or of what jobs died. */
function causeOf(line: TopicAttentionJson): string {
  const { failure, oldest, dead, states } = line;
  const first = problemWord(line);
  const [said] = oldest?.says ?? [];
  if (first === 'dead_letters') return dead === null ? '' : deathText(dead, states.dead);
  const failed = failure?.reason == null ? '' : reasonName(failure.reason, failure.status);
  const why = said === undefined ? '' : reasonText(said).message;
  if (first === 'not_pulled' || first === 'unreadable') return t(`cause_${first}`);
  return first === 'late' || first === 'unknown_broker' ? why || failed : failed || why;
}

/** `all`: dead letters of the topic */
function deathText(dead: NonNullable<TopicAttentionJson['dead']>, all: number): string {
  const { deadReason, lastReason, status, count } = dead;
  const last = lastReason === null ? '' : reasonName(lastReason, status);
  const cause =
    last !== '' && (deadReason === 'attempts_exhausted' || deadReason === 'gone')
      ? last
      : dots(t(`bury_${deadReason}`), lastReason !== deadReason && last);
  return count < all ? t('some_of_them', { count: number(count), cause }) : cause;
}

/** It leads to the job. Where none is due, it says when the next one is. */
function Late(line: TopicAttentionJson) {
  const { topic, late, oldest, next } = line;
  const id = late?.id ?? next?.id;
  if (id === undefined) return <>–</>;
  const link = <a href={href('jobs', topic, id)}>{lateText(line) ?? '–'}</a>;
  if (oldest !== null || next === null) return link;
  return (
    <span class="two">
      {link}
      <small class="num">{t('next_due', { time: relative(Date.parse(next.dueAt)) })}</small>
    </span>
  );
}

/** What to press. */
function Remedy(line: TopicAttentionJson) {
  const { topic, state, states } = line;
  const first = problemWord(line);
  if (first === 'failing' || first === 'late')
    return (
      <>
        <a class="btn s" href={href('topics', topic, 'attempts')}>
          {t('attempts')}
        </a>
        {!may('operate') ? null : state === 'active' ? (
          <Button look="s" icon="pause" onClick={() => askPause(topic, states.ready)}>
            {t('pause')}…
          </Button>
        ) : (
          <ResumeButton topic={topic} due={states.ready} />
        )}
      </>
    );
  if (first === 'not_pulled' || first === 'unknown_broker' || first === 'unreadable')
    return (
      <a class="btn s" href={first === 'unreadable' ? href('doctor') : href('topics', topic)}>
        {t(first === 'unreadable' ? 'doctor' : 'why_not_called')}
      </a>
    );
  if (!may('operate')) return null;
  if (first === 'dead_letters')
    return (
      <Button look="s" icon="redo" onClick={() => askRequeue([{ topic }], topic, states.dead)}>
        {t('requeue')}…
      </Button>
    );
  if (first === 'not_registered') return may('admin') ? <NewTopicLink /> : null;
  return <ResumeButton topic={topic} due={states.ready} />;
}

const ResumeButton = ({ topic, due }: { topic: string; due: number }) => (
  <Button look="s" icon="play" onClick={() => askResume(topic, due)}>
    {t('resume')}…
  </Button>
);

const eventsShown = 6;

/** Begins and ends of incidents, newest first. Sessions of some topics may not read them. */
function RecentEvents() {
  const path = me()?.topics.includes('*') && may('read') ? '/v1/alerts' : null;
  const poll = usePoll<AlertsJson>(path, 15_000, { limit: '1' });
  if (path === null) return null;
  return (
    <Card
      width={12}
      title={t('recent_events')}
      end={
        <a class="btn plain s" href={hrefQuery(['alerts'], { all: '1' })}>
          {t('alerts')}
        </a>
      }
    >
      <Loaded from={poll} what={t('recent_events')} rows={2}>
        {({ incidents }) => (
          <Incidents shown={incidents.slice(0, eventsShown)} all={incidents} empty={t('no_events')} />
        )}
      </Loaded>
    </Card>
  );
}

function warningText(warning: string, leftBehind: SummaryJson['leftBehind']): string {
  const known = leftBehind.find(({ text }) => text === warning);
  return known === undefined ? warning : serverText(`left_${known.code}`, warning, known.values);
}

function Strips({ orphaned, missing, warnings, leftBehind }: SummaryJson) {
  return (
    <>
      {orphaned > 0 ? (
        <Strip>
          <b>{t('orphaned_strip', { count: number(orphaned) })}</b> {t('orphaned_text')}
        </Strip>
      ) : null}
      {missing !== undefined && missing.length > 0 ? (
        <Strip>{t('missing_shard', { shards: missing.join(', ') })}</Strip>
      ) : null}
      {warnings.map((warning) => (
        <Strip key={warning}>{warningText(warning, leftBehind)}</Strip>
      ))}
    </>
  );
}
