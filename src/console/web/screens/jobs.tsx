// Jobs: live, dead and ended jobs by topic, state, time, id, beginning of the id or part of the body.

import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { JobSummaryJson } from '../../../contract/api/job.ts';
import type { OperationFilterInput } from '../../../contract/api/operation.ts';
import { endStates, jobStates } from '../../../core/job.ts';
import type { OperationKind } from '../../../core/operation.ts';
import { type Pages, usePages } from '../api/poll.ts';
import { daemonNow, may } from '../api/session.ts';
import { isSearchable, readDue } from '../find-query.ts';
import { duration, number, relative } from '../format.ts';
import { List, PickBar, type Selection, timeColumn, useSelection } from '../parts/list.tsx';
import { askJobs, namedFilters, RunningOperations, start, verbsOf } from '../parts/operations.tsx';
import {
  Button,
  ClearFilters,
  errorText,
  Failure,
  Head,
  JobLink,
  JobState,
  LeftOut,
  LoadError,
  More,
  QueryChoice,
  QueryText,
  TopicLink,
  toast,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { Views } from '../parts/views.tsx';
import { place, type Segments, setQuery } from '../router.ts';
import { t } from '../words/words.ts';
import { Job } from './job.tsx';
import { ScanProgress, useScan } from './scan.tsx';
import { requeueJob, runNow } from './topic-actions.tsx';

export function Screen({ first, second }: Segments) {
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

/** What the address names of the jobs of all topics, or of one. */
function useFilter(topic: string | null) {
  const { query } = place.value;
  const of = (name: string): string => query.get(name) ?? '';
  const filter = { topic: topic ?? of('topic'), state: of('state'), id: of('id') };
  const due = of('due');
  // Durations count from the moment in which the filter is set: pages of one list have the same range.
  const range = useMemo(() => (due === '' ? {} : readDue(due, Math.round(daemonNow()))), [due]);
  const part = { idPrefix: of('idPrefix'), body: of('body') };
  const isScan = part.idPrefix !== '' || part.body !== '';
  const own = topic === null ? filter.topic : '';
  const isFiltered = isScan || [due, filter.state, filter.id, own].some((value) => value !== '');
  return { topic, filter, range, part, isScan, isFiltered };
}

type Filter = ReturnType<typeof useFilter>;

/** `topic` not null: the jobs of one topic, on its page. */
export function JobList({ topic }: { topic: string | null }) {
  const given = useFilter(topic);
  const { filter, range, part, isScan } = given;
  const scan = useScan(isScan ? { ...filter, id: '', ...part, ...range } : null);
  const query = { ...filter, ...range, limit: '50' };
  const list = usePages<JobSummaryJson>(isScan ? null : '/v1/jobs', query, 5_000);
  const pages = isScan ? scan : list;
  const goesOn = scan.progress.isRunning || scan.more !== null;
  const found = scan.items === null ? null : number(scan.items.length);
  return (
    <>
      <RunningOperations />
      <LoadError error={pages.error} what={t('jobs')} retry={pages.refresh} />
      <LeftOut missing={pages.missing} />
      <section class="card">
        {topic === null ? <Views list="jobs" today={{ due: 'today' }} /> : null}
        <header>
          <Filters {...given} />
          {isScan && found !== null ? (
            <span class="end note">{t(goesOn ? 'found_so_far' : 'found_all', { count: found })}</span>
          ) : null}
        </header>
        <Failure text={range === null ? t('due_wrong') : null} place="nothing" />
        {isScan ? <ScanProgress scan={scan} isBody={part.body !== ''} /> : null}
        {isScan && goesOn && scan.items?.length === 0 ? (
          <More next={pages.more} />
        ) : (
          <JobRows
            pages={pages}
            empty={<NoJobs {...part} />}
            filter={
              part.body === '' && range !== null
                ? operationFilter({ ...filter, ...range, idPrefix: part.idPrefix })
                : null
            }
            withTopic={topic === null}
            isEnded={endStates.some((state) => state === filter.state)}
          />
        )}
      </section>
    </>
  );
}

function Filters({ topic, isScan, isFiltered }: Filter) {
  return (
    <div class="fields">
      {topic === null ? <QueryText name="topic" label={t('topic')} /> : null}
      <QueryChoice
        name="state"
        label={t('state')}
        options={[
          ['', t('state_live')],
          ...[...jobStates, ...endStates].map((state) => [state, t(`job_${state}`)] as const),
        ]}
      />
      {isScan ? null : <QueryText name="id" label={t('job_id')} />}
      <QueryText name="idPrefix" label={t('id_begins')} clears="id" />
      <QueryText name="body" label={t('body_contains')} clears="id" />
      <QueryText name="due" label={t('due')} placeholder={t('due_placeholder')} />
      <ClearFilters names="topic state id idPrefix body due" isShown={isFiltered} />
    </div>
  );
}

function NoJobs({ idPrefix, body }: { idPrefix: string; body: string }) {
  return (
    <>
      {t('no_jobs')} {body === '' ? null : t('ended_no_body')}
      {body === '' && isSearchable(idPrefix) ? (
        <Button look="s" onClick={() => setQuery({ idPrefix: '', body: idPrefix })}>
          {t('find_bodies', { text: idPrefix })}
        </Button>
      ) : null}
    </>
  );
}

/** The filter of an operation on all jobs that match; null: an operation cannot have this filter. */
function operationFilter({ id, ...filter }: Readonly<Record<string, string>>): OperationFilterInput | null {
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
function when({ state, dueAt, deadAt, endedAt }: JobSummaryJson): readonly [string, number] {
  const due = Date.parse(dueAt);
  if (endedAt !== undefined) return [relative(Date.parse(endedAt)), Date.parse(endedAt)];
  if (state === 'dead' && deadAt !== undefined) {
    const died = Date.parse(deadAt);
    return [t('dead_for', { time: duration(daemonNow() - died) }), died];
  }
  if (due <= daemonNow()) return [t('due_ago', { time: duration(daemonNow() - due) }), due];
  return [relative(due), due];
}

const keyOf = ({ topic, id, version }: JobSummaryJson): string => `${topic} ${id} ${version}`;

const icons: Readonly<Record<string, string>> = { run: 'play', requeue: 'redo', cancel: 'x' };

/** Actions on the selected jobs. `act`: follows an operation that asks nothing. */
function Verbs({
  selection: { chosen, isAll },
  filter,
  matching,
  act,
}: {
  selection: Selection<JobSummaryJson>;
  filter: OperationFilterInput | null;
  /** jobs that the filter names; null: not known */
  matching: number | null;
  act: (work: Promise<void>) => void;
}) {
  const states = isAll ? [filter?.state ?? ''] : [...new Set(chosen.map(({ state }) => state))];
  const topics = new Set(chosen.map(({ topic }) => topic));
  const topic = isAll ? filter?.topic : topics.size === 1 ? chosen[0]?.topic : undefined;
  const named = (state: string) =>
    namedFilters(chosen.filter((job) => job.state === state)).map((one) => ({
      ...one,
      state: state as NonNullable<OperationFilterInput['state']>,
    }));
  const filtersFor = (kind: OperationKind): readonly OperationFilterInput[] => {
    if (isAll && filter !== null) return [filter];
    // An operation reschedules jobs of one state.
    return kind === 'reschedule' ? states.flatMap(named) : namedFilters(chosen);
  };
  return verbsOf(states).map((kind) => {
    const asks = isAll || kind === 'cancel' || kind === 'reschedule';
    const run = (): void => {
      const count = isAll ? (kind === 'cancel' ? null : matching) : chosen.length;
      if (asks) askJobs(kind, filtersFor(kind), topic, count);
      else act(start(filtersFor(kind).map((one) => ({ kind, filter: one }))));
    };
    return (
      <Button
        key={kind}
        look={kind === 'cancel' ? 's danger' : 's'}
        icon={icons[kind] ?? 'clock'}
        onClick={run}
      >
        {t(kind === 'run' ? 'run_now' : `op_${kind}`)}
        {asks ? '…' : ''}
      </Button>
    );
  });
}

function JobRows({
  pages,
  empty,
  filter,
  withTopic,
  isEnded,
}: {
  pages: Pages<JobSummaryJson>;
  empty: ComponentChildren;
  /** null: an action on all that match is not possible */
  filter: OperationFilterInput | null;
  withTopic: boolean;
  isEnded: boolean;
}) {
  const [failure, setFailure] = useState<string | null>(null);
  const canPick = (job: JobSummaryJson): boolean => job.endedAt === undefined;
  const selection = useSelection(pages.items ?? [], keyOf, filter, canPick);
  const operates = may('operate');
  const matching = pages.more === null ? (pages.items?.length ?? null) : null;
  const act = (work: Promise<void>): void => {
    work.then(
      () => {
        setFailure(null);
        selection.clear();
        pages.refresh();
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
      <PickBar selection={selection} allText={filter === null ? null : t('select_all_match')}>
        <Verbs selection={selection} filter={filter} matching={matching} act={act} />
      </PickBar>
      <List
        items={pages.items}
        error={pages.error}
        empty={empty}
        more={pages.more}
        keyOf={keyOf}
        selection={operates && pages.items?.some(canPick) ? selection : undefined}
        columns={{
          job: { head: t('job'), look: 'cut id', width: 'w4', cell: JobLink },
          topic: { head: t('topic'), isOff: !withTopic, cell: TopicLink, card: ({ topic }) => topic },
          state: { head: t('state'), cell: JobState },
          due: {
            head: t(isEnded ? 'ended_order' : 'due_order'),
            cell: When,
            card: (job) => <WhenText {...job} />,
          },
          attempts: { head: t('attempts'), look: 'right spare', cell: ({ attempt }) => number(attempt) },
          accepted: timeColumn(t('accepted'), 'createdAt', 'right soft extra'),
          actions: {
            head: null,
            look: 'right nowrap',
            cell: (job) => (operates ? <RowAction job={job} act={act} /> : null),
          },
        }}
        card={{ row: ['job', 'state'], faint: ['topic', 'due'] }}
      />
    </>
  );
}

function WhenText(job: JobSummaryJson) {
  const [text, at] = when(job);
  return <Time class="nowrap num" at={at} text={() => text} />;
}

function When(job: JobSummaryJson) {
  return (
    <span class="two">
      <WhenText {...job} />
      <small class="num">
        <Time at={when(job)[1]} />
      </small>
    </span>
  );
}

function RowAction({ job, act }: { job: JobSummaryJson; act: (work: Promise<void>) => void }) {
  if (job.state === 'delayed')
    return (
      <Button look="s" icon="play" onClick={() => act(runNow(job))}>
        {t('run_now')}
      </Button>
    );
  if (job.state !== 'dead') return null;
  return (
    <Button look="s" icon="redo" onClick={() => act(requeueJob(job))}>
      {t('requeue')}
    </Button>
  );
}
