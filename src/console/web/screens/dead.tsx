// Dead letters: running operations, groups by cause, and the list. A selection is requeued directly; all that
// match, by an operation that goes on without the page.

import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may, summary } from '../api/session.ts';
import type { DeadGroup, DeadGroups, DeadJson, OperationFilter } from '../api/types.ts';
import { writeQuery } from '../find-query.ts';
import { number, relative } from '../format.ts';
import { screenKeys } from '../keys.ts';
import { usePages } from '../pages.ts';
import {
  askPurge,
  askRequeue,
  askRequeueByTime,
  namedFilters,
  RunningOperations,
} from '../parts/operations.tsx';
import {
  Card,
  Choice,
  Empty,
  errorText,
  Failure,
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
import { Time } from '../parts/time.tsx';
import { hrefQuery, place, setQuery } from '../router.ts';
import { t } from '../words/words.ts';

const hourMs = 3_600_000;
const ages: Readonly<Record<string, number>> = { '1h': hourMs, '24h': 24 * hourMs, '7d': 168 * hourMs };
/** A larger selection asks first and becomes an operation. */
const directMax = 100;
const groupsShown = 8;

const buryReasons = ['attempts_exhausted', 'gone', 'no_retry', 'poison', 'nacked', 'expired'] as const;
const attemptReasons = [
  ...['timeout', 'status', 'rule', 'connect', 'dns', 'tls', 'reset', 'protocol'],
  ...['reply_too_large', 'empty_reply', 'blocked_address', 'lease_expired', 'nacked'],
  ...['mq_refused', 'mq_unroutable'],
];

export function DeadLetters() {
  const { query } = place.value;
  const of = (name: string): string => query.get(name) ?? '';
  const age = of('age');
  // One time for all pages and for the action: a filter that moves would not match what is shown.
  const from = useMemo(daemonNow, [age]);
  const ageMs = ages[age];
  const given = {
    topic: of('topic'),
    reason: of('reason'),
    lastReason: of('lastReason'),
    status: of('status'),
    since: ageMs === undefined ? '' : new Date(from - ageMs).toISOString(),
  };
  const filter: Omit<OperationFilter, 'ids' | 'versions'> = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== ''),
  );
  // The find box may add these. An action on all that match would reach more jobs than the query names.
  const [id, idPrefix, body, due] = [of('id'), of('idPrefix'), of('body'), of('due')];
  const unapplied = writeQuery({ id, idPrefix, body, due });
  const isFiltered = Object.keys(filter).length > 0 || unapplied !== '';
  const pages = usePages<DeadJson>('/v1/dead', { ...filter, limit: '50' }, 5_000);
  const groups = usePoll<DeadGroups>('/v1/dead/groups', 10_000);
  const total = summary.value?.states.dead ?? null;
  const count = isFiltered ? countIn(groups.data, filter) : total;
  return (
    <>
      <Head
        title={t('dead_letters')}
        sub={t('dead_sub')}
        actions={
          may('operate') && unapplied === '' && pages.items !== null && pages.items.length > 0 ? (
            <>
              <button type="button" class="btn desk" onClick={() => askRequeueByTime(topicOf(filter))}>
                {t('op_by_time')}…
              </button>
              <button type="button" class="btn" onClick={() => askRequeue([filter], filter.topic, count)}>
                <Icon name="redo" />
                {t('requeue_all')}…
              </button>
              <button
                type="button"
                class="btn danger desk"
                onClick={() => askPurge([filter], filter.topic, count)}
              >
                <Icon name="trash" />
                {t('purge')}…
              </button>
            </>
          ) : undefined
        }
      />
      <RunningOperations />
      {groups.data === null || groups.data.groups.length === 0 ? null : <Causes {...groups.data} />}
      <LoadError error={pages.error} what={t('dead_letters')} retry={pages.refresh} />
      <section class="card">
        <header>
          <div class="fields">
            <TextChip
              label={t('filter_topic')}
              value={given.topic}
              onChange={(value) => setQuery({ topic: value })}
            />
            {given.reason === '' ? null : (
              <Choice
                label={t('dead_because')}
                value={given.reason}
                options={[['', t('any')], ...buryReasons.map((reason) => [reason, reason] as const)]}
                onChange={(value) => setQuery({ reason: value })}
              />
            )}
            <Choice
              label={t('filter_reason')}
              value={given.lastReason}
              options={[['', t('any')], ...attemptReasons.map((reason) => [reason, reason] as const)]}
              onChange={(value) => setQuery({ lastReason: value })}
            />
            <TextChip
              label={t('filter_status')}
              value={given.status}
              onChange={(value) => setQuery({ status: value })}
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
            {isFiltered ? (
              <button
                type="button"
                class="btn plain s"
                onClick={() =>
                  setQuery({
                    ...{ topic: '', reason: '', lastReason: '', status: '', age: '' },
                    ...{ id: '', idPrefix: '', body: '', due: '' },
                  })
                }
              >
                {t('clear_filters')}
              </button>
            ) : null}
          </div>
          {count === null ? null : (
            <span class="end note desk">{t('matches', { count: number(count) })}</span>
          )}
        </header>
        <Failure text={unapplied === '' ? null : t('dead_unapplied', { query: unapplied })} place="nothing" />
        {pages.items === null ? (
          <Waiting error={pages.error} />
        ) : pages.items.length === 0 ? (
          <Empty>{t(isFiltered ? 'dead_no_match' : 'dead_none')}</Empty>
        ) : (
          <Table
            jobs={pages.items}
            filter={filter}
            isWhole={unapplied === ''}
            count={count}
            changed={pages.refresh}
          />
        )}
        <More next={pages.more} />
      </section>
    </>
  );
}

const topicOf = ({ topic }: OperationFilter): OperationFilter => (topic === undefined ? {} : { topic });

/** The number of dead letters of a filter; null: the groups do not tell it. */
function countIn(groups: DeadGroups | null, filter: OperationFilter) {
  const { topic, reason, lastReason, status, since } = filter;
  if (groups === null || !groups.complete || since !== undefined || reason !== undefined) return null;
  return groups.groups
    .filter(
      (one) =>
        (topic === undefined || one.topic === topic) &&
        (lastReason === undefined || one.lastReason === lastReason) &&
        (status === undefined || isStatus(status, one.status)),
    )
    .reduce((sum, one) => sum + one.count, 0);
}

function isStatus(wanted: string, status: number | null): boolean {
  if (wanted === 'none' || status === null) return wanted === 'none' && status === null;
  return wanted.endsWith('xx') ? wanted[0] === String(status)[0] : wanted === String(status);
}

// By cause

function Causes({ groups, examined, complete }: DeadGroups) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? groups : groups.slice(0, groupsShown);
  const keyed = shown.map((group) => [`${group.topic} ${group.lastReason} ${group.status}`, group] as const);
  return (
    <Card
      title={t('by_cause')}
      note={complete ? t('by_cause_all') : t('by_cause_newest', { count: number(examined) })}
    >
      <table class="desk">
        <thead>
          <tr>
            <th>{t('topic')}</th>
            <th>{t('last_failure')}</th>
            <th class="right">{t('jobs')}</th>
            <th>{t('last_12_h')}</th>
            <th>{t('first_seen')}</th>
            <th>{t('last_seen')}</th>
            <th>
              <span class="sr">{t('actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keyed.map(([key, group]) => (
            <tr key={key}>
              <td>
                <TopicLink topic={group.topic} />
              </td>
              <td>
                <span class="tag bad">{causeText(group)}</span>
              </td>
              <td class="right">
                <b>{number(group.count)}</b>
              </td>
              <td>
                <Spark hours={group.hours} />
              </td>
              <td class="soft nowrap">
                <Time at={group.firstAt} />
              </td>
              <td class="soft nowrap">
                <Time at={group.lastAt} text={relative} />
              </td>
              <td class="right nowrap">
                <CauseActions group={group} isExact={complete} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {keyed.map(([key, group]) => (
          <li key={key}>
            <div class="row">
              <TopicLink topic={group.topic} />
              <b class="num">{number(group.count)}</b>
            </div>
            <div class="row">
              <span class="tag bad">{causeText(group)}</span>
              <span class="faint">
                <Time at={group.lastAt} text={relative} />
              </span>
              <CauseActions group={group} isExact={complete} />
            </div>
          </li>
        ))}
      </ul>
      <More next={groups.length > shown.length ? () => setWhole(true) : null} />
    </Card>
  );
}

const causeText = ({ lastReason, status }: DeadGroup): string =>
  [lastReason ?? t('cause_none'), status].filter((part) => part !== null).join(' ');

function CauseActions({ group, isExact }: { group: DeadGroup; isExact: boolean }) {
  const { topic, lastReason, status } = group;
  // Jobs without an attempt are poisoned ones. Their filter also finds poisoned jobs whose last attempt had
  // no reply, so the number of the group is not theirs.
  const isPoison = lastReason === null;
  const cause = isPoison ? { reason: 'poison' } : { lastReason };
  const filter = { topic, ...cause, status: status === null ? 'none' : String(status) };
  return (
    <>
      <a class="btn plain s" href={hrefQuery(['dead'], filter)}>
        {t('view')}
      </a>
      {may('operate') ? (
        <button
          type="button"
          class="btn s"
          onClick={() => askRequeue([filter], topic, isExact && !isPoison ? group.count : null)}
        >
          <Icon name="redo" small />
          {t('requeue')}…
        </button>
      ) : null}
    </>
  );
}

function Spark({ hours }: { hours: readonly number[] }) {
  const top = Math.max(1, ...hours);
  const step = 72 / Math.max(1, hours.length - 1);
  const points = hours.map((n, at) => `${(1 + at * step).toFixed(1)} ${(20 - (17 * n) / top).toFixed(1)}`);
  const line = `M${points.join('L')}`;
  return (
    <svg class="spark" viewBox="0 0 74 22" role="img" aria-label={t('dead_per_hour')}>
      <path class="area fill-dead" d={`${line}L73 22L1 22Z`} />
      <path class="l stroke-dead" d={line} />
    </svg>
  );
}

// The list

const keyOf = ({ topic, id, version }: DeadJson): string => `${topic} ${id} ${version}`;

async function requeueNamed(jobs: readonly DeadJson[]): Promise<number> {
  let requeued = 0;
  // Of the shown deaths: a job that died again since then is another dead letter.
  const until = new Date(Math.max(...jobs.map(({ deadAt }) => Date.parse(deadAt))) + 1).toISOString();
  for (const { topic, ids } of namedFilters(jobs)) {
    const done = await call<{ requeued: number }>('POST', '/v1/dead/requeue', {
      json: { topic, ids, until },
    });
    requeued += done.requeued;
  }
  return requeued;
}

function Table({
  jobs,
  filter,
  isWhole,
  count,
  changed,
}: {
  jobs: readonly DeadJson[];
  filter: OperationFilter;
  /** whether the filter is all that the address names */
  isWhole: boolean;
  count: number | null;
  changed: () => void;
}) {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const chosen = jobs.filter((job) => isAll || picked.has(keyOf(job)));
  const isPicked = (job: DeadJson): boolean => isAll || picked.has(keyOf(job));
  const pick = (keys: readonly string[]): void => {
    setAll(false);
    setPicked(new Set(keys));
  };
  useLayoutEffect(() => pick([]), [JSON.stringify(filter)]);
  const toggle = (job: DeadJson): void => {
    const keys = chosen.map(keyOf);
    const key = keyOf(job);
    pick(isPicked(job) ? keys.filter((one) => one !== key) : [...keys, key]);
  };
  const topics = new Set(chosen.map(({ topic }) => topic));
  const oneTopic = topics.size === 1 ? chosen[0]?.topic : undefined;
  const requeueChosen = (): void => {
    if (chosen.length === 0) return;
    if (isAll) askRequeue([filter], filter.topic, count);
    else if (chosen.length > directMax) askRequeue(namedFilters(chosen), oneTopic, chosen.length);
    else
      requeueNamed(chosen)
        .then((requeued) => {
          setFailure(null);
          toast(t('toast_requeued', { count: number(requeued) }));
          pick([]);
          changed();
        })
        .catch((error: unknown) => setFailure(errorText(error)));
  };
  const purgeChosen = (): void => {
    if (isAll) askPurge([filter], filter.topic, count);
    else askPurge(namedFilters(chosen), oneTopic, chosen.length);
  };
  // A layout effect: an effect runs after the next frame, and until then the keys would act on the rows that
  // were selected before.
  useLayoutEffect(() => {
    screenKeys.set('R', requeueChosen);
    screenKeys.set('r', changed);
    return () => {
      screenKeys.delete('R');
      screenKeys.delete('r');
    };
  });
  const operates = may('operate');
  const isWholePage = chosen.length === jobs.length;
  return (
    <>
      <Failure text={failure} place="nothing" />
      {chosen.length === 0 ? null : (
        <div class="pickbar">
          <b>{isAll ? t('all_match_selected') : t('selected', { count: chosen.length })}</b>
          {isAll || !isWhole ? null : (
            <button type="button" class="btn plain s" onClick={() => setAll(true)}>
              {count === null ? t('select_all_match') : t('select_all_count', { count: number(count) })}
            </button>
          )}
          <span class="grow" />
          <button type="button" class="btn s" onClick={requeueChosen}>
            <Icon name="redo" small />
            {t('requeue')}
            {isAll || chosen.length > directMax ? '…' : ''}
          </button>
          <button type="button" class="btn s danger" onClick={purgeChosen}>
            <Icon name="trash" small />
            {t('purge')}…
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
                  checked={isWholePage}
                  onChange={() => pick(isWholePage ? [] : jobs.map(keyOf))}
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
            <tr key={keyOf(job)} class={isPicked(job) ? 'picked' : ''}>
              {operates ? (
                <td>
                  <input
                    type="checkbox"
                    aria-label={t('select_row', { id: job.id })}
                    checked={isPicked(job)}
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
              <td class="right soft">
                <Time at={job.deadAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {jobs.map((job) => (
          <li key={keyOf(job)} class={isPicked(job) ? 'picked' : ''}>
            <div class="row">
              {operates ? (
                <input
                  type="checkbox"
                  aria-label={t('select_row', { id: job.id })}
                  checked={isPicked(job)}
                  onChange={() => toggle(job)}
                />
              ) : null}
              <JobLink {...job} />
              <span class="tag bad">{failureOf(job)}</span>
            </div>
            <div class="row faint">
              <span>{job.topic}</span>
              <span class="num">
                <Time at={job.deadAt} />
              </span>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

/** As the causes name it. Without an attempt, why the job became a dead letter. */
function failureOf({ reason, lastReason, status }: DeadJson): string {
  return [lastReason ?? reason, status].filter((part) => part !== null).join(' ');
}
