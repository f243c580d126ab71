// Every metric of /metrics, declared once: name, type, labels, sentence. The README's table is made from this file, and a
// label takes only the values listed here, so their number is bounded. Where the values are not known beforehand (null), the
// line beside it says what bounds them.

import type { AttemptReason } from '../core/job.ts';

/** null: any text */
type Label = readonly [name: string, values: readonly string[] | null];

export interface Declaration {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** one sentence without a full stop */
  readonly help: string;
  readonly labels: readonly Label[];
  /** upper bounds, rising; of a histogram alone */
  readonly bounds: readonly number[];
  /** which combinations of values can occur; all of them where it is absent */
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

/** Without labels: a histogram has a dozen series as it is. */
function histogram(help: string, bounds: readonly number[]) {
  return { type: 'histogram', help, labels: [], bounds } as const;
}

const reasons = [
  'none',
  'blocked_address',
  'dns',
  'connect',
  'tls',
  'timeout',
  'reset',
  'protocol',
  'status',
  'reply_too_large',
  'empty_reply',
  'rule',
] as const satisfies readonly (AttemptReason | 'none')[];

const states = ['delayed', 'ready', 'reserved', 'dead'] as const;
const roles = ['store', 'server', 'timer', 'notifier', 'upkeep'] as const;

/** A title of a process: as many as there are workers. */
const process: readonly [Label] = [['process', null]];
/** The sum over the topics without series of their own. No topic can have this name. */
export const otherLabel = '_other';

/** upkeepLimits.metricTopicsMax topics, and `_other`. */
const topic = ['topic', null] as const;

/** From a fast disk's fsync to where a push is answered `unknown`. */
const waitBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Up to the longest timeout that a topic may have. */
const callbackBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** From what is published as usual to an hour of overload. */
const latenessBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600];
/** Up to sqliteLimits.groupItemsMax. */
const itemBounds = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000];

export const metricDeclarations = {
  dq_pushes_total: counter('Pushes, each job of a batch by itself', [
    ['outcome', ['stored', 'replaced', 'kept', 'refused', 'not_stored', 'unknown']],
  ]),
  dq_push_seconds: histogram('From the whole push to its answer, the fsync included', waitBounds),
  dq_http_requests_total: counter('Answers of the HTTP API', [['status', ['2xx', '3xx', '4xx', '5xx']]]),
  dq_attempts_total: counter(
    'Callback attempts, by what became of the job and why the attempt failed',
    [
      ['verdict', ['ack', 'retry', 'bury']],
      ['reason', reasons],
    ],
    ([verdict, reason]) => (verdict === 'ack') === (reason === 'none'),
  ),
  dq_callback_seconds: histogram('Duration of an attempt, from the look-up of the name on', callbackBounds),
  dq_delivery_lateness_seconds: histogram('How late attempts began, retries included', latenessBounds),
  dq_jobs: gauge('Stored jobs', [['state', states]]),
  dq_jobs_orphaned: gauge('Of them, jobs whose topic is not registered; they are held', []),
  dq_oldest_overdue_seconds: gauge(
    'How long the oldest job that waits for its turn has been due; topics that are paused or offline do not count',
    [],
  ),
  dq_topic_jobs: gauge('Stored jobs of a topic', [topic, ['state', states]]),
  dq_topic_events_total: counter('What happened to the jobs of a topic', [
    topic,
    ['event', ['pushed', 'delivered', 'retried', 'dead', 'cancelled']],
  ]),
  dq_jobs_promoted_total: counter('Jobs that became due and were moved to the ready ones', []),
  dq_jobs_released_total: counter('Reserved jobs that were handed back uncalled, without cost', []),
  dq_leases_lost_total: counter('Finishing writes that came too late and changed nothing', [
    ['verb', ['ack', 'retry', 'bury', 'release']],
  ]),
  dq_settles_repeated_total: counter('Finishing writes that had no answer and were sent again', []),
  dq_leases_recovered_total: counter(
    'Leases taken back from notifiers that died or fell silent; on a disk with room each is a strike to its job',
    [],
  ),
  dq_strikes_alone_total: counter('Calls of jobs that have two strikes or more, made alone', []),
  dq_strikes_poisoned_total: counter('Jobs that were buried as poison with their fifth strike', []),
  dq_mails_total: counter('Alert mails, by what the mail server made of each address', [
    ['outcome', ['accepted', 'refused', 'deferred', 'failed']],
  ]),
  dq_store_up: gauge('1 when the job store answers and takes pushes', []),
  dq_redis_up: gauge('The same of each Redis', [['server', null]]),
  dq_store_set_aside: gauge(
    'What lies aside in Redis because it cannot be read or stands for no job; `dq fsck` names it',
    [],
  ),
  dq_store_warnings: gauge('What of the configuration of the job store is dangerous; `/readyz` names it', []),
  dq_store_group_commit_seconds: histogram(
    'COMMIT of a transaction of the store, fsync included',
    waitBounds,
  ),
  dq_store_group_items: histogram('Jobs and questions that shared a transaction', itemBounds),
  dq_log_lines_dropped_total: counter(
    'Log lines that no disk took, or that were beyond `log.bytesMaxPerDay`',
    [],
  ),
  dq_in_flight: gauge('Requests being answered, callbacks running, calls to the store', [['role', roles]]),
  dq_worker_deaths_total: counter('Worker processes that ended unasked', [['role', roles]]),
  dq_reloads_total: counter('Reloads; one that was refused has changed nothing', [
    ['outcome', ['reloaded', 'refused']],
  ]),
  dq_process_cpu_seconds_total: counter('Processor time', process),
  dq_process_resident_memory_bytes: gauge('Resident memory', process),
  dq_process_open_fds: gauge('Open file descriptors', process),
  dq_process_start_time_seconds: gauge('When the process began, Unix time', process),
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

/** null: nobody knows a metric of this name; another version of dq may. */
export function declarationOf(name: string): Declaration | null {
  return Object.hasOwn(metricDeclarations, name) ? metricDeclarations[name as MetricName] : null;
}

/** Every combination of values that can occur; none where a label takes any text. They begin at 0: a rate over a series that
 *  appears with its first event misses that event. */
export function knownSeries({ labels, occurs = () => true }: Declaration): readonly (readonly string[])[] {
  let combinations: readonly (readonly string[])[] = [[]];
  for (const [, values] of labels)
    combinations = combinations.flatMap((head) => (values ?? []).map((value) => [...head, value]));
  return combinations.filter(occurs);
}

/** The README's table. */
export function renderMetricsTable(): string {
  const rows = Object.entries<Declaration>(metricDeclarations).map(([name, { type, labels, help }]) => {
    const shown = labels.map(([label, values]) => {
      return values === null ? `\`${label}\`` : `\`${label}\`: ${values.join(' ')}`;
    });
    return `| \`${name}\` | ${type} | ${shown.join('<br>')} | ${help} |\n`;
  });
  return `| name | type | labels | |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}
