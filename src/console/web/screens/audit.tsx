// Audit log: who changed what. A row opens the difference, field by field. Also the tab Changes of a topic.

import { Fragment } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get } from '../api/call.ts';
import { onRefreshAll } from '../api/poll.ts';
import { daemonNow } from '../api/session.ts';
import type { AuditEntry, Page } from '../api/types.ts';
import { exactClock, number } from '../format.ts';
import { usePages } from '../pages.ts';
import {
  actorName,
  Card,
  Choice,
  Empty,
  errorText,
  Failure,
  Head,
  Icon,
  JobLink,
  More,
  Pill,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { href, place, setQuery } from '../router.ts';
import { en } from '../words/en.ts';
import { t, type Word, wordOf } from '../words/words.ts';

const ranges = ['1h', '24h', '7d', '30d', ''] as const;
type Range = (typeof ranges)[number];
const rangeMs: Readonly<Record<Range, number>> = {
  '1h': 3_600_000,
  '24h': 86_400_000,
  '7d': 7 * 86_400_000,
  '30d': 30 * 86_400_000,
  '': 0,
};
const rangeWords: Readonly<Record<Range, Word>> = {
  '1h': 'range_1h',
  '24h': 'range_24h',
  '7d': 'range_7d',
  '30d': 'range_30d',
  '': 'any',
};
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
  return { topic, actor, action, since: range === '' ? undefined : String(Math.floor(now - rangeMs[range])) };
}

function readFilter(query: URLSearchParams): Filter {
  const wanted = query.get('range') ?? '24h';
  return {
    topic: query.get('topic') ?? '',
    actor: query.get('actor') ?? '',
    action: query.get('action') ?? '',
    range: wanted === 'all' ? '' : (ranges.find((one) => one === wanted) ?? '24h'),
  };
}

export function Audit() {
  const filter = readFilter(place.value.query);
  const query = useQuery(filter);
  const isFiltered = filter.topic !== '' || filter.actor !== '' || filter.action !== '';
  return (
    <>
      <Head title={t('audit_log')} sub={t('audit_sub')} actions={<Download query={query} />} />
      <section class="card">
        <header>
          <div class="fields">
            <TextFilter name="actor" value={filter.actor} />
            <TextFilter name="topic" value={filter.topic} />
            <Choice
              label={t('audit_action')}
              value={filter.action}
              options={[
                ['', t('any')],
                ...actions.map((one): readonly [string, string] => [one, actionName(one)]),
              ]}
              onChange={(action) => setQuery({ action })}
            />
            <Choice
              label={t('attempt_time')}
              value={filter.range}
              options={ranges.map((one): readonly [Range, string] => [one, t(rangeWords[one])])}
              onChange={(range) => setQuery({ range: range === '' ? 'all' : range })}
            />
            {isFiltered ? (
              <button
                type="button"
                class="btn plain s"
                onClick={() => setQuery({ actor: '', topic: '', action: '' })}
              >
                {t('clear_filters')}
              </button>
            ) : null}
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

function TextFilter({ name, value }: { name: 'actor' | 'topic'; value: string }) {
  const word = t(name === 'actor' ? 'audit_actor' : 'topic');
  return (
    <label class={value === '' ? 'field' : 'field on'}>
      {word}
      <input
        value={value}
        autocomplete="off"
        placeholder={t('any')}
        onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim() })}
      />
    </label>
  );
}

function Entries({ query, inTopic = false }: { query: Query; inTopic?: boolean }) {
  const pages = usePages<AuditEntry>('/v1/audit', { ...query, limit: '50' }, 5_000);
  const [open, setOpen] = useState<string | null>(null);
  const toggle = (id: string): void => setOpen(open === id ? null : id);
  if (pages.items === null && pages.error !== null)
    return (
      <div class="strip warn" role="alert">
        <Icon name="warn" />
        <span class="text">
          <b>{t('audit_unavailable')}</b> {t('audit_in_logs')}
        </span>
        <span class="end">
          <button type="button" class="btn s" onClick={pages.refresh}>
            {t('try_again')}
          </button>
        </span>
      </div>
    );
  if (pages.items === null) return <Waiting rows={6} />;
  return (
    <>
      {pages.items.length === 0 ? <Empty>{t('audit_empty')}</Empty> : null}
      {pages.items.length === 0 ? null : (
        <>
          <table class="desk">
            <thead>
              <tr>
                <th>{t('attempt_time')}</th>
                <th>{t('audit_actor')}</th>
                <th>{t('address')}</th>
                <th>{t('audit_action')}</th>
                {inTopic ? null : <th>{t('topic')}</th>}
                <th>{t('job_id')}</th>
                <th>{t('details')}</th>
                <th>{t('attempt_outcome')}</th>
              </tr>
            </thead>
            <tbody>
              {pages.items.map((entry) => (
                <Fragment key={entry.id}>
                  <tr>
                    <td class="num">
                      <Time at={entry.at} />
                    </td>
                    <td>{entry.actor === '' ? '–' : actorName(entry.actor)}</td>
                    <td class="mono faint">{entry.address}</td>
                    <td>{actionName(entry.action)}</td>
                    {inTopic ? null : (
                      <td>
                        {entry.topic === null ? '–' : <a href={href('topics', entry.topic)}>{entry.topic}</a>}
                      </td>
                    )}
                    <td>
                      {entry.topic === null || entry.jobId === null ? (
                        '–'
                      ) : (
                        <JobLink topic={entry.topic} id={entry.jobId} />
                      )}
                    </td>
                    <td class="cut">
                      <Opener entry={entry} isOpen={open === entry.id} toggle={toggle} />
                    </td>
                    <td>
                      <Outcome entry={entry} />
                    </td>
                  </tr>
                  {open === entry.id ? (
                    <tr>
                      <td colSpan={inTopic ? 7 : 8}>
                        <Detail entry={entry} />
                      </td>
                    </tr>
                  ) : null}
                </Fragment>
              ))}
            </tbody>
          </table>
          <ul class="cards">
            {pages.items.map((entry) => (
              <li key={entry.id}>
                <div class="title">
                  <b>{actionName(entry.action)}</b>
                  <Outcome entry={entry} />
                </div>
                <p class="faint">
                  <Time at={entry.at} />
                  {[actorName(entry.actor), entry.topic, entry.jobId]
                    .filter((part) => part !== null && part !== '')
                    .map((part) => ` · ${part}`)}
                </p>
                <Opener entry={entry} isOpen={open === entry.id} toggle={toggle} />
                {open === entry.id ? <Detail entry={entry} /> : null}
              </li>
            ))}
          </ul>
        </>
      )}
      <Failure text={pages.error === null ? null : t('audit_unavailable')} place="nothing" />
      <More next={pages.more} />
    </>
  );
}

const actionName = (action: string): string => wordOf(`act_${action}`, action);

function Outcome({ entry: { status, code } }: { entry: AuditEntry }) {
  if (status < 400) return <Pill colour="done">{t('audit_ok')}</Pill>;
  return <Pill colour={status < 500 ? 'retry' : 'dead'}>{code ?? String(status)}</Pill>;
}

function Opener({
  entry,
  isOpen,
  toggle,
}: {
  entry: AuditEntry;
  isOpen: boolean;
  toggle: (id: string) => void;
}) {
  const text = summaryOf(entry);
  if (text === '') return <>–</>;
  return (
    <button type="button" class="opener" aria-expanded={isOpen} onClick={() => toggle(entry.id)}>
      {text}
    </button>
  );
}

const textOf = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

/** In one line: the changed fields, or filter and count. */
function summaryOf({ detail }: AuditEntry): string {
  if (detail === null) return '';
  const { changes = [], filter = {}, count } = detail;
  const [first] = changes;
  return [
    changes.length === 1 && first !== undefined
      ? `${first.field}: ${textOf(first.before)} → ${textOf(first.after)}`
      : changes.map(({ field }) => field).join(', '),
    ...Object.entries(filter).map(([name, value]) => `${name}=${textOf(value)}`),
    count === undefined ? '' : t('audit_count', { count: number(count) }),
  ]
    .filter((part) => part !== '')
    .join(' · ');
}

function Detail({ entry }: { entry: AuditEntry }) {
  const { changes = [], filter = {}, count } = entry.detail ?? {};
  return (
    <dl class="facts">
      <dt>{t('attempt_time')}</dt>
      <dd class="num">
        <Time at={entry.at} text={exactClock} />
      </dd>
      <dt>{t('audit_actor')}</dt>
      <dd>
        {entry.actor === '' ? '–' : actorName(entry.actor)} · {entry.address}
      </dd>
      {changes.map(({ field, before, after }) => (
        <Fragment key={field}>
          <dt>{wordOf(`field_${field}`, field)}</dt>
          <dd class="mono">
            {textOf(before)} → {textOf(after)}
          </dd>
        </Fragment>
      ))}
      {Object.entries(filter).map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd class="mono">{textOf(value)}</dd>
        </Fragment>
      ))}
      {count === undefined ? null : (
        <>
          <dt>{t('jobs')}</dt>
          <dd class="num">{number(count)}</dd>
        </>
      )}
    </dl>
  );
}

// CSV

/** Spreadsheets run a cell that begins with one of = + - @ as a formula; a leading ' makes it a text. */
export function csvCell(value: string): string {
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

function Download({ query }: { query: Query }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const download = async (): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      const rows: AuditEntry[] = [];
      let cursor: string | undefined;
      do {
        const page = await get<Page<AuditEntry>>('/v1/audit', { ...query, limit: '200', cursor });
        rows.push(...page.items);
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined && rows.length < csvMax);
      save('dq-audit.csv', csvOf(rows));
    } catch (error) {
      setFailure(errorText(error));
    }
    setBusy(false);
  };
  return (
    <>
      <Failure text={failure} />
      <button type="button" class="btn" disabled={busy} onClick={() => void download()}>
        {t('download_csv')}
      </button>
    </>
  );
}

function csvOf(rows: readonly AuditEntry[]): string {
  const head = ['at', 'actor', 'address', 'action', 'topic', 'jobId', 'status', 'code', 'detail'] as const;
  const cell = (entry: AuditEntry, name: (typeof head)[number]): string =>
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
