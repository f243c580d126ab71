// Overview: open problems, totals, what happened in the chosen range, topics that need attention. Totals come
// from the summary that the shell polls. Sessions of some topics see no series of all topics.

import { useEffect } from 'preact/hooks';
import type { AlertsJson } from '../../../contract/api/alert.ts';
import type { SeriesColumn, SeriesJson, TopicSeriesJson } from '../../../contract/api/series.ts';
import type { SummaryJson } from '../../../contract/api/stats.ts';
import { usePoll } from '../api/poll.ts';
import { may, session, summary } from '../api/session.ts';
import { Horizon } from '../charts/horizon.tsx';
import { RangeChoice, rangeOf } from '../charts/range.tsx';
import { Spark } from '../charts/spark.tsx';
import { dots, duration, number, percent, shortNumber, zone } from '../format.ts';
import { IncidentState } from '../parts/incidents.tsx';
import { List } from '../parts/list.tsx';
import {
  Button,
  Card,
  Count,
  DeadCount,
  Empty,
  Head,
  LoadError,
  Loaded,
  NewTopicLink,
  Strip,
  type TileFacts,
  Tiles,
  TopicState,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { go, href, hrefQuery } from '../router.ts';
import { t } from '../words/words.ts';
import { FailedAttempts, isAbsent, Lateness, successOf, Throughput, useSeries } from './series-cards.tsx';
import { askResume } from './topic-actions.tsx';

export function Overview() {
  const { value } = summary;
  if (value !== null && value.topics.active + value.topics.paused + value.topics.offline === 0)
    return <FirstSteps />;
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
      <div class="cols">
        {isShown ? (
          <>
            <Throughput series={series.data} />
            <Lateness series={series.data} width={4} />
          </>
        ) : null}
        <Horizon topic={null} />
        {isShown ? <FailedAttempts series={series.data} /> : null}
        {data === null ? null : <Matters {...data} />}
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

/** Of the newest recorded step that is over; null: none. */
function newest(series: SeriesJson | null, name: 'pushed' | 'delivered'): number | null {
  if (series === null) return null;
  const values = series.unfinished ? series[name].slice(0, -1) : series[name];
  const value = values.findLast((one) => one !== null) ?? null;
  return value === null ? null : (value * 60) / series.step;
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
      unit: t('per_minute'),
      how: t('pushed_n', { count: perMinute(newest(series, 'pushed')) }),
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
      ...(p99 === null ? { value: '–' } : splitUnit(duration(p99))),
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

const finished = (series: SeriesJson | null, name: 'delivered'): SeriesColumn =>
  series === null ? [] : series.unfinished ? series[name].slice(0, -1) : series[name];

/** "41 ms" → 41 and a small ms; "2 min 3 s" stays whole. */
function splitUnit(text: string): { value: string; unit?: string } {
  const parts = text.split(' ');
  return parts.length === 2 ? { value: parts[0] ?? '', unit: parts[1] ?? '' } : { value: text };
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

function Matters({ attention, topics }: SummaryJson) {
  return (
    <Card
      width={8}
      fill
      title={t('attention')}
      end={
        <a class="btn plain s" href={href('topics')}>
          {t('all_topics', { count: number(topics.active + topics.paused + topics.offline) })}
        </a>
      }
    >
      <Attention lines={attention} />
    </Card>
  );
}

const eventsShown = 6;

/** Begins and ends of incidents, newest first. Sessions of some topics may not read them. */
function RecentEvents() {
  const { value } = session;
  const isEvery = value.kind === 'signed_in' && value.me.topics.includes('*');
  const path = isEvery && may('read') ? '/v1/alerts' : null;
  const poll = usePoll<AlertsJson>(path, 15_000, { limit: '1' });
  if (path === null) return null;
  return (
    <Card
      width={4}
      fill
      title={t('recent_events')}
      end={
        <a class="btn plain s" href={hrefQuery(['alerts'], { all: '1' })}>
          {t('alerts')}
        </a>
      }
    >
      <Loaded from={poll} what={t('recent_events')} rows={2}>
        {({ incidents }) =>
          incidents.length === 0 ? (
            <Empty>{t('no_events')}</Empty>
          ) : (
            <ul class="list">
              {incidents.slice(0, eventsShown).map((one) => (
                <li key={`${one.at} ${one.kind} ${one.about} ${one.state}`}>
                  <IncidentState one={one} all={incidents} />
                  <span class="grow two">
                    <span>{[t(`incident_${one.kind}`), one.about].join(' ')}</span>
                    <small class="faint">{one.detail}</small>
                  </span>
                  <Time class="faint num" at={one.at} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function Strips({ attention, orphaned, missing, warnings }: SummaryJson) {
  const paused = attention.filter(({ reasons }) => reasons.includes('paused'));
  return (
    <>
      {paused.slice(0, 3).map(({ topic, states }) => (
        <Strip
          key={topic}
          end={
            <>
              <a class="btn s" href={hrefQuery(['jobs'], { topic, state: 'ready' })}>
                {t('view_jobs')}
              </a>
              {may('operate') ? (
                <Button look="s" onClick={() => askResume(topic, states.ready)}>
                  {t('resume')}…
                </Button>
              ) : null}
            </>
          }
        >
          <b>{t('paused_strip', { topic })}</b> {t('paused_strip_text', { count: number(states.ready) })}
        </Strip>
      ))}
      {orphaned > 0 ? (
        <Strip>
          <b>{t('orphaned_strip', { count: number(orphaned) })}</b> {t('orphaned_text')}
        </Strip>
      ) : null}
      {missing !== undefined && missing.length > 0 ? (
        <Strip>{t('missing_shard', { shards: missing.join(', ') })}</Strip>
      ) : null}
      {warnings.map((warning) => (
        <Strip key={warning}>{warning}</Strip>
      ))}
    </>
  );
}

function Attention({ lines }: { lines: SummaryJson['attention'] }) {
  const names = lines.map(({ topic }) => topic);
  const sparks = usePoll<TopicSeriesJson>(names.length === 0 ? null : '/v1/series/topics', 60_000, {
    names: names.join(','),
  });
  const delivered = new Map(sparks.data?.topics.map((one) => [one.topic, one.delivered]));
  const isFailing = (reasons: readonly string[]): boolean => reasons.includes('failing');
  return (
    <List
      items={lines}
      empty={t('attention_none')}
      keyOf={({ topic }) => topic}
      columns={{
        topic: {
          head: t('topic'),
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
        state: {
          head: t('state'),
          cell: ({ state, reasons }) => (
            <TopicState state={state ?? 'not_registered'} failing={isFailing(reasons)} />
          ),
        },
        delayed: { head: t('delayed'), look: 'right spare', cell: ({ states }) => number(states.delayed) },
        due: { head: t('due'), look: 'right', cell: ({ states }) => <Count value={states.ready} /> },
        delivered: {
          head: `${t('delivered')} (${t('range_24h')})`,
          look: 'extra',
          cell: ({ topic, reasons }) => (
            <Spark
              values={delivered.get(topic) ?? []}
              colour={isFailing(reasons) ? 'dead' : 'done'}
              label={t('delivered')}
            />
          ),
        },
        success: { head: t('success_rate'), look: 'right', cell: ({ today }) => successOf(today) },
        dead: {
          head: t('dead_letters'),
          look: 'right',
          cell: ({ topic, states }) => <DeadCount topic={topic} value={states.dead} />,
          card: ({ states }) => `${t('dead_letters')} ${number(states.dead)}`,
        },
        why: {
          ...{ head: '', isOff: true },
          cell: ({ title, reasons }) =>
            title === '' ? dots(...reasons.map((why) => t(`why_${why}`))) : title,
        },
      }}
      card={{ row: ['topic', 'state'], soft: ['why', 'dead'] }}
    />
  );
}
