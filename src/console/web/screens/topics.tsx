// Topics: the list with today's counters, deliveries of the last day and a menu per row; search by name, title
// or owner, filters by state and owner.

import { usePoll } from '../api/poll.ts';
import { may, summary } from '../api/session.ts';
import type { Column, Stats, TopicJson, TopicSeries } from '../api/types.ts';
import { Spark } from '../charts/spark.tsx';
import { axisClock, duration, number, shortNumber } from '../format.ts';
import { usePages } from '../pages.ts';
import { Menu } from '../parts/menu.tsx';
import {
  Choice,
  copyText,
  Empty,
  Head,
  Icon,
  LoadError,
  More,
  NewTopicLink,
  TextChip,
  TopicState,
  useTyped,
  Waiting,
} from '../parts/parts.tsx';
import { href, hrefQuery, place, type Segments, setQuery } from '../router.ts';
import { targetText, topicCommand } from '../topic-command.ts';
import { spoken } from '../waits.ts';
import { t } from '../words/words.ts';
import { successOf } from './series-cards.tsx';
import { TopicScreen } from './topic.tsx';
import { askOffline, askPause, askResume } from './topic-actions.tsx';
import { NewTopic } from './topic-settings.tsx';

/** A page, and the topics of one call of series. */
const pageRows = 50;

export function TopicPages({ first, second }: Segments) {
  if (first === undefined) return <Topics />;
  if (first === 'new' && place.value.query.has('create')) return <NewTopic />;
  return <TopicScreen key={first} name={first} tab={second ?? 'overview'} />;
}

function Topics() {
  const given = (name: string) => place.value.query.get(name) ?? '';
  const filter = { search: given('search'), state: given('state'), owner: given('owner') };
  const search = useTyped(filter.search, (search) => setQuery({ search }));
  const isFiltered = Object.values(filter).some((value) => value !== '');
  const pages = usePages<TopicJson>('/v1/topics', { ...filter, limit: String(pageRows) }, 5_000);
  const stats = usePoll<Stats>('/v1/stats', 5_000);
  const names = (pages.items ?? []).slice(0, pageRows).map(({ topic }) => topic);
  const series = usePoll<TopicSeries>(names.length === 0 ? null : '/v1/series/topics', 60_000, {
    names: names.join(','),
  });
  const failing = new Set(
    summary.value?.attention.flatMap(({ topic, reasons }) => (reasons.includes('failing') ? [topic] : [])),
  );
  const lines = new Map(stats.data?.topics.map((line) => [line.topic, line]));
  const courses = new Map(series.data?.topics.map((one) => [one.topic, one]));
  const refresh = (): void => {
    pages.refresh();
    stats.refresh();
  };
  const clear = (): void => setQuery({ search: '', state: '', owner: '' });
  return (
    <>
      <Head title={t('topics')} sub={t('topics_sub')} actions={<NewTopicLink />} />
      <LoadError error={pages.error} what={t('topics')} retry={pages.refresh} />
      <section class="card">
        <header>
          <div class="fields">
            <label class={filter.search === '' ? 'field' : 'field on'}>
              <Icon name="search" small />
              <span class="sr">{t('search_topics')}</span>
              <input placeholder={t('search_topics')} {...search} />
            </label>
            <Choice
              label={t('state')}
              value={filter.state}
              options={[
                ['', t('any')],
                ['active', t('state_active')],
                ['paused', t('state_paused')],
                ['offline', t('state_offline')],
              ]}
              onChange={(state) => setQuery({ state })}
            />
            <TextChip label={t('owner')} value={filter.owner} onChange={(owner) => setQuery({ owner })} />
            {isFiltered ? (
              <button type="button" class="btn plain s" onClick={clear}>
                {t('clear_filters')}
              </button>
            ) : null}
          </div>
        </header>
        {pages.items === null ? (
          <Waiting error={pages.error} />
        ) : pages.items.length === 0 ? (
          <Empty>
            {t(isFiltered ? 'topics_none' : 'topics_empty')}{' '}
            {isFiltered ? (
              <button type="button" class="btn s" onClick={clear}>
                {t('clear_filters')}
              </button>
            ) : may('admin') ? (
              <a href={href('first')}>{t('first_job')}</a>
            ) : null}
          </Empty>
        ) : (
          <Table
            topics={pages.items}
            lines={lines}
            at={series.data?.at ?? []}
            courses={courses}
            failing={failing}
            refresh={refresh}
          />
        )}
        <More next={pages.more} />
      </section>
    </>
  );
}

type Line = Stats['topics'][number];

function Table({
  topics,
  lines,
  at,
  courses,
  failing,
  refresh,
}: {
  topics: readonly TopicJson[];
  lines: ReadonlyMap<string, Line>;
  at: TopicSeries['at'];
  courses: ReadonlyMap<string, TopicSeries['topics'][number]>;
  /** more than a few of their attempts fail, as the overview says */
  failing: ReadonlySet<string>;
  refresh: () => void;
}) {
  return (
    <>
      <div class="topics-box">
        <table class="desk topics">
          <thead>
            <tr>
              <th>{t('topic')}</th>
              <th>{t('state')}</th>
              <th class="right extra">{t('delay_short')}</th>
              <th class="extra">{t('callback')}</th>
              <th class="right">{t('delayed')}</th>
              <th class="right">{t('due')}</th>
              <th class="right wrap">{t('today_counts')}</th>
              <th class="right">{t('success_rate')}</th>
              <th class="right wrap">{t('duration_p95')}</th>
              <th class="right">{t('dead_letters')}</th>
              <th>{t('owner')}</th>
              <th>{t('last_24_hours')}</th>
              <th>
                <span class="sr">{t('actions')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {topics.map((topic) => {
              const { topic: name, title, state, delay, owner } = topic;
              const line = lines.get(name);
              return (
                <tr key={name}>
                  <td>
                    <span class="two">
                      <a class="name" href={href('topics', name)}>
                        {name}
                      </a>
                      <small>{title}</small>
                    </span>
                  </td>
                  <td>
                    <TopicState state={state} failing={failing.has(name)} />
                  </td>
                  <td class="right extra">{spoken(delay)}</td>
                  <td
                    class="cut mono faint extra"
                    title={topic.callbackUrl ?? (targetText(topic) || undefined)}
                  >
                    {placeOf(topic)}
                  </td>
                  <Count value={line?.states.delayed} />
                  <Count value={line?.states.ready} />
                  <td class="right">{line === undefined ? '–' : <Today {...line.today} />}</td>
                  <td class="right">{line === undefined ? '–' : successOf(line.today)}</td>
                  <Took at={at} values={courses.get(name)?.durationP95 ?? []} />
                  <td class="right">
                    {line !== undefined && line.states.dead > 0 ? (
                      <a href={hrefQuery(['dead'], { topic: name })}>{number(line.states.dead)}</a>
                    ) : (
                      <span class="faint">{line === undefined ? '–' : '0'}</span>
                    )}
                  </td>
                  <td class="soft">{owner}</td>
                  <td>
                    <Spark values={courses.get(name)?.delivered ?? []} colour="done" label={t('delivered')} />
                  </td>
                  <td class="right">
                    <RowMenu topic={topic} line={line} refresh={refresh} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <ul class="cards">
        {topics.map((topic) => {
          const { topic: name, title, state } = topic;
          const line = lines.get(name);
          return (
            <li key={name}>
              <div class="row">
                <a class="name" href={href('topics', name)}>
                  {name}
                </a>
                <span class="row">
                  <TopicState state={state} failing={failing.has(name)} />
                  <RowMenu topic={topic} line={line} refresh={refresh} />
                </span>
              </div>
              <div class="row soft">
                <span>{title}</span>
                <span class="num">
                  {t('delayed')} {number(line?.states.delayed ?? 0)}
                  {line === undefined ? '' : ` · ${successOf(line.today)}`}
                </span>
              </div>
            </li>
          );
        })}
      </ul>
    </>
  );
}

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

function Count({ value }: { value: number | undefined }) {
  if (value === undefined) return <td class="right faint">–</td>;
  return <td class={value === 0 ? 'right faint' : 'right'}>{number(value)}</td>;
}

/** The newest step with calls; the tooltip has those before it. */
function Took({ at, values }: { at: TopicSeries['at']; values: Column }) {
  const steps = values.flatMap((value, n) =>
    value === null ? [] : [{ value, text: `${axisClock(at[n] ?? 0, false)} ${duration(value)}` }],
  );
  const last = steps.at(-1);
  return (
    <td
      class={last === undefined ? 'right faint' : 'right nowrap'}
      title={steps.map(({ text }) => text).join(' · ')}
    >
      {last === undefined ? '–' : duration(last.value)}
    </td>
  );
}

/** Where the jobs go. */
function placeOf(topic: TopicJson): string {
  if (topic.delivery === 'pull') return t('choice_pull');
  return topic.delivery === 'mq' ? targetText(topic) : `${topic.method} ${hostOf(topic.callbackUrl ?? '')}`;
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
