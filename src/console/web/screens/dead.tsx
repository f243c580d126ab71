// Dead letters: newest first, by topic and time; requeue and purge of selected jobs or of all that match.

import { useEffect, useState } from 'preact/hooks';
import { type CallError, call } from '../api/call.ts';
import { daemonNow, may } from '../api/session.ts';
import type { DeadJson } from '../api/types.ts';
import { clock, number } from '../format.ts';
import { screenKeys } from '../keys.ts';
import { usePages } from '../pages.ts';
import { ask } from '../parts/dialog.tsx';
import {
  Choice,
  Empty,
  Head,
  Icon,
  JobLink,
  LoadError,
  More,
  TextChip,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { place, setQuery } from '../router.ts';
import { summary } from '../shell.tsx';
import { t } from '../words/words.ts';

const hourMs = 3_600_000;
const ages: Readonly<Record<string, number>> = { '1h': hourMs, '24h': 24 * hourMs, '7d': 168 * hourMs };
/** Calls of one bulk action: dq moves a bounded number of jobs per call. */
const bulkCallsMax = 1_000;

interface Filter {
  readonly topic?: string;
  readonly since?: string;
}

export function DeadLetters() {
  const { query } = place.value;
  const topic = query.get('topic') ?? '';
  const age = query.get('age') ?? '';
  // One time for all pages and for the action: a filter that moves would not match what is shown.
  const [from, setFrom] = useState(() => daemonNow());
  useEffect(() => setFrom(daemonNow()), [age]);
  const ageMs = ages[age];
  const filter: Filter = {
    ...(topic === '' ? {} : { topic }),
    ...(ageMs === undefined ? {} : { since: new Date(from - ageMs).toISOString() }),
  };
  const pages = usePages<DeadJson>('/v1/dead', { ...filter, limit: '50' }, 5_000);
  const total = summary.value?.states.dead ?? null;
  return (
    <>
      <Head
        title={t('dead_letters')}
        sub={t('dead_sub')}
        actions={
          may('operate') && pages.items !== null && pages.items.length > 0 ? (
            <AllActions
              filter={filter}
              count={topic === '' && age === '' ? total : null}
              changed={pages.refresh}
            />
          ) : undefined
        }
      />
      <LoadError error={pages.error} what={t('dead_letters')} retry={pages.refresh} />
      <section class="card">
        <header>
          <div class="fields">
            <TextChip
              label={t('filter_topic')}
              value={topic}
              onChange={(value) => setQuery({ topic: value })}
            />
            <Choice
              label={t('filter_time')}
              value={age}
              options={[
                ['', t('any')],
                ['1h', t('last_hour')],
                ['24h', t('last_day')],
                ['7d', t('last_week')],
              ]}
              onChange={(value) => setQuery({ age: value })}
            />
          </div>
        </header>
        {pages.items === null ? (
          <Waiting />
        ) : pages.items.length === 0 ? (
          <Empty>{t('dead_none')}</Empty>
        ) : (
          <Table jobs={pages.items} changed={pages.refresh} />
        )}
        <More next={pages.more} />
      </section>
    </>
  );
}

/** Repeats the call until no more match. Returns the number of jobs. */
async function repeat(step: () => Promise<{ moved: number; more: boolean }>): Promise<number> {
  let total = 0;
  for (let n = 0; n < bulkCallsMax; n += 1) {
    const { moved, more } = await step();
    total += moved;
    if (!more) break;
  }
  return total;
}

/** `until`: jobs that die after the start of the action are left: without it a job that dies again would be
 *  requeued in a circle. */
async function requeue(filter: Filter & { ids?: readonly string[] }): Promise<number> {
  const until = new Date(daemonNow()).toISOString();
  const isAll = filter.topic === undefined && filter.since === undefined;
  return repeat(async () => {
    const { requeued, more } = await call<{ requeued: number; more: boolean }>('POST', '/v1/dead/requeue', {
      json: filter.ids === undefined ? { ...filter, ...(isAll ? { all: true } : {}), until } : filter,
    });
    return { moved: requeued, more };
  });
}

async function purge(filter: Filter, until: string): Promise<number> {
  const isAll = filter.topic === undefined && filter.since === undefined;
  return repeat(async () => {
    const { purged, more } = await call<{ purged: number; more: boolean }>('DELETE', '/v1/dead', {
      query: { ...filter, ...(isAll ? { all: 'true' } : {}), until },
    });
    return { moved: purged, more };
  });
}

function AllActions({
  filter,
  count,
  changed,
}: {
  filter: Filter;
  /** null: not known for this filter */
  count: number | null;
  changed: () => void;
}) {
  const shown = count === null ? t('all_matching') : number(count);
  return (
    <>
      <button
        type="button"
        class="btn"
        onClick={() =>
          ask({
            title: t('requeue_question', { count: shown }),
            body: t('requeue_text'),
            action: t('requeue'),
            run: async () => {
              toast(t('toast_requeued', { count: number(await requeue(filter)) }));
              changed();
            },
          })
        }
      >
        <Icon name="redo" />
        {t('requeue_all')}…
      </button>
      <button
        type="button"
        class="btn danger"
        onClick={() => {
          // Jobs that die after the question were not in it.
          const until = new Date(daemonNow()).toISOString();
          ask({
            title: t('purge_question', { count: shown }),
            body: t('purge_text', { count: shown }),
            action: t('purge'),
            danger: true,
            typed: shown,
            run: async () => {
              toast(t('toast_purged', { count: number(await purge(filter, until)) }));
              changed();
            },
          });
        }}
      >
        <Icon name="trash" />
        {t('purge')}…
      </button>
    </>
  );
}

const keyOf = ({ topic, id, version }: DeadJson): string => `${topic} ${id} ${version}`;

function Table({ jobs, changed }: { jobs: readonly DeadJson[]; changed: () => void }) {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const chosen = jobs.filter((job) => picked.has(keyOf(job)));
  const toggle = (job: DeadJson): void => {
    const next = new Set(picked);
    if (!next.delete(keyOf(job))) next.add(keyOf(job));
    setPicked(next);
  };
  const requeueChosen = (): void => {
    const byTopic = new Map<string, string[]>();
    for (const { topic, id } of chosen) byTopic.set(topic, [...(byTopic.get(topic) ?? []), id]);
    Promise.all([...byTopic].map(([topic, ids]) => requeue({ topic, ids })))
      .then((counts) => {
        toast(t('toast_requeued', { count: number(counts.reduce((sum, n) => sum + n, 0)) }));
        setPicked(new Set());
        changed();
      })
      .catch((error: CallError) => toast(error.message));
  };
  useEffect(() => {
    screenKeys.set('R', requeueChosen);
    screenKeys.set('r', changed);
    return () => {
      screenKeys.delete('R');
      screenKeys.delete('r');
    };
  });
  const operates = may('operate');
  return (
    <>
      {chosen.length === 0 ? null : (
        <div class="pickbar">
          <b>{t('selected', { count: chosen.length })}</b>
          <span class="grow" />
          <button type="button" class="btn s" onClick={requeueChosen}>
            <Icon name="redo" small />
            {t('requeue')}
          </button>
        </div>
      )}
      <table class="desk">
        <thead>
          <tr>
            {operates ? (
              <th class="w0">
                <input
                  type="checkbox"
                  aria-label={t('select_page')}
                  checked={chosen.length === jobs.length}
                  onChange={() => setPicked(new Set(chosen.length === jobs.length ? [] : jobs.map(keyOf)))}
                />
              </th>
            ) : null}
            <th class="w3">{t('job')}</th>
            <th>{t('topic')}</th>
            <th>{t('last_failure')}</th>
            <th class="right">{t('attempts')}</th>
            <th class="w3">{t('reply')}</th>
            <th class="right">{t('dead_since')}</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={keyOf(job)} class={picked.has(keyOf(job)) ? 'picked' : ''}>
              {operates ? (
                <td>
                  <input
                    type="checkbox"
                    aria-label={t('select_row', { id: job.id })}
                    checked={picked.has(keyOf(job))}
                    onChange={() => toggle(job)}
                  />
                </td>
              ) : null}
              <td class="cut">
                <JobLink {...job} />
              </td>
              <td>
                <TopicLink topic={job.topic} />
              </td>
              <td>
                <span class="tag bad">{failureOf(job)}</span>
              </td>
              <td class="right">{number(job.attempt)}</td>
              <td class="cut mono faint">{job.replyExcerpt}</td>
              <td class="right soft">{clock(Date.parse(job.deadAt))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {jobs.map((job) => (
          <li key={keyOf(job)} class={picked.has(keyOf(job)) ? 'picked' : ''}>
            <div class="row">
              {operates ? (
                <input
                  type="checkbox"
                  aria-label={t('select_row', { id: job.id })}
                  checked={picked.has(keyOf(job))}
                  onChange={() => toggle(job)}
                />
              ) : null}
              <JobLink {...job} />
              <span class="tag bad">{failureOf(job)}</span>
            </div>
            <div class="row faint">
              <span>{job.topic}</span>
              <span class="num">{clock(Date.parse(job.deadAt))}</span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

function failureOf({ reason, status }: DeadJson): string {
  return status === null ? reason : `${reason} ${status}`;
}
