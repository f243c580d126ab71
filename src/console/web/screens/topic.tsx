// Topic: totals, traffic and lateness over time, delivery in a sentence, retry schedule, why its jobs wait; its
// jobs, settings and secret. Its health is that of the last five minutes.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { contractLimits } from '../../../contract/api/limits.ts';
import type { SeriesJson } from '../../../contract/api/series.ts';
import type { TopicAttentionJson, TopicStatsJson } from '../../../contract/api/stats.ts';
import type { CapacityJson, RotatedSecretJson } from '../../../contract/api/topic.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { call, topicPath } from '../api/call.ts';
import { type Polled, usePoll } from '../api/poll.ts';
import { may, retryUnitMs } from '../api/session.ts';
import { waitsOf } from '../backoff-waits.ts';
import { Horizon } from '../charts/horizon.tsx';
import { Ladder } from '../charts/ladder.tsx';
import { targetText } from '../commands.ts';
import { dots, duration, durationParts, number, percent, shortNumber, spoken, useSecond } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { later } from '../parts/later.tsx';
import {
  Button,
  Card,
  Empty,
  Head,
  Icon,
  LoadError,
  Loaded,
  Strip,
  type TileFacts,
  Tiles,
  Waiting,
} from '../parts/parts.tsx';
import {
  lateText,
  reasonsOfTopic,
  reasonText,
  TopicState,
  waiting,
  waitingText,
} from '../parts/topic-state.tsx';
import { href, hrefQuery } from '../router.ts';
import { t, type Word, wordParts } from '../words/words.ts';
import { EndpointCard, RecentAttempts } from './attempts.tsx';
import { JobList } from './jobs.tsx';
import { FailedAttempts, Lateness, rangeOf, reasonName, Traffic, useSeries } from './series-cards.tsx';
import { TestCallButton } from './test-call.tsx';
import { askClear, askDelete, askOffline, askPause, askResume, SecretOnce } from './topic-actions.tsx';
import { TopicSettings } from './topic-settings.tsx';

const Changes = later<{ topic: string }>(() =>
  import('./audit.tsx').then(({ TopicChanges }) => ({ Screen: TopicChanges })),
);

export function TopicScreen({ name, tab }: { name: string; tab: string }) {
  const topic = usePoll<TopicJson>(topicPath(name), 5_000);
  const stats = usePoll<TopicStatsJson>(topicPath(name, 'stats'), 5_000);
  const capacity = usePoll<CapacityJson>(topicPath(name, 'capacity'), 5_000);
  const recent = useSeries('5m', name);
  const attention = capacity.data?.attention ?? null;
  const reasons = attention?.reasons ?? reasonsOfTopic(name);
  if (topic.data === null && topic.error?.status === 404)
    return (
      <>
        <Head title={name} />
        <Card>
          <Empty>{t('topic_absent')}</Empty>
        </Card>
      </>
    );
  const { data } = topic;
  const states = stats.data?.states;
  const refresh = (): void => {
    topic.refresh();
    stats.refresh();
  };
  return (
    <>
      <Head
        sub={
          data === null
            ? ''
            : dots(
                data.title,
                data.owner !== '' && t('owned_by', { owner: data.owner }),
                t('default_delay', { time: spoken(data.delay) }),
              )
        }
        actions={data === null ? undefined : <Actions topic={data} stats={stats.data} refresh={refresh} />}
      >
        <div class="title">
          <h1>{name}</h1>
          {data === null ? null : <TopicState state={data.state} reasons={reasons} />}
        </div>
      </Head>
      <Tabs
        name={name}
        tab={tab}
        jobs={states === undefined ? null : states.delayed + states.ready + states.reserved}
      />
      <LoadError error={topic.error} what={t('topic')} retry={topic.refresh} />
      {data === null ? (
        <Waiting rows={6} error={topic.error} />
      ) : tab === 'jobs' ? (
        <JobList topic={name} />
      ) : tab === 'attempts' ? (
        <div class="cols">
          <RecentAttempts topic={data} most={200} tab />
        </div>
      ) : tab === 'settings' ? (
        <TopicSettings topic={data} onSaved={topic.take} />
      ) : tab === 'secret' ? (
        <Secret name={name} />
      ) : tab === 'changes' ? (
        <Changes topic={name} />
      ) : (
        <Figures topic={data} stats={stats.data} recent={recent.data} capacity={capacity} />
      )}
    </>
  );
}

function Tabs({ name, tab, jobs }: { name: string; tab: string; jobs: number | null }) {
  const tabs: readonly (readonly [string, Word, number | null])[] = [
    ['overview', 'overview', null],
    ['jobs', 'jobs', jobs],
    ['attempts', 'attempts', null],
    ...(may('admin')
      ? ([
          ['settings', 'tab_settings', null],
          ['secret', 'tab_secret', null],
          ['changes', 'tab_changes', null],
        ] as const)
      : []),
  ];
  const nav = useRef<HTMLElement>(null);
  // On a phone the tabs are wider than the screen.
  useLayoutEffect(() => {
    nav.current?.querySelector('[aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [tab]);
  return (
    <nav class="tabs" aria-label={t('topic')} ref={nav}>
      {tabs.map(([key, word, count]) => (
        <a
          key={key}
          href={key === 'overview' ? href('topics', name) : href('topics', name, key)}
          aria-current={tab === key ? 'page' : undefined}
        >
          {t(word)} {count === null ? null : <span class="n">{number(count)}</span>}
        </a>
      ))}
    </nav>
  );
}

function Actions({
  topic,
  stats,
  refresh,
}: {
  topic: TopicJson;
  stats: TopicStatsJson | null;
  refresh: () => void;
}) {
  const name = topic.topic;
  const due = stats?.states.ready ?? 0;
  const waiting = due + (stats?.states.delayed ?? 0);
  const all = waiting + (stats?.states.reserved ?? 0) + (stats?.states.dead ?? 0);
  return (
    <>
      {!may('operate') ? null : topic.state === 'active' ? (
        <Button icon="pause" onClick={() => askPause(name, due, refresh)}>
          {t('pause')}…
        </Button>
      ) : (
        <Button icon="play" onClick={() => askResume(name, due, refresh, topic.concurrency)}>
          {t('resume')}…
        </Button>
      )}
      {may('operate') && topic.state !== 'offline' ? (
        <Button look="desk" onClick={() => askOffline(name, waiting, refresh)}>
          {t('take_offline')}…
        </Button>
      ) : null}
      {may('operate') && topic.delivery !== 'pull' ? (
        <TestCallButton topic={name} isMessage={topic.delivery === 'mq'} />
      ) : null}
      {may('operate') && may('push') && all > 0 ? (
        <Button look="desk" onClick={() => askClear(name, all)}>
          {t('clear_jobs')}…
        </Button>
      ) : null}
      {may('push') ? (
        <a class="btn main" href={hrefQuery(['push'], { topic: name })}>
          <Icon name="push" />
          {t('push_job')}
        </a>
      ) : null}
      {may('admin') ? (
        <button
          type="button"
          class="btn square danger desk"
          aria-label={`${t('delete_topic')}…`}
          // The question names the number of jobs, and whether there are any decides what is asked for.
          disabled={stats === null}
          onClick={() => askDelete(name, all)}
        >
          <Icon name="trash" />
        </button>
      ) : null}
    </>
  );
}

function Figures({
  topic,
  stats,
  recent,
  capacity,
}: {
  topic: TopicJson;
  stats: TopicStatsJson | null;
  recent: SeriesJson | null;
  capacity: Polled<CapacityJson>;
}) {
  const name = topic.topic;
  // Of one topic dq keeps 30 days.
  const range = rangeOf('6h');
  const series = useSeries(range, name);
  const attention = capacity.data?.attention ?? null;
  const isFailing = attention?.reasons.includes('failing') === true;
  return (
    <>
      {isFailing && attention !== null ? <FailingStrip attention={attention} topic={topic} /> : null}
      {stats === null ? (
        <Waiting rows={2} />
      ) : (
        <Tiles label={t('overview')} tiles={tilesOf(topic, stats, recent, isFailing)} />
      )}
      <LoadError
        error={series.error?.status === 404 ? null : series.error}
        what={t('traffic')}
        retry={series.refresh}
      />
      <div class="cols">
        <div class="c8 stack">
          <Traffic series={series.data} range={range} />
          <div class="cols">
            <Lateness series={series.data} width={6} />
            <FailedAttempts series={series.data} width={6} />
          </div>
          <Horizon topic={name} />
        </div>
        <div class="c4 stack">
          <WhyWaiting capacity={capacity} />
          <Delivery topic={topic} />
          <EndpointCard topic={name} isBroker={topic.delivery === 'mq'} />
        </div>
        <RecentAttempts topic={topic} most={6} />
      </div>
    </>
  );
}

function Delivery({ topic }: { topic: TopicJson }) {
  const waits = waitsOf(topic, retryUnitMs()) ?? [];
  const total = waits.reduce((sum, wait) => sum + wait, 0);
  return (
    <Card
      title={t('delivery')}
      end={
        may('admin') ? (
          <a class="btn plain s" href={href('topics', topic.topic, 'settings')}>
            <Icon name="edit" small />
            {t('edit')}
          </a>
        ) : undefined
      }
      look="body stack"
    >
      <Sentences topic={topic} />
      <div>
        <h3>{t('retry_schedule')}</h3>
        <p class="soft">{t('schedule_note', { count: topic.maxAttempts, time: duration(total) })}</p>
      </div>
      <Ladder waitsMs={waits} />
    </Card>
  );
}

const WhyWaiting = ({ capacity }: { capacity: Polled<CapacityJson> }) => (
  <Card title={t('why_not_called')} note={t('per_notifier')}>
    <Loaded from={capacity} what={t('why_not_called')} rows={2}>
      {(data) => {
        const reasons = reasonsOf(data);
        if (reasons.length === 0) return <Empty>{t('no_reason')}</Empty>;
        return (
          <ul class="list">
            {reasons.map(({ from, code, message, remedy }) => (
              <li key={`${from} ${code}`}>
                <span class="grow two sentences">
                  <span>{message}</span>
                  <small class={from === '' ? '' : 'named'}>
                    {dots(from, remedy)} <span class="mono">{code}</span>
                  </small>
                </span>
              </li>
            ))}
          </ul>
        );
      }}
    </Loaded>
  </Card>
);

function tilesOf(
  topic: TopicJson,
  stats: TopicStatsJson,
  recent: SeriesJson | null,
  isFailing: boolean,
): readonly TileFacts[] {
  const { today, states } = stats;
  const name = topic.topic;
  const { delivered = 0, failed = 0 } = recent?.totals ?? {};
  const attempts = delivered + failed;
  const { p50 = null, p95 = null } = recent?.totals.duration ?? {};
  return [
    {
      name: 'delivered_today',
      value: shortNumber(today.delivered),
      how: t('of_pushed', { count: shortNumber(today.pushed) }),
    },
    {
      name: 'success_5m',
      ...(attempts === 0 ? { value: '–' } : { value: percent(delivered / attempts), unit: '%' }),
      how: attempts === 0 ? t('no_attempts_5m') : t('of_attempts', { count: shortNumber(attempts) }),
      tone: isFailing ? 'bad' : undefined,
    },
    {
      name: 'duration_p95_5m',
      ...(p95 === null ? { value: '–' } : durationParts(p95)),
      how:
        p50 === null
          ? t('no_attempts_5m')
          : topic.delivery === 'pull'
            ? t('duration_how_pull', { lease: spoken(topic.lease), p50: duration(p50) })
            : t('duration_how', { timeout: spoken(topic.timeout), p50: duration(p50) }),
    },
    {
      ...(topic.delivery === 'pull'
        ? { name: 'leases_out' as const, how: t('lease_of', { lease: topic.lease }) }
        : {
            name: 'in_flight' as const,
            unit: t('of_count', { count: number(topic.concurrency) }),
            how: t('per_instance'),
          }),
      value: shortNumber(states.reserved),
      to: hrefQuery(['topics', name, 'jobs'], { state: 'reserved' }),
    },
    {
      name: 'jobs_wait',
      value: shortNumber(waiting(states)),
      how: waitingText(states),
      to: hrefQuery(['topics', name, 'jobs'], { state: states.ready > 0 ? 'ready' : 'delayed' }),
      tone: topic.state !== 'active' && states.ready > 0 ? 'warn' : undefined,
    },
    {
      name: 'dead_letters',
      value: shortNumber(states.dead),
      how: t('dead_today', { count: number(today.dead) }),
      to: hrefQuery(['dead'], { topic: name }),
      tone: states.dead > 0 ? 'bad' : undefined,
    },
  ];
}

function FailingStrip({ attention, topic }: { attention: TopicAttentionJson; topic: TopicJson }) {
  const { calls, failure, today } = attention;
  useSecond();
  const time = lateText(attention);
  const ofToday = { delivered: today.delivered, failed: today.retried + today.dead };
  // A notifier that has just started has made none.
  const isCounted = calls !== null && calls.delivered + calls.failed > 0;
  const { delivered, failed } = isCounted ? calls : ofToday;
  const inRow = calls?.failuresInRow ?? 0;
  const share = percent(failed / Math.max(1, delivered + failed));
  return (
    <Strip>
      <b>
        {inRow >= contractLimits.failingInRow
          ? t('failing_strip_row', { count: number(inRow) })
          : t(isCounted ? 'failing_strip' : 'failing_strip_today', { percent: share })}
      </b>
      {failure?.reason == null
        ? ''
        : t('failing_strip_reason', { reason: reasonName(failure.reason, failure.status) })}
      {t('full_stop')} {t(toComeOf(topic))} {time === null ? null : t('failing_strip_late', { time })}
    </Strip>
  );
}

/** What follows for the jobs whose attempts failed. */
function toComeOf({ maxAttempts, state }: TopicJson): Word {
  if (maxAttempts === 1) return 'failing_strip_dead';
  return state === 'active' ? 'failing_strip_text' : 'failing_strip_held';
}

function reasonsOf(data: CapacityJson | null) {
  if (data === null) return [];
  return [
    ...data.reasons.map((reason) => ({ ...reason, ...reasonText(reason), from: '' })),
    ...data.notifiers.flatMap(({ notifier, reasons }) =>
      (reasons ?? []).map((reason) => ({ ...reason, ...reasonText(reason), from: notifier })),
    ),
  ];
}

/** Words of a text with its values in bold: the text is split at them. */
function Sentence({ word, values }: { word: Word; values: Readonly<Record<string, string>> }) {
  return (
    <>
      {wordParts(word, values).map((part, n) =>
        n % 2 === 0 ? (
          part
        ) : (
          <b key={part} class={part === 'call' || part === 'rule' ? 'mono' : ''}>
            {values[part]}
          </b>
        ),
      )}
    </>
  );
}

function CallSentences({ topic }: { topic: TopicJson }) {
  const { method, callbackUrl, timeout, okStatus, retryIf } = topic;
  return (
    <>
      <Sentence
        word="sentence_call"
        values={{ call: `${method} ${callbackUrl}`, timeout: spoken(timeout) }}
      />{' '}
      <Sentence word="sentence_status" values={{ statuses: okStatus.join(', ') }} />
      {retryIf === '' || retryIf === null ? (
        t('full_stop')
      ) : (
        <>
          {t('clause_gap')}
          <Sentence word="sentence_rule" values={{ rule: retryIf }} />
        </>
      )}
    </>
  );
}

function Sentences({ topic }: { topic: TopicJson }) {
  const { maxAttempts, alertEmails } = topic;
  return (
    <>
      <p class="sentence">
        {topic.delivery === 'pull' ? (
          <Sentence word="sentence_pull" values={{ lease: topic.lease }} />
        ) : topic.delivery === 'mq' ? (
          <Sentence
            word="sentence_publish"
            values={{ call: targetText(topic), timeout: spoken(topic.timeout) }}
          />
        ) : (
          <CallSentences topic={topic} />
        )}
      </p>
      <p class="sentence">
        <Sentence word="sentence_attempts" values={{ count: number(maxAttempts) }} />
        {alertEmails.length === 0 ? (
          t('full_stop')
        ) : (
          <>
            {t('clause_gap')}
            <Sentence word="sentence_mail" values={{ addresses: alertEmails.join(', ') }} />
          </>
        )}
      </p>
    </>
  );
}

function Secret({ name }: { name: string }) {
  const [made, setMade] = useState<string | null>(null);
  const rotate = (): void =>
    ask({
      title: t('rotate_question', { topic: name }),
      body: t('rotate_text'),
      action: t('rotate'),
      run: async () => setMade((await call<RotatedSecretJson>('POST', topicPath(name, 'secret'))).secret),
    });
  return (
    <Card title={t('tab_secret')} look="body stack">
      <p class="soft">{t('secret_text')}</p>
      {made === null ? null : <SecretOnce text={made} />}
      <div>
        <Button icon="redo" onClick={rotate}>
          {t('rotate')}…
        </Button>
      </div>
    </Card>
  );
}
