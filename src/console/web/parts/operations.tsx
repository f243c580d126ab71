// Operations on a page: starting one after a question, the running ones with their progress, and their texts.

import type { EndpointsJson } from '../../../contract/api/attempt.ts';
import type { DeadGroupsJson } from '../../../contract/api/dead.ts';
import type { JobSummaryJson } from '../../../contract/api/job.ts';
import type {
  OperationFilterInput,
  OperationInputJson,
  OperationJson,
} from '../../../contract/api/operation.ts';
import type { StatsJson } from '../../../contract/api/stats.ts';
import type { OperationKind } from '../../../core/operation.ts';
import { CallError, call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { daemonNow, may } from '../api/session.ts';
import { dayOf } from '../find-query.ts';
import { clock, dots, duration, number, relative } from '../format.ts';
import { href } from '../router.ts';
import { t, type Word } from '../words/words.ts';
import { ask } from './dialog.tsx';
import { Check, type Draft, draftOf } from './form.tsx';
import { actorName, Bar, Button, type Colour, Icon, Pill, toast } from './parts.tsx';
import { Time } from './time.tsx';

/** An ended operation stays on the page for this time. */
const endedShownMs = 30_000;
export const isRunning = ({ state }: OperationJson): boolean =>
  state === 'not_started' || state === 'running';
export const processed = ({ done, skipped, failed }: OperationJson): number => done + skipped + failed;

const isAboutDead = (kind: string): boolean => kind === 'requeue' || kind === 'purge';

/** "Requeue 1,240 dead letters of coupon.expire" */
function titleOf(kind: string, topic: string | undefined, count: number | null): string {
  const what = isAboutDead(kind) ? 'op_dead' : 'op_jobs';
  const jobs = count === null ? t(`${what}_any`) : t(what, { count: number(count) });
  const verb = t(`op_${kind}` as Word);
  return topic === undefined ? t('op_title', { verb, jobs }) : t('op_title_of', { verb, jobs, topic });
}

export function nameOf({ kind, filter, matched, dryRun }: OperationJson): string {
  const title = titleOf(kind, filter.topic, matched);
  return dryRun ? t('op_trial', { title }) : title;
}

/** What a question is about, below its title: of one filter, because several name the jobs of the page. */
const FilterLine = ({
  kind,
  filters,
  count,
}: {
  kind: OperationKind;
  filters: readonly OperationFilterInput[];
  /** as in the title; null: this line counts */
  count: number | null;
}) => {
  const [first, second] = filters;
  if (first === undefined || second !== undefined) return null;
  const { ids, versions, ...filter } = first;
  const text = filterText({ kind, filter: { ...filter, idCount: ids?.length } });
  return (
    <>
      {text === '' ? null : (
        <p>
          <b>{text}</b>
        </p>
      )}
      {count === null ? <Matching kind={kind} filter={first} /> : null}
    </>
  );
};

/** How many jobs a filter names now: dead letters by the survey of their causes, and others by the tallies of their
 *  states, which know topic and state alone. null: not known. */
function useCount(kind: OperationKind, { ids, versions, ...filter }: OperationFilterInput) {
  const { topic, state, ...more } = filter;
  const isDead = isAboutDead(kind);
  const query = Object.fromEntries(Object.entries(filter).map(([name, value]) => [name, String(value)]));
  const tallies = topic === undefined ? '/v1/stats' : `/v1/topics/${encodeURIComponent(topic)}/stats`;
  const isTallied = !isDead && Object.keys(more).length === 0;
  const dead = usePoll<DeadGroupsJson>(
    isDead && filter.idPrefix === undefined ? '/v1/dead/groups' : null,
    5_000,
    query,
  ).data;
  const stats = usePoll<Pick<StatsJson, 'states'>>(isTallied ? tallies : null, 5_000).data;
  if (dead !== null) return { count: dead.examined, isExact: dead.complete };
  if (stats === null) return null;
  const { states } = stats;
  if (kind === 'run') return { count: states.delayed, isExact: true };
  const live = states.delayed + states.ready + states.reserved;
  return { count: state === undefined ? live : states[state], isExact: true };
}

/** "1,240 dead letters match now", while the dialog is open. */
function Matching({ kind, filter }: { kind: OperationKind; filter: OperationFilterInput }) {
  const found = useCount(kind, filter);
  if (found === null) return null;
  const jobs = t(isAboutDead(kind) ? 'op_dead' : 'op_jobs', {
    count: `${number(found.count)}${found.isExact ? '' : '+'}`,
  });
  return <p role="status">{t('op_match_now', { jobs: jobs.trim() })}</p>;
}

/** The filter without its topic: "timeout · 5xx · dead before 14:30" */
export function filterText({
  kind,
  filter,
}: {
  readonly kind: string;
  readonly filter: Omit<OperationFilterInput, 'ids' | 'versions'> & { readonly idCount?: number | undefined };
}): string {
  const { deadReason, lastReason, status, idPrefix, state, since, until, idCount } = filter;
  const dead = isAboutDead(kind);
  return dots(
    deadReason,
    lastReason,
    status !== undefined && t('op_status', { status }),
    idPrefix !== undefined && `${idPrefix}*`,
    state !== undefined && t(`job_${state}`),
    idCount !== undefined && t('op_named', { count: number(idCount) }),
    since !== undefined &&
      t(dead ? 'op_dead_since' : 'op_due_since', { time: clock(new Date(since).getTime()) }),
    until !== undefined &&
      t(dead ? 'op_dead_until' : 'op_due_until', { time: clock(new Date(until).getTime()) }),
  );
}

const colours: Readonly<Record<OperationJson['state'], Colour>> = {
  not_started: 'quiet',
  running: 'running',
  stopped: 'retry',
  finished: 'done',
  failed: 'dead',
};

export function OperationState({ state }: { state: OperationJson['state'] }) {
  return (
    <Pill colour={colours[state]} ring={state === 'not_started'}>
      {t(`op_state_${state}`)}
    </Pill>
  );
}

/** "812 of 1,240 · 90/s · 5 s left · 0 failed" */
export function progressText(op: OperationJson): string {
  const { matched, perSecond, leftMs, failed, dryRun } = op;
  if (dryRun) return t('op_counted', { count: number(matched ?? 0) });
  const done = number(processed(op));
  return dots(
    matched === null ? t('op_done', { count: done }) : t('op_done_of', { count: done, of: number(matched) }),
    perSecond !== null && t('op_per_second', { count: number(perSecond) }),
    isRunning(op) && leftMs !== null && t('op_left', { time: duration(leftMs) }),
    t('op_failed', { count: number(failed) }),
  );
}

export function OperationMeter({ op }: { op: OperationJson }) {
  const whole = op.matched ?? (isRunning(op) ? null : processed(op));
  const share = whole === null || op.dryRun ? 0 : whole === 0 ? 1 : processed(op) / whole;
  return <Bar share={share} colour={colours[op.state]} label={progressText(op)} />;
}

export function askStop(op: OperationJson, stopped: () => void): void {
  const done = number(op.done);
  const rest = op.matched === null ? null : number(Math.max(0, op.matched - processed(op)));
  ask({
    title: t('op_stop_question'),
    body:
      op.kind === 'requeue' && rest !== null
        ? t('op_stop_requeue', { done, rest })
        : t('op_stop_text', { done }),
    action: t('op_stop'),
    danger: true,
    run: async () => {
      await call('DELETE', `/v1/operations/${op.id}`);
      stopped();
    },
  });
}

/** The open operations and those that have just ended, each with its progress. */
export function RunningOperations() {
  const poll = usePoll<{ items: readonly OperationJson[] }>('/v1/operations', ({ items }) =>
    items.some(isRunning) ? 1_000 : 5_000,
  );
  const shown = (poll.data?.items ?? []).filter(
    (op) => op.endedAt === null || Date.parse(op.endedAt) > daemonNow() - endedShownMs,
  );
  return (
    <>
      {[...shown.filter(isRunning), ...shown.filter((op) => !isRunning(op)).slice(0, 2)].map((op) => (
        <Running key={op.id} op={op} refresh={poll.refresh} />
      ))}
    </>
  );
}

function Running({ op, refresh }: { op: OperationJson; refresh: () => void }) {
  const about = filterText(op);
  const spread = op.spread === null ? '' : t('op_spread', { time: duration(op.spread) });
  const isOpen = isRunning(op);
  return (
    <section class="card progress" aria-label={nameOf(op)} role="status">
      <span>
        {isOpen && op.state === 'running' ? (
          <Pill colour="running">{t(`op_doing_${op.kind}` as Word)}</Pill>
        ) : (
          <OperationState state={op.state} />
        )}
      </span>
      <span class="what">
        <a class="name" href={href('operations', op.id)}>
          {nameOf(op)}
        </a>
        {about === '' ? null : <b>{about}</b>}
        <span class="faint">
          <Time
            at={op.createdAt}
            text={(ms) => t('op_by', { actor: actorName(op.actor), time: relative(ms) })}
          />
          {spread === '' ? '' : ` · ${spread}`}
        </span>
      </span>
      <span class="fields">
        <span class="num soft">{progressText(op)}</span>
        {isOpen && may('operate') ? (
          <Button look="s" onClick={() => askStop(op, refresh)}>
            {t('op_stop')}…
          </Button>
        ) : null}
      </span>
      <OperationMeter op={op} />
      {op.problem === null ? null : <p class="wrong all">{t('op_waits', { problem: op.problem })}</p>}
    </section>
  );
}

// Starting

/** Starts one operation per filter, and says so with a link. Rejects with CallError. */
export async function start(inputs: readonly OperationInputJson[]): Promise<void> {
  let last: OperationJson | null = null;
  for (const input of inputs) {
    const isAll = Object.keys(input.filter ?? {}).length === 0;
    last = await call<OperationJson>('POST', '/v1/operations', {
      json: { ...input, ...(isAll ? { all: true } : {}) },
    });
  }
  if (last !== null) toast(t('op_started'), { href: href('operations', last.id), text: t('view') });
}

/** A job as the page shows it: a newer one of its id is left alone. */
export type ShownJob = Pick<JobSummaryJson, 'topic' | 'id' | 'version'>;

/** An operation per topic for named jobs. */
export function namedFilters(jobs: readonly ShownJob[]): readonly OperationFilterInput[] {
  const topics = new Set(jobs.map(({ topic }) => topic));
  return [...topics].map((topic) => {
    const its = jobs.filter((job) => job.topic === topic);
    return { topic, ids: its.map(({ id }) => id), versions: its.map(({ version }) => version) };
  });
}

/** So many jobs at once burden no receiver. */
const atOnceMax = 100;
const spreads = ['1m', '10m', '1h', '6h', '1d'] as const;

/** What the dialog before a requeue asks for; times of its fields, '' = none. */
interface Requeue {
  /** '' = at once */
  readonly spread: string;
  readonly since: string;
  readonly until: string;
}

const requeueInput = (filter: OperationFilterInput, { spread }: Requeue): OperationInputJson => ({
  kind: 'requeue',
  filter,
  ...(spread === '' ? {} : { spread }),
});

/** `most`: no more jobs than these; null: not known. */
const spreadFor = (most: number | null): string => (most !== null && most < atOnceMax ? '' : '10m');

/** `count`, or else `most`: the jobs, or a number that they are not above; null: not known. */
export function askRequeue(
  filters: readonly OperationFilterInput[],
  topic: string | undefined,
  count: number | null,
  most = count,
): void {
  const draft = draftOf<Requeue>({ spread: spreadFor(most), since: '', until: '' });
  ask({
    title: t('op_question', { title: titleOf('requeue', topic, count) }),
    body: (
      <>
        <FilterLine kind="requeue" filters={filters} count={count} />
        <p>{t('op_requeue_text')}</p>
        <SpreadChoice draft={draft} />
        {topic === undefined ? null : <FailingNow topic={topic} />}
      </>
    ),
    action: t('requeue'),
    run: () => start(filters.map((filter) => requeueInput(filter, draft.value))),
  });
}

/** Dead letters of a time that is chosen in the dialog, at first of today. `most`: all that the filter names at
 *  any time. */
export function askRequeueByTime({ since, ...filter }: OperationFilterInput, most: number | null): void {
  const from = since === undefined ? dayOf(daemonNow())[0] : new Date(since).getTime();
  const draft = draftOf<Requeue>({ spread: spreadFor(most), since: localTime(from), until: '' });
  ask({
    title: t('op_question', { title: titleOf('requeue', filter.topic, null) }),
    body: (
      <>
        <FilterLine kind="requeue" filters={[filter]} count={0} />
        <p>{t('op_requeue_text')}</p>
        <TimeField name="since" draft={draft} />
        <TimeField name="until" draft={draft} />
        <MatchingByTime filter={filter} draft={draft} />
        <SpreadChoice draft={draft} />
      </>
    ),
    action: t('requeue'),
    run: async () => {
      const { since, until } = draft.value;
      if (since + until === '') throw new CallError(400, 'shown', t('op_time_missing'));
      await start([requeueInput({ ...filter, ...timesOf(draft.value) }, draft.value)]);
    },
  });
}

const timesOf = ({ since, until }: Requeue) => ({
  ...(since === '' ? {} : { since: new Date(since).toISOString() }),
  ...(until === '' ? {} : { until: new Date(until).toISOString() }),
});

const MatchingByTime = ({ filter, draft }: { filter: OperationFilterInput; draft: Draft<Requeue> }) => (
  <Matching kind="requeue" filter={{ ...filter, ...timesOf(draft.value) }} />
);

/** Value of a field for a local time. */
function localTime(epochMs: number): string {
  const date = new Date(epochMs);
  return new Date(epochMs - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const TimeField = ({ name, draft }: { name: 'since' | 'until'; draft: Draft<Requeue> }) => (
  <label>
    {t(`op_died_${name}`)}
    <input
      type="datetime-local"
      step="1"
      value={draft.value[name]}
      onInput={(event) => draft.set({ [name]: event.currentTarget.value })}
    />
    {name === 'until' ? <small>{t('op_died_until_hint')}</small> : null}
  </label>
);

function SpreadChoice({ draft: { value, set } }: { draft: Draft<Requeue> }) {
  const { spread } = value;
  return (
    <fieldset>
      <legend class="sr">{t('time')}</legend>
      <Check group="spread" isOn={spread === ''} onChange={() => set({ spread: '' })}>
        {t('op_at_once')}
      </Check>
      <Check group="spread" isOn={spread !== ''} onChange={() => set({ spread: '10m' })}>
        {t('op_spread_over')}{' '}
        <select
          aria-label={t('op_spread_over')}
          value={spread === '' ? '10m' : spread}
          onChange={(event) => set({ spread: event.currentTarget.value })}
        >
          {spreads.map((time) => (
            <option key={time} value={time}>
              {time}
            </option>
          ))}
        </select>
      </Check>
    </fieldset>
  );
}

/** "53 % of the attempts at its endpoint failed in the last 5 min", those of other topics included. */
function FailingNow({ topic }: { topic: string }) {
  const { data } = usePoll<EndpointsJson>('/v1/endpoints', 5_000, { topic });
  const known = (data?.items ?? []).filter(({ successRate }) => successRate !== null);
  const attempts = known.reduce((sum, one) => sum + one.attempts, 0);
  const failed = known.reduce((sum, one) => sum + one.attempts * (1 - (one.successRate ?? 1)), 0);
  if (attempts === 0 || failed === 0) return null;
  return (
    <p class="warned">
      <Icon name="warn" small /> {t('op_failing', { percent: Math.round((100 * failed) / attempts) })}
    </p>
  );
}

/** Asks for the number, or for the word where the number is not known. */
export function askPurge(
  filters: readonly OperationFilterInput[],
  topic: string | undefined,
  count: number | null,
): void {
  const typed = count === null ? t('purge') : number(count);
  // Jobs that die while the dialog is open are not part of its question.
  const until = new Date(daemonNow()).toISOString();
  ask({
    title: t('op_purge_question', { title: titleOf('purge', topic, count) }),
    body: (
      <>
        <FilterLine kind="purge" filters={filters} count={count} />
        <p>{t('op_purge_text', { typed })}</p>
      </>
    ),
    action: t('purge'),
    danger: true,
    typed,
    run: () => start(filters.map((filter) => ({ kind: 'purge', filter: { until, ...filter } }))),
  });
}

/** The operations that are possible for jobs in all of these states, and that the session may begin; '' =
 *  every live state. */
export function verbsOf(states: readonly string[]): readonly OperationKind[] {
  const possible: Readonly<Record<string, readonly OperationKind[]>> = {
    delayed: ['run', 'reschedule', 'cancel'],
    ready: ['reschedule', 'cancel'],
    reserved: ['cancel'],
    dead: ['requeue', 'cancel'],
    '': ['cancel'],
  };
  const of = (state: string): readonly OperationKind[] =>
    (possible[state] ?? []).filter((kind) => kind !== 'cancel' || may('push'));
  const [first = '', ...rest] = states;
  return of(first).filter((kind) => rest.every((state) => of(state).includes(kind)));
}

export const isTime = (text: string): boolean => /^\d{4}-/.test(text);

/** "10m" or a time, as the API takes it. */
export function delayOrTime(text: string): { readonly delay: string } | { readonly at: string } {
  const value = text.trim();
  return isTime(value) ? { at: value } : { delay: value };
}

export const rescheduleInput = () => ({
  label: t('reschedule_field'),
  hint: t('reschedule_hint'),
  value: '10m',
});

/** `count` null: not known. */
export function askJobs(
  kind: OperationKind,
  filters: readonly OperationFilterInput[],
  topic: string | undefined,
  count: number | null,
): void {
  // Dead letters, and jobs to run, have their state by the kind of the operation.
  const stateless = filters.map(({ state, ...filter }) => filter);
  if (kind === 'requeue') {
    askRequeue(stateless, topic, count);
    return;
  }
  const [isCancel, isReschedule] = [kind === 'cancel', kind === 'reschedule'];
  ask({
    title: t('op_question', { title: titleOf(kind, topic, count) }),
    body: (
      <>
        <FilterLine kind={kind} filters={filters} count={count} />
        <p>{t(isCancel ? 'cancel_jobs_text' : 'op_confirm_text')}</p>
      </>
    ),
    action: t(isCancel ? 'cancel_jobs' : kind === 'run' ? 'run_now' : 'reschedule'),
    danger: isCancel,
    keep: isCancel ? t('keep_jobs') : undefined,
    typed: isCancel && count === null ? t('op_cancel') : undefined,
    input: isReschedule ? rescheduleInput() : undefined,
    run: (value) => {
      const more = isReschedule ? delayOrTime(value) : {};
      return start((kind === 'run' ? stateless : filters).map((filter) => ({ kind, filter, ...more })));
    },
  });
}
