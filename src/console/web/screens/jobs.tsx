// Jobs: live, dead and ended jobs by topic, state, time, id, beginning of the id or part of the body.

import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { daemonNow, may } from '../api/session.ts';
import type { JobSummary, OperationFilter, OperationKind } from '../api/types.ts';
import { isSearchable, readDue } from '../find-query.ts';
import { duration, number, relative } from '../format.ts';
import { usePages } from '../pages.ts';
import { askJobs, namedFilters, RunningOperations, start, verbsOf } from '../parts/operations.tsx';
import {
  Choice,
  Empty,
  errorText,
  Failure,
  Head,
  Icon,
  JobLink,
  JobState,
  LoadError,
  More,
  TextChip,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { place, type Segments, setQuery } from '../router.ts';
import { t, wordOf } from '../words/words.ts';
import { Job } from './job.tsx';
import { ScanProgress, useScan } from './scan.tsx';
import { requeueJob, runNow } from './topic-actions.tsx';

const states = ['delayed', 'ready', 'reserved', 'dead', 'done', 'cancelled', 'purged', 'expired'];

export function JobPages({ first, second }: Segments) {
  if (first === undefined || second === undefined) return <Jobs />;
  return <Job key={`${first} ${second}`} topic={first} id={second} />;
}

function Jobs() {
  return (
    <>
      <Head title={t('jobs')} sub={t('jobs_sub')} />
      <JobList topic={null} />
    </>
  );
}

/** `topic` not null: the jobs of one topic, on its page. */
export function JobList({ topic }: { topic: string | null }) {
  const { query } = place.value;
  const filter = {
    topic: topic ?? query.get('topic') ?? '',
    state: query.get('state') ?? '',
    id: query.get('id') ?? '',
  };
  const due = query.get('due') ?? '';
  // Durations count from the moment in which the filter is set: pages of one list have the same range.
  const range = useMemo(() => (due === '' ? {} : readDue(due, Math.round(daemonNow()))), [due]);
  const part = { idPrefix: query.get('idPrefix') ?? '', body: query.get('body') ?? '' };
  const isScan = part.idPrefix !== '' || part.body !== '';
  const given = (all: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
  const scan = useScan(isScan ? given({ ...filter, id: '', ...part, ...range }) : null);
  const list = usePages<JobSummary>(isScan ? null : '/v1/jobs', { ...filter, ...range, limit: '50' }, 5_000);
  const pages = isScan ? scan : list;
  const isFiltered =
    isScan ||
    due !== '' ||
    filter.state !== '' ||
    filter.id !== '' ||
    (topic === null && filter.topic !== '');
  return (
    <>
      <RunningOperations />
      <LoadError error={pages.error} what={t('jobs')} retry={pages.refresh} />
      <section class="card">
        <header>
          <div class="fields">
            {topic !== null ? null : (
              <TextChip
                label={t('topic')}
                value={filter.topic}
                onChange={(value) => setQuery({ topic: value })}
              />
            )}
            <Choice
              label={t('state')}
              value={filter.state}
              options={[
                ['', t('state_live')] as const,
                ...states.map((state) => [state, wordOf(`job_${state}`, state)] as const),
              ]}
              onChange={(state) => setQuery({ state })}
            />
            {isScan ? null : (
              <TextChip label={t('job_id')} value={filter.id} onChange={(id) => setQuery({ id })} />
            )}
            <TextChip
              label={t('id_begins')}
              value={part.idPrefix}
              onChange={(idPrefix) => setQuery({ idPrefix, id: '' })}
            />
            <TextChip
              label={t('body_contains')}
              value={part.body}
              onChange={(body) => setQuery({ body, id: '' })}
            />
            <TextChip
              label={t('due_chip')}
              value={due}
              placeholder={t('due_placeholder')}
              onChange={(value) => setQuery({ due: value })}
            />
            {isFiltered ? (
              <button
                type="button"
                class="btn plain s"
                onClick={() => setQuery({ topic: '', state: '', id: '', idPrefix: '', body: '', due: '' })}
              >
                {t('clear_filters')}
              </button>
            ) : null}
          </div>
          {isScan && scan.items !== null ? (
            <span class="end note">
              {t(scan.more === null && !scan.progress.isRunning ? 'found_all' : 'found_so_far', {
                count: number(scan.items.length),
              })}
            </span>
          ) : null}
        </header>
        <Failure text={range === null ? t('due_wrong') : null} place="nothing" />
        {isScan ? <ScanProgress scan={scan} isBody={part.body !== ''} /> : null}
        {pages.items === null ? (
          <Waiting error={pages.error} />
        ) : isScan &&
          pages.items.length === 0 &&
          (scan.progress.isRunning || scan.more !== null) ? null : pages.items.length === 0 ? (
          <Empty>
            {t('no_jobs')} {part.body === '' ? null : t('ended_no_body')}
            {part.body === '' && isSearchable(part.idPrefix) ? (
              <button
                type="button"
                class="btn s"
                onClick={() => setQuery({ idPrefix: '', body: part.idPrefix })}
              >
                {t('find_bodies', { text: part.idPrefix })}
              </button>
            ) : null}
          </Empty>
        ) : (
          <Table
            jobs={pages.items}
            filter={
              part.body === '' && range !== null
                ? operationFilter({ ...filter, ...range, idPrefix: part.idPrefix })
                : null
            }
            withTopic={topic === null}
            changed={pages.refresh}
          />
        )}
        <More next={pages.more} />
      </section>
    </>
  );
}

/** The filter of an operation on all jobs that match; null: an operation cannot have this filter. */
function operationFilter({ id, ...filter }: Readonly<Record<string, string>>): OperationFilter | null {
  if (id !== '') return null;
  // An operation on dead letters reads times as times of death; this list is by due time.
  const { state, since = '', until = '' } = filter;
  if (state === 'dead' && since + until !== '') return null;
  // Text in JSON is RFC 3339; a query also takes epoch ms.
  const timeOf = (value: string) => (/^\d+$/.test(value) ? new Date(Number(value)).toISOString() : value);
  const given = Object.entries(filter).filter(([, value]) => value !== '');
  return Object.fromEntries(
    given.map(([name, value]) => [name, name === 'since' || name === 'until' ? timeOf(value) : value]),
  );
}

/** When the job is due, or since when it is over: a sentence and a time. */
function when({ state, dueAt, deadAt, endedAt }: JobSummary): readonly [string, number] {
  const due = Date.parse(dueAt);
  if (endedAt !== undefined) return [relative(Date.parse(endedAt)), Date.parse(endedAt)];
  if (state === 'dead' && deadAt !== undefined) {
    const died = Date.parse(deadAt);
    return [t('dead_for', { time: duration(daemonNow() - died) }), died];
  }
  if (due <= daemonNow()) return [t('due_ago', { time: duration(daemonNow() - due) }), due];
  return [relative(due), due];
}

const keyOf = ({ topic, id, version }: JobSummary): string => `${topic} ${id} ${version}`;

/** Actions on the selected jobs. `all`: every job that matches, also those that the page does not show. */
function PickBar({
  chosen,
  filter,
  isAll,
  setAll,
  act,
}: {
  chosen: readonly JobSummary[];
  filter: OperationFilter | null;
  isAll: boolean;
  setAll: () => void;
  act: (work: Promise<void>) => void;
}) {
  const states = isAll ? [filter?.state ?? ''] : [...new Set(chosen.map(({ state }) => state))];
  const topics = new Set(chosen.map(({ topic }) => topic));
  const topic = isAll ? filter?.topic : topics.size === 1 ? chosen[0]?.topic : undefined;
  const named = (state: string) =>
    namedFilters(chosen.filter((job) => job.state === state)).map((one) => ({ ...one, state }));
  const filtersFor = (kind: OperationKind): readonly OperationFilter[] => {
    if (isAll && filter !== null) return [filter];
    // An operation reschedules jobs of one state.
    return kind === 'reschedule' ? states.flatMap(named) : namedFilters(chosen);
  };
  const count = isAll ? null : chosen.length;
  const run = (kind: OperationKind): void => {
    const asks = isAll || kind === 'cancel' || kind === 'reschedule';
    if (asks) askJobs(kind, filtersFor(kind), topic, count);
    else act(start(filtersFor(kind).map((one) => ({ kind, filter: one }))));
  };
  const icons: Readonly<Record<string, string>> = { run: 'play', requeue: 'redo', cancel: 'x' };
  return (
    <div class="pickbar">
      <b>{isAll ? t('all_match_selected') : t('selected', { count: chosen.length })}</b>
      {isAll || filter === null ? null : (
        <button type="button" class="btn plain s" onClick={setAll}>
          {t('select_all_match')}
        </button>
      )}
      <span class="grow" />
      {verbsOf(states).map((kind) => (
        <button
          key={kind}
          type="button"
          class={kind === 'cancel' ? 'btn s danger' : 'btn s'}
          onClick={() => run(kind)}
        >
          <Icon name={icons[kind] ?? 'clock'} small />
          {t(kind === 'run' ? 'run_now' : `op_${kind}`)}
          {isAll || kind === 'cancel' || kind === 'reschedule' ? '…' : ''}
        </button>
      ))}
    </div>
  );
}

function Table({
  jobs,
  filter,
  withTopic,
  changed,
}: {
  jobs: readonly JobSummary[];
  /** null: an action on all that match is not possible */
  filter: OperationFilter | null;
  withTopic: boolean;
  changed: () => void;
}) {
  const [failure, setFailure] = useState<string | null>(null);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const pick = (keys: readonly string[]): void => {
    setAll(false);
    setPicked(new Set(keys));
  };
  useLayoutEffect(() => pick([]), [JSON.stringify(filter)]);
  const operates = may('operate');
  const canPick = (job: JobSummary): boolean => job.endedAt === undefined;
  const live = jobs.filter(canPick);
  const isPicked = (job: JobSummary): boolean => canPick(job) && (isAll || picked.has(keyOf(job)));
  const chosen = live.filter(isPicked);
  const toggle = (job: JobSummary): void => {
    const keys = chosen.map(keyOf);
    pick(isPicked(job) ? keys.filter((one) => one !== keyOf(job)) : [...keys, keyOf(job)]);
  };
  const box = (job: JobSummary) => (
    <input
      type="checkbox"
      aria-label={t('select_row', { id: job.id })}
      disabled={!canPick(job)}
      checked={isPicked(job)}
      onChange={() => toggle(job)}
    />
  );
  const act = (work: Promise<void>): void => {
    work.then(
      () => {
        setFailure(null);
        pick([]);
        changed();
      },
      (error: unknown) => {
        setFailure(errorText(error));
        toast(errorText(error));
      },
    );
  };
  return (
    <>
      <Failure text={failure} place="nothing" />
      {operates && chosen.length > 0 ? (
        <PickBar chosen={chosen} filter={filter} isAll={isAll} setAll={() => setAll(true)} act={act} />
      ) : null}
      <table class="desk">
        <thead>
          <tr>
            {operates && live.length > 0 ? (
              <th class="w0">
                <input
                  type="checkbox"
                  aria-label={t('select_page')}
                  checked={chosen.length === live.length}
                  onChange={() => pick(chosen.length === live.length ? [] : live.map(keyOf))}
                />
              </th>
            ) : null}
            <th class="w4">{t('job')}</th>
            {withTopic ? <th>{t('topic')}</th> : null}
            <th>{t('state')}</th>
            <th>{t('due')}</th>
            <th class="right">{t('attempts')}</th>
            <th class="right">{t('accepted')}</th>
            <th class="right">
              <span class="sr">{t('actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => {
            const [text, at] = when(job);
            return (
              <tr key={keyOf(job)} class={isPicked(job) ? 'picked' : ''}>
                {operates && live.length > 0 ? <td>{box(job)}</td> : null}
                <td class="cut">
                  <JobLink {...job} />
                </td>
                {withTopic ? (
                  <td>
                    <TopicLink topic={job.topic} />
                  </td>
                ) : null}
                <td>
                  <JobState state={job.state} attempt={job.attempt} />
                </td>
                <td>
                  <span class="two">
                    <Time class="nowrap" at={at} text={() => text} />
                    <small class="num">
                      <Time at={at} />
                    </small>
                  </span>
                </td>
                <td class="right">{number(job.attempt)}</td>
                <td class="right soft">
                  <Time at={job.createdAt} />
                </td>
                <td class="right nowrap">
                  {job.state === 'delayed' && operates ? (
                    <button type="button" class="btn s" onClick={() => act(runNow(job))}>
                      <Icon name="play" small />
                      {t('run_now')}
                    </button>
                  ) : null}
                  {job.state === 'dead' && operates ? (
                    <button type="button" class="btn s" onClick={() => act(requeueJob(job))}>
                      <Icon name="redo" small />
                      {t('requeue')}
                    </button>
                  ) : null}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <ul class="cards">
        {jobs.map((job) => (
          <li key={keyOf(job)} class={isPicked(job) ? 'picked' : ''}>
            <div class="row">
              {operates && canPick(job) ? box(job) : null}
              <JobLink {...job} />
              <JobState state={job.state} attempt={job.attempt} />
            </div>
            <div class="row faint">
              <span>{job.topic}</span>
              <Time class="num" at={when(job)[1]} text={() => when(job)[0]} />
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
