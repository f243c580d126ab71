// Declares every metric: name, type, labels, sentence. The manual's table derives from it. A label takes
// only the listed values, so their number is bounded; a comment names the bound of a label with free values
// (null).

import { attemptReasons, jobStates } from '../core/job.ts';
import type { ChangeKind } from '../core/job-change.ts';
import { statNames } from '../core/series.ts';

/** null: any text */
type Label = readonly [name: string, values: readonly string[] | null];

export interface Declaration {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** one sentence without a full stop */
  readonly help: string;
  readonly labels: readonly Label[];
  /** rising upper bounds; of a histogram only */
  readonly bounds: readonly number[];
  /** combinations of values that can occur; absent: all */
  readonly occurs?: (values: readonly string[]) => boolean;
}

function counter<const L extends readonly Label[]>(
  help: string,
  labels: L,
  occurs: (values: readonly string[]) => boolean = () => true,
) {
  return { type: 'counter', help, labels, bounds: [], occurs } as const;
}

function gauge<const L extends readonly Label[]>(help: string, labels: L) {
  return { type: 'gauge', help, labels, bounds: [] } as const;
}

/** Without labels: a histogram already has a dozen series. */
function histogram(help: string, bounds: readonly number[]) {
  return { type: 'histogram', help, labels: [], bounds } as const;
}

const reasons = ['none', ...attemptReasons] as const;

const changeKinds = [
  ...(['accepted', 'moved', 'retried', 'dead', 'ended', 'alert', 'restored'] as const),
] as const satisfies readonly ChangeKind[];

const roles = ['store', 'server', 'console', 'timer', 'notifier', 'upkeep'] as const;

/** Title of a process: bounded by the number of workers. */
const process: readonly [Label] = [['process', null]];
/** The sum over topics without own series. No topic can have this name. */
export const otherLabel = '_other';

/** upkeepLimits.metricTopicsMax topics, and `_other`. */
const topic = ['topic', null] as const;

/** From the fsync of a fast disk to the deadline of a push. */
const waitBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Up to the longest timeout of a topic. */
const callbackBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** From the usual lateness to an hour of overload. */
const latenessBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600];
/** Up to sqliteLimits.groupItemsMax. */
const itemBounds = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000];

const dialectVerbs = ['add', 'del', 'get', 'push', 'pop', 'finish', 'restore', 'clear'] as const;
const grpcVerbs = ['batch', 'pull', 'ack', 'nack', 'extend'] as const;
/** `other`: all of them, for requests that dq rejects. */
const compatVerbs: Readonly<Record<string, readonly string[]>> = {
  php: ['add', 'del', 'get'],
  ouqiang: ['push', 'pop', 'get', 'del', 'finish'],
  sdmq: ['push', 'pop', 'del', 'finish', 'restore', 'clear'],
  grpc: [...grpcVerbs, 'push', 'get', 'del', 'finish', 'restore', 'clear'],
};

export const metricDeclarations = {
  dq_pushes_total: counter('Pushes; each job of a batch counts', [
    ['outcome', ['stored', 'replaced', 'kept', 'ended', 'refused', 'not_stored', 'unknown']],
  ]),
  dq_push_seconds: histogram('From the end of the request to its reply, fsync included', waitBounds),
  dq_http_requests_total: counter('Replies of the HTTP API, without those of the console', [
    ['status', ['2xx', '3xx', '4xx', '5xx']],
  ]),
  dq_compat_requests_total: counter(
    'Requests by gRPC and by the protocols of other queues; closed: the connection was closed without a reply',
    [
      ['protocol', ['php', 'ouqiang', 'sdmq', 'grpc']],
      ['verb', [...dialectVerbs, ...grpcVerbs, 'other']],
      ['outcome', ['ok', 'fail', 'closed']],
    ],
    ([protocol = '', verb = '', outcome]) =>
      (outcome !== 'closed' || protocol === 'php') &&
      (verb === 'other' ? outcome !== 'ok' : compatVerbs[protocol]?.includes(verb) === true),
  ),
  dq_attempts_total: counter(
    'Callback attempts by outcome of the job and reason of the failure',
    [
      ['verdict', ['ack', 'again', 'retry', 'bury']],
      ['reason', reasons],
    ],
    ([verdict, reason]) => (verdict === 'ack' || verdict === 'again') === (reason === 'none'),
  ),
  dq_callback_seconds: histogram('Duration of an attempt, name lookup included', callbackBounds),
  dq_delivery_lateness_seconds: histogram('How late attempts began, retries included', latenessBounds),
  dq_jobs: gauge('Stored jobs', [['state', jobStates]]),
  dq_jobs_orphaned: gauge('Stored jobs without a registered topic; they are held', []),
  dq_oldest_overdue_seconds: gauge(
    'How long the oldest job that dq delivers has been due; ready jobs of pull topics, and topics that are paused or offline, do not count',
    [],
  ),
  dq_topic_jobs: gauge('Stored jobs of a topic', [topic, ['state', jobStates]]),
  dq_topic_events_total: counter('Events of the jobs of a topic', [topic, ['event', statNames]]),
  dq_pulls_total: counter('Pull requests by their answer', [['outcome', ['jobs', 'empty', 'gone']]]),
  dq_pull_waiting: gauge('Pull requests that wait for a job', []),
  dq_jobs_promoted_total: counter('Jobs promoted from delayed to ready', []),
  dq_jobs_released_total: counter('Reserved jobs released without a call; no attempt counted', []),
  dq_leases_lost_total: counter('Finishing writes rejected because the lease was lost', [
    ['verb', ['ack', 'retry', 'bury', 'release']],
  ]),
  dq_settles_repeated_total: counter('Finishing writes repeated for lack of a reply', []),
  dq_leases_recovered_total: counter(
    'Leases recovered from dead or silent notifiers; each is a strike unless the disk is full',
    [],
  ),
  dq_leases_expired_total: counter('Leases of pulled jobs that expired; each is a failed attempt', []),
  dq_strikes_alone_total: counter('Isolated calls of jobs with two or more strikes', []),
  dq_strikes_poisoned_total: counter('Jobs buried as poison at their fifth strike', []),
  dq_mails_total: counter('Alert mails by reply of the mail server, per address', [
    ['outcome', ['accepted', 'refused', 'deferred', 'failed']],
  ]),
  dq_alert_hooks_total: counter('Alerts sent to hooks by their reply', [
    ['outcome', ['accepted', 'refused', 'deferred']],
  ]),
  dq_store_up: gauge('1 when the job store answers and takes pushes', []),
  dq_redis_up: gauge('The same of each Redis', [['server', null]]),
  dq_store_set_aside: gauge(
    'Records in quarantine in Redis: unreadable, or without a job; `dq fsck` names them',
    [],
  ),
  dq_store_warnings: gauge('Dangerous settings of the job store; `/readyz` names them', []),
  dq_store_group_commit_seconds: histogram('Duration of a COMMIT of the store, fsync included', waitBounds),
  dq_store_group_items: histogram('Jobs and calls that shared a transaction', itemBounds),
  dq_spool_bytes: gauge('Bytes of the spool of the journal, kept segments included', []),
  dq_journal_lag_seconds: gauge('Age of the oldest change that MySQL does not have yet; 0: it has all', []),
  dq_journal_sync_seconds: histogram('Duration of an fdatasync of the spool', waitBounds),
  dq_journal_changes_total: counter('Changes of jobs that were written to the spool', [
    ['kind', changeKinds],
  ]),
  dq_restoring: gauge('Partitions of Redis that lost changes and are not healed yet', []),
  dq_store_went_back_total: counter('Healings that began because a Redis lost changes', [['server', null]]),
  dq_restored_jobs_total: counter('Rows of the journal that healings compared with the jobs', [
    ['outcome', ['put', 'removed', 'kept']],
  ]),
  dq_log_lines_dropped_total: counter('Log lines dropped: not written, or beyond `log.bytesMaxPerDay`', []),
  dq_in_flight: gauge('Running requests, callbacks and store calls', [['role', roles]]),
  dq_worker_deaths_total: counter('Worker processes that ended without a request', [['role', roles]]),
  dq_reloads_total: counter('Reloads; a rejected one changed nothing', [
    ['outcome', ['reloaded', 'refused']],
  ]),
  dq_process_cpu_seconds_total: counter('Processor time', process),
  dq_process_resident_memory_bytes: gauge('Resident memory', process),
  dq_process_open_fds: gauge('Open file descriptors', process),
  dq_process_start_time_seconds: gauge('When the process began, Unix time', process),
  dq_leader: gauge('With standby: 1 while this instance calls jobs, else 0', []),
  dq_deliveries_enabled: gauge('1; 0 after `dq start --no-deliveries`', []),
  dq_info: gauge('1, with the version of the master', [['version', null]]),
} as const satisfies Readonly<Record<string, Declaration>>;

type Declarations = typeof metricDeclarations;
export type MetricName = keyof Declarations;
type NameOf<Type> = { [N in MetricName]: Declarations[N]['type'] extends Type ? N : never }[MetricName];
export type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
export type HistogramName = NameOf<'histogram'>;

type ValueOf<L> = L extends readonly [string, readonly (infer V extends string)[]] ? V : string;
type ValuesOf<L extends readonly unknown[]> = { readonly [K in keyof L]: ValueOf<L[K]> };
/** The values of a metric's labels, in the order of their declaration. */
export type LabelValues<N extends MetricName> = ValuesOf<Declarations[N]['labels']>;

/** null: unknown metric, perhaps of another version of dq. */
export function declarationOf(name: string): Declaration | null {
  return Object.hasOwn(metricDeclarations, name) ? metricDeclarations[name as MetricName] : null;
}

/** Every possible combination of values; none with a free label. These series begin at 0: a rate over a
 *  series that appears with its first event misses that event. */
export function knownSeries({ labels, occurs = () => true }: Declaration): readonly (readonly string[])[] {
  let combinations: readonly (readonly string[])[] = [[]];
  for (const [, values] of labels)
    combinations = combinations.flatMap((head) => (values ?? []).map((value) => [...head, value]));
  return combinations.filter(occurs);
}

/** The manual's table. */
export function renderMetricsTable(): string {
  const rows = Object.entries<Declaration>(metricDeclarations).map(([name, { type, labels, help }]) => {
    const shown = labels.map(([label, values]) => {
      return values === null ? `\`${label}\`` : `\`${label}\`: ${values.join(' ')}`;
    });
    return `| \`${name}\` | ${type} | ${shown.join('<br>')} | ${help} |\n`;
  });
  return `| name | type | labels | |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}
