// Topic: totals, delivery in a sentence, retry schedule, why its jobs wait; its jobs, settings and secret.

import { useState } from 'preact/hooks';
import { call, topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import type { Capacity, TopicJson, TopicStats } from '../api/types.ts';
import { Horizon } from '../charts/horizon.tsx';
import { Ladder } from '../charts/ladder.tsx';
import { duration, number, shortNumber } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import {
  Card,
  CopyButton,
  Empty,
  Head,
  Icon,
  LoadError,
  Tiles,
  TopicState,
  Waiting,
} from '../parts/parts.tsx';
import { href, hrefQuery } from '../router.ts';
import { waitsOf } from '../waits.ts';
import { t, type Word } from '../words/words.ts';
import { RecentAttempts } from './attempts.tsx';
import { EndpointCard } from './endpoints.tsx';
import { JobList } from './jobs.tsx';
import { TestCallButton } from './test-call.tsx';
import { askDelete, askOffline, askPause, askResume } from './topic-actions.tsx';
import { TopicSettings } from './topic-settings.tsx';

export function TopicScreen({ name, tab }: { name: string; tab: string }) {
  const topic = usePoll<TopicJson>(topicPath(name), 5_000);
  const stats = usePoll<TopicStats>(topicPath(name, 'stats'), 5_000);
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
            : [
                data.title,
                data.owner === '' ? '' : t('owned_by', { owner: data.owner }),
                t('default_delay', { time: data.delay }),
              ]
                .filter((text) => text !== '')
                .join(' · ')
        }
        actions={data === null ? undefined : <Actions topic={data} stats={stats.data} refresh={refresh} />}
      >
        <div class="title">
          <h1>{name}</h1>
          {data === null ? null : <TopicState state={data.state} />}
        </div>
      </Head>
      <Tabs
        name={name}
        tab={tab}
        jobs={states === undefined ? null : states.delayed + states.ready + states.reserved}
      />
      <LoadError error={topic.error} what={t('topic')} retry={topic.refresh} />
      {data === null ? (
        <Waiting rows={6} />
      ) : tab === 'jobs' ? (
        <JobList topic={name} />
      ) : tab === 'attempts' ? (
        <div class="cols">
          <RecentAttempts topic={data} most={200} tab />
        </div>
      ) : tab === 'settings' ? (
        <TopicSettings topic={data} />
      ) : tab === 'secret' ? (
        <Secret name={name} />
      ) : (
        <Figures topic={data} stats={stats.data} />
      )}
    </>
  );
}

function Tabs({ name, tab, jobs }: { name: string; tab: string; jobs: number | null }) {
  const tabs: readonly (readonly [string, Word, number | null])[] = [
    ['overview', 'tab_overview', null],
    ['jobs', 'tab_jobs', jobs],
    ['attempts', 'attempts', null],
    ...(may('admin')
      ? ([
          ['settings', 'tab_settings', null],
          ['secret', 'tab_secret', null],
        ] as const)
      : []),
  ];
  return (
    <nav class="tabs" aria-label={t('topic')}>
      {tabs.map(([key, word, count]) => (
        <a
          key={key}
          href={key === 'overview' ? href('topics', name) : href('topics', name, key)}
          {...(tab === key ? { 'aria-current': 'page' as const } : {})}
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
  stats: TopicStats | null;
  refresh: () => void;
}) {
  const name = topic.topic;
  const due = stats?.states.ready ?? 0;
  const waiting = due + (stats?.states.delayed ?? 0);
  const all = waiting + (stats?.states.reserved ?? 0) + (stats?.states.dead ?? 0);
  return (
    <>
      {!may('operate') ? null : topic.state === 'active' ? (
        <button type="button" class="btn" onClick={() => askPause(name, due, refresh)}>
          <Icon name="pause" />
          {t('pause')}…
        </button>
      ) : (
        <button type="button" class="btn" onClick={() => askResume(name, due, refresh, topic.concurrency)}>
          <Icon name="play" />
          {t('resume')}…
        </button>
      )}
      {may('operate') && topic.state !== 'offline' ? (
        <button type="button" class="btn" onClick={() => askOffline(name, waiting, refresh)}>
          {t('take_offline')}…
        </button>
      ) : null}
      {may('operate') ? <TestCallButton topic={name} /> : null}
      {may('push') ? (
        <a class="btn main" href={hrefQuery(['push'], { topic: name })}>
          <Icon name="push" />
          {t('push_job')}
        </a>
      ) : null}
      {may('admin') ? (
        <button
          type="button"
          class="btn square danger"
          aria-label={`${t('delete_topic')}…`}
          onClick={() => askDelete(name, all)}
        >
          <Icon name="trash" />
        </button>
      ) : null}
    </>
  );
}

function Figures({ topic, stats }: { topic: TopicJson; stats: TopicStats | null }) {
  const capacity = usePoll<Capacity>(topicPath(topic.topic, 'capacity'), 5_000);
  const waits = waitsOf(topic);
  const name = topic.topic;
  const reasons = reasonsOf(capacity.data);
  return (
    <>
      {stats === null ? (
        <Waiting rows={2} />
      ) : (
        <Tiles
          label={t('overview')}
          tiles={[
            {
              name: 'delivered_today',
              value: shortNumber(stats.today.delivered),
              how: t('of_pushed', { count: shortNumber(stats.today.pushed) }),
            },
            {
              name: 'retried_today',
              value: shortNumber(stats.today.retried),
              how: t('retried_how'),
              tone: stats.today.retried > 0 ? 'warn' : undefined,
            },
            {
              name: 'in_flight',
              value: shortNumber(stats.states.reserved),
              how: t('at_most', { count: number(topic.concurrency) }),
              to: hrefQuery(['topics', name, 'jobs'], { state: 'reserved' }),
            },
            {
              name: 'due_now',
              value: shortNumber(stats.states.ready),
              how: t('due_now_how'),
              to: hrefQuery(['topics', name, 'jobs'], { state: 'ready' }),
              tone: stats.states.ready > 0 ? 'warn' : undefined,
            },
            {
              name: 'delayed',
              value: shortNumber(stats.states.delayed),
              how: t('delayed_how'),
              to: hrefQuery(['topics', name, 'jobs'], { state: 'delayed' }),
            },
            {
              name: 'dead_letters',
              value: shortNumber(stats.states.dead),
              how: t('dead_today', { count: number(stats.today.dead) }),
              to: hrefQuery(['dead'], { topic: name }),
              tone: stats.states.dead > 0 ? 'bad' : undefined,
            },
          ]}
        />
      )}
      <div class="cols">
        <Card
          width={6}
          fill
          title={t('delivery')}
          end={
            may('admin') ? (
              <a class="btn plain s" href={href('topics', name, 'settings')}>
                <Icon name="edit" small />
                {t('edit')}
              </a>
            ) : undefined
          }
        >
          <div class="body stack">
            <Sentences topic={topic} />
            <h3>
              {t('retry_schedule')} ·{' '}
              {t('schedule_note', {
                count: topic.maxAttempts,
                time: duration(waits.reduce((sum, wait) => sum + wait, 0)),
              })}
            </h3>
            <Ladder waitsMs={waits} />
          </div>
        </Card>
        <Card width={6} fill title={t('why_not_called')} note={t('per_notifier')}>
          <LoadError error={capacity.error} what={t('why_not_called')} retry={capacity.refresh} />
          {capacity.data === null ? (
            <Waiting rows={2} />
          ) : reasons.length === 0 ? (
            <Empty>{t('no_reason')}</Empty>
          ) : (
            <ul class="list">
              {reasons.map(({ from, code, message, remedy }) => (
                <li key={`${from} ${code}`}>
                  <span class="grow two">
                    <span>{message}</span>
                    <small>{[from, remedy].filter((text) => text !== '').join(' · ')}</small>
                  </span>
                  <span class="tag">{code}</span>
                </li>
              ))}
            </ul>
          )}
        </Card>
        <Horizon topic={name} width={8} />
        <EndpointCard topic={name} />
        <RecentAttempts topic={topic} most={6} />
      </div>
    </>
  );
}

function reasonsOf(data: Capacity | null) {
  if (data === null) return [];
  return [
    ...data.reasons.map((reason) => ({ ...reason, from: '' })),
    ...data.notifiers.flatMap(({ notifier, reasons }) =>
      (reasons ?? []).map((reason) => ({ ...reason, from: notifier })),
    ),
  ];
}

/** Words of a text with its values in bold: the text is split at {name}. */
function Sentence({ word, values }: { word: Word; values: Readonly<Record<string, string>> }) {
  return (
    <>
      {t(word)
        .split(/(\{\w+\})/)
        .map((part) => {
          const name = /^\{(\w+)\}$/.exec(part)?.[1];
          return name === undefined ? part : <b key={part}>{values[name] ?? part}</b>;
        })}
    </>
  );
}

function Sentences({ topic }: { topic: TopicJson }) {
  const { method, callbackUrl, timeout, okStatus, retryIf, maxAttempts, alertEmails } = topic;
  return (
    <>
      <p class="sentence">
        <Sentence word="sentence_call" values={{ call: `${method} ${callbackUrl}`, timeout }} />{' '}
        <Sentence word="sentence_status" values={{ statuses: okStatus.join(', ') }} />
        {retryIf === '' || retryIf === null ? (
          t('full_stop')
        ) : (
          <>
            {t('clause_gap')}
            <Sentence word="sentence_rule" values={{ rule: retryIf }} />
          </>
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
  return (
    <Card title={t('tab_secret')}>
      <div class="body stack">
        <p class="soft">{t('secret_text')}</p>
        {made === null ? null : (
          <div class="title">
            <pre class="code" tabIndex={0}>
              {made}
            </pre>
            <CopyButton text={made} label={t('copy')} />
            <b>{t('secret_once')}</b>
          </div>
        )}
        <div>
          <button
            type="button"
            class="btn"
            onClick={() =>
              ask({
                title: t('rotate_question', { topic: name }),
                body: t('rotate_text'),
                action: t('rotate'),
                run: async () => {
                  const { secret } = await call<{ secret: string }>('POST', topicPath(name, 'secret'));
                  setMade(secret);
                },
              })
            }
          >
            <Icon name="redo" />
            {t('rotate')}…
          </button>
        </div>
      </div>
    </Card>
  );
}
