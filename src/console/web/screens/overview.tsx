// Overview: open problems, totals, topics that need attention, open incidents. Everything comes from the
// summary that the shell polls.

import { useEffect } from 'preact/hooks';
import { may } from '../api/session.ts';
import type { Summary } from '../api/types.ts';
import { Horizon } from '../charts/horizon.tsx';
import { clock, duration, number, shortNumber, zone } from '../format.ts';
import { Card, Empty, Head, Icon, NewTopicLink, Tiles, TopicState, Waiting } from '../parts/parts.tsx';
import { go, href, hrefQuery } from '../router.ts';
import { summary } from '../shell.tsx';
import { t, wordOf } from '../words/words.ts';
import { askResume } from './topic-actions.tsx';

export function Overview() {
  const { value } = summary;
  if (value !== null && value.topics.active + value.topics.paused + value.topics.offline === 0)
    return <FirstSteps />;
  return (
    <>
      <Head title={t('overview')} sub={t('times_in', { zone: zone() })} />
      {value === null ? <Waiting rows={8} /> : <Figures {...value} />}
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

function Figures(data: Summary) {
  const { states, today, oldestOverdueMs, attention, incidents, topics } = data;
  const overdue = oldestOverdueMs !== null && oldestOverdueMs > 1_000;
  return (
    <>
      <Strips {...data} />
      <Tiles
        label={t('overview')}
        tiles={[
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
          {
            name: 'due_now',
            value: shortNumber(states.ready),
            how: overdue
              ? t('oldest_overdue', { time: duration(oldestOverdueMs ?? 0) })
              : t('nothing_overdue'),
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
        ]}
      />
      <div class="cols">
        <Horizon topic={null} />
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
          {attention.length === 0 ? <Empty>{t('attention_none')}</Empty> : <Attention lines={attention} />}
        </Card>
        <Card width={4} fill title={t('open_incidents')}>
          {incidents.length === 0 ? (
            <Empty>{t('no_incidents')}</Empty>
          ) : (
            <ul class="list">
              {incidents.map(({ kind, about, since, detail }) => (
                <li key={`${kind} ${about}`}>
                  <svg class="icon s" aria-hidden="true">
                    <circle class="fill-dead" cx="8" cy="8" r="4" stroke="none" />
                  </svg>
                  <span class="grow">
                    <span class="two">
                      <span>
                        {kind} {about}
                      </span>
                      <small class="faint">{detail}</small>
                    </span>
                  </span>
                  <time class="faint num">{clock(Date.parse(since))}</time>
                </li>
              ))}
            </ul>
          )}
        </Card>
      </div>
    </>
  );
}

function Strips({ attention, orphaned, missing, warnings }: Summary) {
  const paused = attention.filter(({ reasons }) => reasons.includes('paused'));
  return (
    <>
      {paused.slice(0, 3).map(({ topic, states }) => (
        <div class="strip warn" role="status" key={topic}>
          <Icon name="warn" />
          <span class="text">
            <b>{t('paused_strip', { topic })}</b> {t('paused_strip_text', { count: number(states.ready) })}
          </span>
          <span class="end">
            <a class="btn s" href={hrefQuery(['jobs'], { topic, state: 'ready' })}>
              {t('jobs')}
            </a>
            {may('operate') ? (
              <button type="button" class="btn s" onClick={() => askResume(topic, states.ready)}>
                {t('resume')}…
              </button>
            ) : null}
          </span>
        </div>
      ))}
      {orphaned > 0 ? (
        <div class="strip warn" role="status">
          <Icon name="warn" />
          <span class="text">
            <b>{t('orphaned_strip', { count: number(orphaned) })}</b> {t('orphaned_text')}
          </span>
        </div>
      ) : null}
      {missing !== undefined && missing.length > 0 ? (
        <div class="strip warn" role="status">
          <Icon name="warn" />
          <span class="text">{t('missing_shard', { shards: missing.join(', ') })}</span>
        </div>
      ) : null}
      {warnings.map((warning) => (
        <div class="strip warn" role="status" key={warning}>
          <Icon name="warn" />
          <span class="text">{warning}</span>
        </div>
      ))}
    </>
  );
}

function Attention({ lines }: { lines: Summary['attention'] }) {
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th>{t('topic')}</th>
            <th>{t('state')}</th>
            <th class="right">{t('delayed')}</th>
            <th class="right">{t('due')}</th>
            <th class="right">{t('delivered_today')}</th>
            <th class="right">{t('retried_today')}</th>
            <th class="right">{t('dead_letters')}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ topic, title, state, reasons, states, today }) => (
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
                <TopicState state={state ?? 'not_registered'} failing={reasons.includes('failing')} />
              </td>
              <td class="right">{number(states.delayed)}</td>
              <td class="right">{number(states.ready)}</td>
              <td class="right">{number(today.delivered)}</td>
              <td class="right">{number(today.retried)}</td>
              <td class="right">
                {states.dead > 0 ? (
                  <a href={hrefQuery(['dead'], { topic })}>{number(states.dead)}</a>
                ) : (
                  <span class="faint">0</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {lines.map(({ topic, title, state, reasons, states }) => (
          <li key={topic}>
            <div class="row">
              <a class="name" href={href('topics', topic)}>
                {topic}
              </a>
              <TopicState state={state ?? 'not_registered'} failing={reasons.includes('failing')} />
            </div>
            <div class="row soft">
              <span>
                {title === '' ? reasons.map((why) => wordOf(`why_${why}`, why)).join(' · ') : title}
              </span>
              <span class="num">
                {t('dead_letters')} {number(states.dead)}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
