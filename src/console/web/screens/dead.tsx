// Dead letters: running operations, groups by cause, and the list. A selection is requeued directly; all that
// match, by an operation that goes on without the page.

import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import type { DeadGroupJson, DeadGroupsJson, DeadLetterJson } from '../../../contract/api/dead.ts';
import type { OperationFilterInput } from '../../../contract/api/operation.ts';
import { attemptReasons, deadReasons } from '../../../core/job.ts';
import { call } from '../api/call.ts';
import { usePages, usePoll } from '../api/poll.ts';
import { daemonNow, may, summary } from '../api/session.ts';
import { dayOf, writeQuery } from '../find-query.ts';
import { number, relative } from '../format.ts';
import { screenKeys } from '../keys.ts';
import { useAction } from '../parts/form.tsx';
import { readable } from '../parts/json-view.tsx';
import { List, PickBar, type Selection, timeColumn, useOpenRow, useSelection } from '../parts/list.tsx';
import {
  askPurge,
  askRequeue,
  askRequeueByTime,
  namedFilters,
  RunningOperations,
} from '../parts/operations.tsx';
import {
  Button,
  Card,
  ClearFilters,
  Code,
  Failure,
  Head,
  JobLink,
  LeftOut,
  LoadError,
  QueryChoice,
  QueryText,
  TopicLink,
  toast,
} from '../parts/parts.tsx';
import { Views } from '../parts/views.tsx';
import { hrefQuery, place } from '../router.ts';
import { t } from '../words/words.ts';

const hourMs = 3_600_000;
const ages: Readonly<Record<string, number>> = { '1h': hourMs, '24h': 24 * hourMs, '7d': 168 * hourMs };
/** A larger selection asks first and becomes an operation. */
const directMax = 100;
const groupsShown = 8;

/** As the query of the page names it: dq rejects a wrong value. */
type DeadFilter = Pick<OperationFilterInput, 'topic' | 'deadReason' | 'lastReason' | 'status'> & {
  readonly since?: string;
};

/** What the address names, the filter that dq applies to it, and the rest, which dq cannot apply. */
function useFilter() {
  const { query } = place.value;
  const of = (name: string): string => query.get(name) ?? '';
  const age = of('age');
  // One time for all pages and for the action: a filter that moves would not match what is shown.
  const from = useMemo(() => (age === 'today' ? dayOf(daemonNow())[0] : daemonNow()), [age]);
  const ageMs = age === 'today' ? 0 : ages[age];
  const given = {
    topic: of('topic'),
    deadReason: of('deadReason'),
    lastReason: of('lastReason'),
    status: of('status'),
    since: ageMs === undefined ? '' : new Date(from - ageMs).toISOString(),
  };
  const filter = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== '')) as DeadFilter;
  // The find box may add these. An action on all that match would reach more jobs than the query names.
  const [id, idPrefix, body, due] = [of('id'), of('idPrefix'), of('body'), of('due')];
  const unapplied = writeQuery({ id, idPrefix, body, due });
  return { filter, unapplied, isFiltered: hasAny(filter) || unapplied !== '' };
}

/** The dead letters that match the address, and how many they are; null: not known. */
function useDead() {
  const filtered = useFilter();
  const { filter, unapplied, isFiltered } = filtered;
  const pages = usePages<DeadLetterJson>('/v1/dead', { ...filter, limit: '50' }, 5_000);
  const groups = usePoll<DeadGroupsJson>('/v1/dead/groups', 10_000, filter).data;
  const total = summary.value?.states.dead ?? null;
  const grouped = groups !== null && unapplied === '' ? groups.examined : null;
  const count = !isFiltered ? total : groups?.complete ? grouped : null;
  return {
    ...filtered,
    pages,
    groups,
    count,
    /** The list knows the number, too, where it shows all that match. A purge asks for the word then. */
    found: count ?? (pages.more === null ? (pages.items?.length ?? null) : null),
    /** "1,240", or "10,000+" where older ones were not examined */
    countText: count !== null ? number(count) : grouped === null ? null : `${number(grouped)}+`,
    /** No filter names more. */
    most: total,
  };
}

type Dead = ReturnType<typeof useDead>;

export function Screen() {
  const dead = useDead();
  const { pages, groups, unapplied, countText, filter } = dead;
  const mayAct = may('operate') && unapplied === '' && pages.items !== null && pages.items.length > 0;
  return (
    <>
      <Head
        title={t('dead_letters')}
        sub={t('dead_sub')}
        actions={mayAct ? <Actions {...dead} /> : undefined}
      />
      <RunningOperations />
      {groups === null || groups.groups.length === 0 || unapplied !== '' ? null : (
        <Causes {...groups} filter={filter} />
      )}
      <LoadError error={pages.error} what={t('dead_letters')} retry={pages.refresh} />
      <LeftOut missing={pages.missing} />
      <section class="card">
        <Views list="dead" today={{ age: 'today' }} />
        <header>
          <Filters {...dead} />
          {countText === null ? null : <span class="end note">{t('matches', { count: countText })}</span>}
        </header>
        <Failure text={unapplied === '' ? null : t('dead_unapplied', { query: unapplied })} place="nothing" />
        <Letters {...dead} />
      </section>
    </>
  );
}

function Actions({ filter, isFiltered, count, found, most }: Dead) {
  return (
    <>
      <Button look="desk" onClick={() => askRequeueByTime(filter, most)}>
        {t('op_by_time')}…
      </Button>
      <Button icon="redo" onClick={() => askRequeue([filter], filter.topic, found, found ?? most)}>
        {t(isFiltered ? 'requeue_matching' : 'requeue_all')}…
      </Button>
      <Button look="danger desk" icon="trash" onClick={() => askPurge([filter], filter.topic, count)}>
        {t('purge')}…
      </Button>
    </>
  );
}

function Filters({ filter, isFiltered }: Dead) {
  const any = ['', t('any')] as const;
  const anyOr = (codes: readonly string[]) => [any, ...codes.map((code) => [code, code] as const)];
  const times = [
    any,
    ['today', t('today')],
    ['1h', t('last_hour')],
    ['24h', t('last_day')],
    ['7d', t('last_week')],
  ] as const;
  return (
    <div class="fields">
      <QueryText name="topic" label={t('topic')} />
      {filter.deadReason === undefined ? null : (
        <QueryChoice name="deadReason" label={t('dead_reason')} options={anyOr(deadReasons)} />
      )}
      <QueryChoice
        name="lastReason"
        label={t('last_reason')}
        options={[...anyOr(attemptReasons), ['none', t('cause_none')]]}
      />
      <QueryText name="status" label={t('status')} />
      <QueryChoice name="age" label={t('dead_since')} options={times} />
      <ClearFilters
        names="topic deadReason lastReason status age id idPrefix body due"
        isShown={isFiltered}
      />
    </div>
  );
}

const hasAny = (filter: DeadFilter): boolean => Object.keys(filter).length > 0;

// By cause

function Causes({ groups, examined, complete, filter }: DeadGroupsJson & { filter: DeadFilter }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? groups : groups.slice(0, groupsShown);
  return (
    <Card
      title={t('by_cause')}
      note={
        complete
          ? t(hasAny(filter) ? 'by_cause_match' : 'by_cause_all')
          : t('by_cause_newest', { count: number(examined) })
      }
    >
      <List
        items={shown}
        empty=""
        more={groups.length > shown.length ? () => setWhole(true) : null}
        moreCount={groups.length - shown.length}
        keyOf={(group) => `${group.topic} ${causeText(group)}`}
        columns={{
          topic: { head: t('topic'), cell: TopicLink },
          cause: {
            head: t('last_failure'),
            cell: (group) => <span class="tag bad">{causeText(group)}</span>,
          },
          count: {
            head: t('jobs'),
            look: 'right',
            cell: (group) => <b>{number(group.count)}</b>,
          },
          hours: { head: t('last_12_h'), look: 'spare', cell: ({ hours }) => <Spark hours={hours} /> },
          first: timeColumn(t('first_seen'), 'firstAt', 'soft extra'),
          last: timeColumn(t('last_seen'), 'lastAt', 'soft nowrap', relative),
          actions: {
            head: null,
            look: 'right nowrap',
            cell: (group) => <CauseActions group={group} isExact={complete} filter={filter} />,
          },
        }}
        card={{ row: ['topic', 'count'], soft: ['cause', 'last'], act: ['actions'] }}
      />
    </Card>
  );
}

const causeText = ({ deadReason, lastReason, status }: DeadGroupJson): string =>
  [deadReason, lastReason ?? t('cause_none'), status].filter((part) => part !== null).join(' ');

function CauseActions({
  group,
  isExact,
  filter,
}: {
  group: DeadGroupJson;
  isExact: boolean;
  filter: DeadFilter;
}) {
  const { topic, deadReason, lastReason, status } = group;
  const cause = {
    deadReason,
    lastReason: lastReason ?? ('none' as const),
    status: status === null ? 'none' : String(status),
  };
  const { since } = filter;
  const given = { topic, ...cause, ...(since === undefined ? {} : { since }) };
  const age = place.value.query.get('age');
  return (
    <>
      <a
        class="btn plain s"
        href={hrefQuery(['dead'], { topic, ...cause, ...(age === null ? {} : { age }) })}
      >
        {t('view')}
      </a>
      {may('operate') ? (
        <Button look="s" icon="redo" onClick={() => askRequeue([given], topic, isExact ? group.count : null)}>
          {t('requeue')}…
        </Button>
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

const keyOf = ({ topic, id, version }: DeadLetterJson): string => `${topic} ${id} ${version}`;

async function requeueNamed(jobs: readonly DeadLetterJson[]): Promise<number> {
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

/** The actions on the selected dead letters. */
function useActions(
  { pages, filter, count, found, most }: Dead,
  { chosen, isAll, clear }: Selection<DeadLetterJson>,
) {
  const { failure, run } = useAction();
  const topics = new Set(chosen.map(({ topic }) => topic));
  const oneTopic = topics.size === 1 ? chosen[0]?.topic : undefined;
  const requeue = (): void => {
    if (chosen.length === 0) return;
    if (isAll) askRequeue([filter], filter.topic, found, found ?? most);
    else if (chosen.length > directMax) askRequeue(namedFilters(chosen), oneTopic, chosen.length);
    else
      void run(async () => {
        toast(t('toast_requeued', { count: number(await requeueNamed(chosen)) }));
        clear();
        pages.refresh();
      });
  };
  const purge = (): void => {
    if (isAll) askPurge([filter], filter.topic, count);
    else askPurge(namedFilters(chosen), oneTopic, chosen.length);
  };
  return { failure, requeue, purge };
}

function Letters(dead: Dead) {
  const { pages, filter, unapplied, isFiltered, count } = dead;
  const selection = useSelection(pages.items ?? [], keyOf, filter);
  const { chosen, isAll } = selection;
  const { failure, requeue, purge } = useActions(dead, selection);
  const { isOpen, opener } = useOpenRow();
  // A layout effect: an effect runs after the next frame, and until then the keys would act on the rows that
  // were selected before.
  useLayoutEffect(() => {
    screenKeys.set('R', requeue);
    screenKeys.set('r', pages.refresh);
    return () => {
      screenKeys.delete('R');
      screenKeys.delete('r');
    };
  });
  const allText = count === null ? t('select_all_match') : t('select_all_count', { count: number(count) });
  return (
    <>
      <Failure text={failure} place="nothing" />
      <PickBar selection={selection} allText={unapplied === '' ? allText : null}>
        <Button look="s" icon="redo" onClick={requeue}>
          {t('requeue')}
          {isAll || chosen.length > directMax ? '…' : ''}
        </Button>
        <Button look="s danger" icon="trash" onClick={purge}>
          {t('purge')}…
        </Button>
      </PickBar>
      <List
        items={pages.items}
        error={pages.error}
        empty={t(isFiltered ? 'dead_no_match' : 'dead_none')}
        more={pages.more}
        keyOf={keyOf}
        detail={(job) => (isOpen(keyOf(job)) ? <Code>{readable(job.replyExcerpt)}</Code> : null)}
        selection={may('operate') ? selection : undefined}
        columns={{
          job: { head: t('job'), look: 'cut id', width: 'w3', cell: JobLink },
          topic: { head: t('topic'), cell: TopicLink, card: ({ topic }) => topic },
          failure: { head: t('last_failure'), cell: (job) => <span class="tag bad">{failureOf(job)}</span> },
          attempts: { head: t('attempts'), look: 'right extra', cell: ({ attempt }) => number(attempt) },
          reply: {
            head: t('reply'),
            look: 'cut mono faint spare',
            width: 'w3',
            cell: (job) => opener(keyOf(job), readable(job.replyExcerpt).replaceAll('\n', ' ')),
          },
          since: { ...timeColumn(t('dead_since_order'), 'deadAt', 'right soft'), cardHead: t('dead_since') },
        }}
        card={{ row: ['job', 'failure'], faint: ['topic', 'since'] }}
      />
    </>
  );
}

/** As the causes name it. Without an attempt, why the job became a dead letter. */
function failureOf({ deadReason, lastReason, status }: DeadLetterJson): string {
  return [lastReason ?? deadReason, status].filter((part) => part !== null).join(' ');
}
