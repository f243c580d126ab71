// Topics: the list with today's counters; search by name, title or owner.

import { usePoll } from '../api/poll.ts';
import type { Stats, TopicJson } from '../api/types.ts';
import { number } from '../format.ts';
import { usePages } from '../pages.ts';
import { Empty, Head, Icon, LoadError, More, NewTopicLink, TopicState, Waiting } from '../parts/parts.tsx';
import { href, hrefQuery, place, setQuery } from '../router.ts';
import { t } from '../words/words.ts';

export function Topics() {
  const search = place.value.query.get('search') ?? '';
  const pages = usePages<TopicJson>('/v1/topics', { search, limit: '50' }, 5_000);
  const stats = usePoll<Stats>('/v1/stats', 5_000);
  const lines = new Map(stats.data?.topics.map((line) => [line.topic, line]));
  return (
    <>
      <Head title={t('topics')} sub={t('topics_sub')} actions={<NewTopicLink />} />
      <LoadError error={pages.error} what={t('topics')} retry={pages.refresh} />
      <section class="card">
        <header>
          <div class="fields">
            <label class={search === '' ? 'field' : 'field on'}>
              <Icon name="search" small />
              <span class="sr">{t('search_topics')}</span>
              <input
                placeholder={t('search_topics')}
                value={search}
                onChange={(event) => setQuery({ search: event.currentTarget.value.trim() })}
              />
            </label>
            {search === '' ? null : (
              <button type="button" class="btn plain s" onClick={() => setQuery({ search: '' })}>
                {t('clear_filters')}
              </button>
            )}
          </div>
        </header>
        {pages.items === null ? (
          <Waiting />
        ) : pages.items.length === 0 ? (
          <Empty>{t(search === '' ? 'topics_empty' : 'topics_none')}</Empty>
        ) : (
          <Table topics={pages.items} lines={lines} />
        )}
        <More next={pages.more} />
      </section>
    </>
  );
}

type Line = Stats['topics'][number];

function Table({ topics, lines }: { topics: readonly TopicJson[]; lines: ReadonlyMap<string, Line> }) {
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th>{t('topic')}</th>
            <th>{t('state')}</th>
            <th>{t('callback')}</th>
            <th class="right">{t('delayed')}</th>
            <th class="right">{t('due')}</th>
            <th class="right">{t('delivered_today')}</th>
            <th class="right">{t('retried_today')}</th>
            <th class="right">{t('dead_letters')}</th>
            <th>{t('owner')}</th>
          </tr>
        </thead>
        <tbody>
          {topics.map(({ topic, title, state, method, callbackUrl, owner }) => {
            const line = lines.get(topic);
            return (
              <tr key={topic}>
                <td>
                  <span class="two">
                    <a class="name" href={href('topics', topic)}>
                      {topic}
                    </a>
                    <small>{title}</small>
                  </span>
                </td>
                <td>
                  <TopicState state={state} />
                </td>
                <td class="cut mono faint">
                  {method} {hostOf(callbackUrl)}
                </td>
                <Count value={line?.states.delayed} />
                <Count value={line?.states.ready} />
                <Count value={line?.today.delivered} />
                <Count value={line?.today.retried} />
                <td class="right">
                  {line !== undefined && line.states.dead > 0 ? (
                    <a href={hrefQuery(['dead'], { topic })}>{number(line.states.dead)}</a>
                  ) : (
                    <span class="faint">{line === undefined ? '–' : '0'}</span>
                  )}
                </td>
                <td class="soft">{owner}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <ul class="cards">
        {topics.map(({ topic, title, state }) => (
          <li key={topic}>
            <div class="row">
              <a class="name" href={href('topics', topic)}>
                {topic}
              </a>
              <TopicState state={state} />
            </div>
            <div class="row soft">
              <span>{title}</span>
              <span class="num">
                {t('delayed')} {number(lines.get(topic)?.states.delayed ?? 0)}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

function Count({ value }: { value: number | undefined }) {
  if (value === undefined) return <td class="right faint">–</td>;
  return <td class={value === 0 ? 'right faint' : 'right'}>{number(value)}</td>;
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
