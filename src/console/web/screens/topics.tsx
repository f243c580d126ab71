// Topics: the list with today's counters, deliveries of the last day and a menu per row; search by name, title
// or owner, filters by state and owner.

import type { ComponentChildren } from 'preact';
import type { SeriesColumn, TopicSeriesJson } from '../../../contract/api/series.ts';
import type { StatsJson } from '../../../contract/api/stats.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { type Pages, usePages, usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import { Spark } from '../charts/spark.tsx';
import { targetText, topicCommand } from '../commands.ts';
import { axisClock, duration, shortNumber, spoken } from '../format.ts';
import { Menu } from '../parts/dialog.tsx';
import { List } from '../parts/list.tsx';
import {
  ClearFilters,
  Count,
  copyText,
  DeadCount,
  Head,
  Icon,
  LoadError,
  NewTopicLink,
  QueryChoice,
  QueryText,
  useTyped,
} from '../parts/parts.tsx';
import { reasonsOfTopic, TopicState } from '../parts/topic-state.tsx';
import { href, place, type Segments, setQuery } from '../router.ts';
import { t } from '../words/words.ts';
import { successOf } from './series-cards.tsx';
import { TopicScreen } from './topic.tsx';
import { askOffline, askPause, askResume } from './topic-actions.tsx';
import { NewTopic } from './topic-settings.tsx';

/** A page, and the topics of one call of series. */
const pageRows = 50;

export function Screen({ first, second }: Segments) {
  if (first === undefined) return <Topics />;
  if (first === 'new' && place.value.query.has('create')) return <NewTopic />;
  return <TopicScreen key={first} name={first} tab={second ?? 'overview'} />;
}

const filters = 'search state owner';

function Topics() {
  const given = (name: string) => place.value.query.get(name) ?? '';
  const filter = { search: given('search'), state: given('state'), owner: given('owner') };
  const isFiltered = Object.values(filter).some((value) => value !== '');
  const pages = usePages<TopicJson>('/v1/topics', { ...filter, limit: String(pageRows) }, 5_000);
  const stats = usePoll<StatsJson>('/v1/stats', 5_000);
  const names = (pages.items ?? []).slice(0, pageRows).map(({ topic }) => topic);
  const series = usePoll<TopicSeriesJson>(names.length === 0 ? null : '/v1/series/topics', 60_000, {
    names: names.join(','),
  });
  const lines = new Map(stats.data?.topics.map((line) => [line.topic, line]));
  const courses = new Map(series.data?.topics.map((one) => [one.topic, one]));
  const rowOf = (topic: TopicJson): TopicRow => ({
    topic,
    line: lines.get(topic.topic),
    course: courses.get(topic.topic),
  });
  return (
    <>
      <Head title={t('topics')} sub={t('topics_sub')} actions={<NewTopicLink />} />
      <LoadError error={pages.error} what={t('topics')} retry={pages.refresh} />
      <section class="card">
        <header>
          <Filters search={filter.search} isFiltered={isFiltered} />
        </header>
        <Table
          pages={pages}
          at={series.data?.at ?? []}
          rows={pages.items?.map(rowOf) ?? null}
          empty={<NoTopics isFiltered={isFiltered} />}
          refresh={() => {
            pages.refresh();
            stats.refresh();
          }}
        />
      </section>
    </>
  );
}

function Filters({ search, isFiltered }: { search: string; isFiltered: boolean }) {
  const typed = useTyped(search, (text) => setQuery({ search: text }));
  return (
    <div class="fields">
      <label class={search === '' ? 'field' : 'field on'}>
        <Icon name="search" small />
        <span class="sr">{t('search_topics')}</span>
        <input placeholder={t('search_topics')} {...typed} />
      </label>
      <QueryChoice
        name="state"
        label={t('state')}
        options={[
          ['', t('any')],
          ['active', t('state_active')],
          ['paused', t('state_paused')],
          ['offline', t('state_offline')],
        ]}
      />
      <QueryText name="owner" label={t('owner')} />
      <ClearFilters names={filters} isShown={isFiltered} />
    </div>
  );
}

function NoTopics({ isFiltered }: { isFiltered: boolean }) {
  return (
    <>
      {t(isFiltered ? 'topics_none' : 'topics_empty')}{' '}
      <ClearFilters names={filters} isShown={isFiltered} look="s" />
      {!isFiltered && may('admin') ? <a href={href('first')}>{t('first_job')}</a> : null}
    </>
  );
}

type Line = StatsJson['topics'][number];

/** A topic with what the list knows about it beside its settings. */
interface TopicRow {
  readonly topic: TopicJson;
  /** undefined: not read yet */
  readonly line: Line | undefined;
  readonly course: TopicSeriesJson['topics'][number] | undefined;
}

function Table({
  pages,
  at,
  rows,
  empty,
  refresh,
}: {
  pages: Pages<TopicJson>;
  at: TopicSeriesJson['at'];
  rows: readonly TopicRow[] | null;
  empty: ComponentChildren;
  refresh: () => void;
}) {
  return (
    <List
      look="topics"
      items={rows}
      error={pages.error}
      empty={empty}
      more={pages.more}
      keyOf={({ topic }) => topic.topic}
      columns={{
        topic: {
          head: t('topic'),
          cell: ({ topic }) => (
            <span class="two">
              <NameLink {...topic} />
              <small>{topic.title}</small>
            </span>
          ),
          card: ({ topic }) => <NameLink {...topic} />,
        },
        state: {
          head: t('state'),
          cell: ({ topic }) => <TopicState state={topic.state} reasons={reasonsOfTopic(topic.topic)} />,
        },
        delay: { head: t('delay_short'), look: 'right extra', cell: ({ topic }) => spoken(topic.delay) },
        callback: {
          head: t('callback'),
          look: 'cut mono faint extra',
          tip: ({ topic }) => topic.callbackUrl ?? (targetText(topic) || undefined),
          cell: ({ topic }) => placeOf(topic),
        },
        delayed: {
          head: t('delayed'),
          look: 'right',
          isNamed: true,
          cell: ({ line }) => <Count value={line?.states.delayed} />,
        },
        due: {
          head: t('due'),
          look: 'right',
          isNamed: true,
          cell: ({ line }) => <Count value={line?.states.ready} />,
        },
        today: {
          head: t('today_counts'),
          look: 'right',
          width: 'wrap',
          cell: ({ line }) => (line === undefined ? '–' : <Today {...line.today} />),
        },
        success: {
          head: t('success_rate'),
          look: 'right',
          isNamed: true,
          cell: ({ line }) => (line === undefined ? '–' : successOf(line.today)),
        },
        took: {
          head: t('duration_p95'),
          look: 'right nowrap spare',
          width: 'wrap',
          cell: ({ course }) => <Took at={at} values={course?.durationP95 ?? []} />,
        },
        dead: {
          head: t('dead_letters'),
          look: 'right',
          isNamed: true,
          cell: ({ topic, line }) => <DeadCount topic={topic.topic} value={line?.states.dead} />,
        },
        owner: { head: t('owner'), look: 'soft spare', cell: ({ topic }) => topic.owner },
        course: {
          head: t('last_24h'),
          look: 'spare',
          cell: ({ course }) => (
            <Spark values={course?.delivered ?? []} colour="done" label={t('delivered')} />
          ),
        },
        menu: {
          head: null,
          look: 'right',
          cell: ({ topic, line }) => <RowMenu topic={topic} line={line} refresh={refresh} />,
        },
        title: { head: '', isOff: true, cell: ({ topic }) => topic.title },
      }}
      card={{
        row: ['topic', 'state', 'menu'],
        soft: ['title', 'success'],
        faint: ['delayed', 'due', 'dead'],
      }}
    />
  );
}

const NameLink = ({ topic }: TopicJson) => (
  <a class="name" href={href('topics', topic)}>
    {topic}
  </a>
);

function RowMenu({
  topic,
  line,
  refresh,
}: {
  topic: TopicJson;
  line: Line | undefined;
  refresh: () => void;
}) {
  const { topic: name, state, concurrency } = topic;
  const due = line?.states.ready ?? 0;
  const waiting = due + (line?.states.delayed ?? 0);
  return (
    <Menu label={t('row_menu', { topic: name })}>
      {!may('operate') ? null : state === 'active' ? (
        <button type="button" onClick={() => askPause(name, due, refresh)}>
          {t('pause')}…
        </button>
      ) : (
        <button type="button" onClick={() => askResume(name, due, refresh, concurrency)}>
          {t('resume')}…
        </button>
      )}
      {may('operate') && state !== 'offline' ? (
        <button type="button" onClick={() => askOffline(name, waiting, refresh)}>
          {t('take_offline')}…
        </button>
      ) : null}
      <button type="button" onClick={() => void copyText(topicCommand(topic, may('admin')), null)}>
        {t('copy_command')}
      </button>
    </Menu>
  );
}

function Today({ pushed, delivered, retried, dead }: Line['today']) {
  return (
    <>
      {shortNumber(pushed)} · {shortNumber(delivered)} ·{' '}
      <span class={retried + dead > 0 ? 'bad' : ''}>{shortNumber(retried + dead)}</span>
    </>
  );
}

/** The newest step with calls; the tooltip has those before it. */
function Took({ at, values }: { at: TopicSeriesJson['at']; values: SeriesColumn }) {
  const steps = values.flatMap((value, n) =>
    value === null ? [] : [{ value, text: `${axisClock(at[n] ?? 0, false)} ${duration(value)}` }],
  );
  const last = steps.at(-1);
  if (last === undefined) return <span class="faint">–</span>;
  return <span title={steps.map(({ text }) => text).join(' · ')}>{duration(last.value)}</span>;
}

/** Where the jobs go. */
function placeOf(topic: TopicJson): string {
  if (topic.delivery === 'pull') return t('choice_pull');
  return topic.delivery === 'mq' ? targetText(topic) : `${topic.method} ${hostOf(topic.callbackUrl ?? '')}`;
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
