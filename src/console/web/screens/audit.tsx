// Audit log: who changed what. A row opens the difference, field by field. Also the tab Changes of a topic.

import { useEffect, useMemo, useState } from 'preact/hooks';
import type { AuditEntryJson } from '../../../contract/api/access.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import { get } from '../api/call.ts';
import { onRefreshAll, usePages } from '../api/poll.ts';
import { daemonNow } from '../api/session.ts';
import { dots, exactClock, number } from '../format.ts';
import { useAction } from '../parts/form.tsx';
import { List, timeColumn, useOpenRow } from '../parts/list.tsx';
import {
  actorName,
  Button,
  Card,
  Choice,
  ClearFilters,
  type Fact,
  Facts,
  Failure,
  Head,
  JobLink,
  More,
  Pill,
  QueryChoice,
  QueryText,
  Strip,
  TopicLink,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { place, setQuery } from '../router.ts';
import { en } from '../words/en.ts';
import { t, wordOf } from '../words/words.ts';

/** The ranges of the list with their lengths; 0: no limit. */
const ranges = { '1h': 3_600_000, '24h': 86_400_000, '7d': 604_800_000, '30d': 2_592_000_000, '': 0 };
type Range = keyof typeof ranges;
const rangeNames = Object.keys(ranges) as readonly Range[];

/** Every audited call has a word. */
const actions = Object.keys(en).flatMap((key) => (key.startsWith('act_') ? [key.slice(4)] : []));
/** Rows of a CSV file: what the browser holds easily. */
const csvMax = 10_000;

interface Filter {
  readonly topic: string;
  readonly actor: string;
  readonly action: string;
  readonly range: Range;
}

type Query = Readonly<Record<string, string | undefined>>;

/** The range begins at one time until a refresh: with another query the list would begin again, and lose the
 *  further pages that it shows. */
function useQuery({ topic, actor, action, range }: Filter): Query {
  const [round, setRound] = useState(0);
  useEffect(() => onRefreshAll(() => setRound((n) => n + 1)), []);
  const now = useMemo(daemonNow, [range, round]);
  return { topic, actor, action, since: range === '' ? undefined : String(Math.floor(now - ranges[range])) };
}

function readFilter(query: URLSearchParams): Filter {
  const wanted = query.get('range') ?? '24h';
  return {
    topic: query.get('topic') ?? '',
    actor: query.get('actor') ?? '',
    action: query.get('action') ?? '',
    range: wanted === 'all' ? '' : (rangeNames.find((one) => one === wanted) ?? '24h'),
  };
}

export function Screen() {
  const filter = readFilter(place.value.query);
  const query = useQuery(filter);
  const isFiltered = filter.topic !== '' || filter.actor !== '' || filter.action !== '';
  return (
    <>
      <Head title={t('audit_log')} sub={t('audit_sub')} actions={<Download query={query} />} />
      <section class="card">
        <header>
          <div class="fields">
            <QueryText name="actor" label={t('audit_actor')} />
            <QueryText name="topic" label={t('topic')} />
            <QueryChoice
              name="action"
              label={t('audit_action')}
              options={[['', t('any')], ...actions.map((one) => [one, actionName(one)] as const)]}
            />
            <Choice
              label={t('time')}
              value={filter.range}
              options={rangeNames.map((one) => [one, t(one === '' ? 'any' : `range_${one}`)] as const)}
              onChoose={(range) => setQuery({ range: range === '' ? 'all' : range })}
            />
            <ClearFilters names="actor topic action" isShown={isFiltered} />
          </div>
        </header>
        <Entries query={query} />
      </section>
    </>
  );
}

/** The tab of a topic. */
export function TopicChanges({ topic }: { topic: string }) {
  return (
    <Card title={t('tab_changes')}>
      <Entries query={{ topic }} inTopic />
    </Card>
  );
}

function Entries({ query, inTopic = false }: { query: Query; inTopic?: boolean }) {
  const pages = usePages<AuditEntryJson>('/v1/audit', { ...query, limit: '50' }, 5_000);
  const { isOpen, opener } = useOpenRow();
  const { items, error, refresh } = pages;
  if (items === null && error !== null)
    return (
      <Strip
        role="alert"
        end={
          <Button look="s" onClick={refresh}>
            {t('try_again')}
          </Button>
        }
      >
        <b>{t('audit_unavailable')}</b> {t('audit_in_logs')}
      </Strip>
    );
  const details = (entry: AuditEntryJson) => opener(entry.id, summaryOf(entry));
  return (
    <>
      <List
        items={items}
        rows={6}
        empty={t('audit_empty')}
        keyOf={({ id }) => id}
        detail={(entry) => (isOpen(entry.id) ? <Detail entry={entry} /> : null)}
        columns={{
          time: timeColumn(t('time'), 'at', 'num'),
          actor: { head: t('audit_actor'), cell: nameOf },
          address: { head: t('address'), look: 'mono faint extra', cell: ({ address }) => address },
          action: { head: t('audit_action'), cell: ({ action }) => actionName(action) },
          topic: {
            head: t('topic'),
            isOff: inTopic,
            cell: ({ topic }) => (topic === null ? '–' : <TopicLink topic={topic} />),
          },
          job: {
            head: t('job_id'),
            look: 'spare',
            cell: ({ topic, jobId }) =>
              topic === null || jobId === null ? '–' : <JobLink topic={topic} id={jobId} />,
          },
          details: { head: t('details'), look: 'text', cell: details },
          outcome: { head: t('attempt_outcome'), cell: Outcome },
        }}
        card={(entry) => (
          <>
            <div class="title">
              <b>{actionName(entry.action)}</b>
              <Outcome {...entry} />
            </div>
            <p class="faint">
              <Time at={entry.at} />
              {[actorName(entry.actor), entry.topic, entry.jobId].filter(Boolean).map((part) => ` · ${part}`)}
            </p>
            {details(entry)}
          </>
        )}
      />
      <Failure text={error === null || items === null ? null : t('audit_unavailable')} place="nothing" />
      <More next={pages.more} />
    </>
  );
}

const nameOf = ({ actor }: AuditEntryJson): string => (actor === '' ? '–' : actorName(actor));

const actionName = (action: string): string => wordOf(`act_${action}`, action);

function Outcome({ status, code }: AuditEntryJson) {
  if (status < 400) return <Pill colour="done">{t('audit_ok')}</Pill>;
  return <Pill colour={status < 500 ? 'retry' : 'dead'}>{code ?? String(status)}</Pill>;
}

const isNone = (value: unknown): boolean =>
  value === null || value === undefined || ['""', '[]', '{}'].includes(JSON.stringify(value));

const textOf = (value: unknown): string =>
  isNone(value) ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

type Change = NonNullable<NonNullable<AuditEntryJson['detail']>['changes']>[number];

/** Old and new value; of what was created the new one alone. */
const changeText = ({ before, after }: Change): string =>
  isNone(before) ? textOf(after) : `${textOf(before)} → ${textOf(after)}`;

/** The values that were given: what is created has many fields without one. */
const changesOf = ({ detail }: AuditEntryJson): readonly Change[] =>
  (detail?.changes ?? []).filter(({ before, after }) => !(isNone(before) && isNone(after)));

/** What a row shows in whole: old and new value of a change. What is created has more, which its row opens. */
const changesShown = 3;

/** The changes, or filter and count. */
function summaryOf(entry: AuditEntryJson): string {
  const { filter = {}, count } = entry.detail ?? {};
  const changes = changesOf(entry);
  const further = changes.length - changesShown;
  return dots(
    ...changes.slice(0, changesShown).map((change) => `${change.field}: ${changeText(change)}`),
    further > 0 && t('audit_further', { count: number(further) }),
    ...Object.entries(filter).map(([name, value]) => `${name}=${textOf(value)}`),
    count !== undefined && t('audit_count', { count: number(count) }),
  );
}

function Detail({ entry }: { entry: AuditEntryJson }) {
  const { filter = {}, count } = entry.detail ?? {};
  return (
    <Facts
      rows={[
        [t('time'), <Time key="at" at={entry.at} text={exactClock} />],
        [t('audit_actor'), `${nameOf(entry)} · ${entry.address}`],
        ...changesOf(entry).map(
          (change): Fact => [wordOf(`field_${change.field}`, change.field), changeText(change), true],
        ),
        ...Object.entries(filter).map(([name, value]): Fact => [name, textOf(value), true]),
        count !== undefined && [t('jobs'), number(count)],
      ]}
    />
  );
}

// CSV

/** Spreadsheets run a cell that begins with one of = + - @ as a formula; a leading ' makes it a text. */
function csvCell(value: string): string {
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

function Download({ query }: { query: Query }) {
  const { busy, failure, run } = useAction();
  const download = async (): Promise<void> => {
    const rows: AuditEntryJson[] = [];
    let cursor: string | undefined;
    do {
      const page = await get<PageOf<AuditEntryJson>>('/v1/audit', { ...query, limit: '200', cursor });
      rows.push(...page.items);
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined && rows.length < csvMax);
    save('dq-audit.csv', csvOf(rows));
  };
  return (
    <>
      <Failure text={failure} />
      <Button disabled={busy} onClick={() => run(download)}>
        {t('download_csv')}
      </Button>
    </>
  );
}

function csvOf(rows: readonly AuditEntryJson[]): string {
  const head = ['at', 'actor', 'address', 'action', 'topic', 'jobId', 'status', 'code', 'detail'] as const;
  const cell = (entry: AuditEntryJson, name: (typeof head)[number]): string =>
    entry[name] === null ? '' : textOf(entry[name]);
  const lines = rows.map((entry) => head.map((name) => csvCell(cell(entry, name))).join(','));
  return `${[head.join(','), ...lines].join('\r\n')}\r\n`;
}

function save(name: string, text: string): void {
  const link = document.createElement('a');
  // A byte order mark: spreadsheets take the text for another encoding otherwise.
  link.href = URL.createObjectURL(new Blob(['\ufeff', text], { type: 'text/csv' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
