// Declares once what people watch in Prometheus: the alert rules and the panels of the dashboard.
// `npm run docs` writes the two files to load and the tables of monitoring.md from them.
// An expression names no installation: the dashboard adds its variables to each selector.

import { code, table } from './markdown.ts';

export interface AlertRule {
  readonly name: string;
  readonly severity: 'critical' | 'warning';
  readonly expression: string;
  /** how long the expression must hold, as Prometheus writes it; null: the first evaluation counts */
  readonly holds: string | null;
  /** one sentence without a full stop; Prometheus fills in `{{ $labels.… }}` */
  readonly summary: string;
  /** what the operator does first */
  readonly action: string;
}

export interface Series {
  readonly expression: string;
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  /** stat: the value now; lines: its course */
  readonly kind: 'stat' | 'lines';
  /** a unit of Grafana */
  readonly unit: 's' | 'ops' | 'short' | 'bytes' | 'percentunit' | 'bool_yes_no' | 'none';
  /** the question that the panel answers, and what to do */
  readonly description: string;
  readonly series: readonly Series[];
  /** values from which on the panel is orange and red */
  readonly limits?: { readonly orange?: number; readonly red?: number };
  /** a stat whose low value is the bad one: red below 1 */
  readonly isBadAtZero?: true;
  /** shown where no series exists */
  readonly without?: string;
}

export interface Row {
  readonly title: string;
  /** whether the variable `topic` selects the series */
  readonly isByTopic: boolean;
  readonly panels: readonly Panel[];
}

/** Where an alert and a panel judge the same number, both take it from here. */
const limits = { lateSeconds: 60, journalLagSeconds: 60, openFiles: 50_000 } as const;

// Gauges of the shared store are equal on all instances, so one alert tells of them, not one per instance.
export const alertRules: readonly AlertRule[] = [
  {
    name: 'DqDown',
    severity: 'critical',
    expression: 'up{job="dq"} == 0',
    holds: '1m',
    summary: 'dq at {{ $labels.instance }} does not answer the scrape',
    action: 'On that machine run `dq status`. A 401 in the targets of Prometheus means a wrong token.',
  },
  {
    name: 'DqStoreDown',
    severity: 'critical',
    expression: 'dq_store_up == 0',
    holds: '30s',
    summary: 'The job store of {{ $labels.instance }} rejects pushes',
    action: '`/readyz` with a token names the cause, and `dq doctor` examines the store.',
  },
  {
    name: 'DqRedisDown',
    severity: 'critical',
    expression: 'min by (job, server) (dq_redis_up) == 0',
    holds: '1m',
    summary: 'Redis {{ $labels.server }} does not answer or takes no pushes',
    action: 'Repair this Redis; `dq doctor` names the hop that fails. The jobs of other Redis servers go on.',
  },
  {
    name: 'DqLate',
    severity: 'critical',
    expression: `max by (job) (dq_oldest_overdue_seconds) > ${limits.lateSeconds}`,
    holds: '1m',
    summary: 'The oldest due job waits for {{ $value | humanizeDuration }}',
    action:
      'The overview of the console names the topic, and `dq explain TOPIC ID` says why a job waits. Ready jobs of pull topics do not count.',
  },
  {
    name: 'DqDeadLetters',
    severity: 'warning',
    expression: 'sum by (job, topic) (increase(dq_topic_events_total{event="dead"}[10m])) > 0',
    holds: null,
    summary: 'Jobs of topic {{ $labels.topic }} used up their attempts',
    action: '`dq dead ls` shows the reasons. Repair the receiver, then run `dq dead requeue TOPIC`.',
  },
  {
    name: 'DqOrphanedJobs',
    severity: 'warning',
    expression: 'max by (job) (dq_jobs_orphaned) > 0',
    holds: '10m',
    summary: '{{ $value }} jobs belong to topics that are not registered',
    action: '`dq doctor` names the topics. Register them, or the jobs are held for ever.',
  },
  {
    name: 'DqWorkerDeaths',
    severity: 'warning',
    expression: 'sum by (job, instance, role) (increase(dq_worker_deaths_total[10m])) > 0',
    holds: null,
    summary: 'A process dq-{{ $labels.role }} of {{ $labels.instance }} died; dq-master started it again',
    action: 'Read the `error` log and `dq-output.log` of that time, and the kernel log for the OOM killer.',
  },
  {
    name: 'DqStoreWarnings',
    severity: 'warning',
    expression: 'dq_store_warnings > 0',
    holds: '10m',
    summary: 'The job store of {{ $labels.instance }} has dangerous settings',
    action: '`dq doctor` and `/readyz` name each setting and its remedy.',
  },
  {
    name: 'DqSetAside',
    severity: 'warning',
    expression: 'max by (job) (dq_store_set_aside) > 0',
    holds: null,
    summary: '{{ $value }} records in Redis are unreadable or without a job',
    action: 'Run `dq fsck`: it names them, and what to do.',
  },
  {
    name: 'DqJournalLag',
    severity: 'warning',
    expression: `dq_journal_lag_seconds > ${limits.journalLagSeconds}`,
    holds: '1m',
    summary: 'MySQL lacks the changes of {{ $labels.instance }} since {{ $value | humanizeDuration }}',
    action: 'Run `dq journal`, and repair MySQL before the spool is full: then dq rejects pushes.',
  },
  {
    name: 'DqLogLinesDropped',
    severity: 'warning',
    expression: 'sum by (job, instance) (increase(dq_log_lines_dropped_total[10m])) > 0',
    holds: null,
    summary: '{{ $labels.instance }} drops log lines',
    action: 'Free the disk of `logDir`, raise `log.bytesMaxPerDay`, or set `log.request: errors`.',
  },
  {
    name: 'DqOpenFiles',
    severity: 'warning',
    expression: `dq_process_open_fds > ${limits.openFiles}`,
    holds: null,
    summary: '{{ $labels.process }} of {{ $labels.instance }} has {{ $value }} open files',
    action: 'Find the clients that leave connections open, or raise `LimitNOFILE` of the unit.',
  },
];

const rate = (series: string) => `rate(${series}[$__rate_interval])`;

function quantiles(histogram: string): readonly Series[] {
  return [50, 99].map((percent) => ({
    expression: `histogram_quantile(${percent / 100}, sum by (le) (${rate(`${histogram}_bucket`)}))`,
    legend: `p${percent}`,
  }));
}

const one = (expression: string, legend: string): readonly Series[] => [{ expression, legend }];

export const dashboardRows: readonly Row[] = [
  {
    title: 'At a glance',
    isByTopic: false,
    panels: [
      {
        title: 'Late by',
        kind: 'stat',
        unit: 's',
        description:
          'How long has the oldest job that dq delivers been due? Red: see which topic has due jobs in the row Topics, then `dq explain TOPIC ID`. Ready jobs of pull topics do not count, nor do topics that are paused or offline.',
        series: one('max(dq_oldest_overdue_seconds)', 'late'),
        limits: { orange: limits.lateSeconds / 6, red: limits.lateSeconds },
      },
      {
        title: 'Due and waiting',
        kind: 'stat',
        unit: 'short',
        description:
          'How many jobs are due and wait for a free call? A number that grows: the receivers are too slow or `concurrency`, `rate` or `notifier.slots` are too low. Jobs of paused topics and of pull topics count.',
        series: one('max(dq_jobs{state="ready"})', 'ready'),
      },
      {
        title: 'Dead letters',
        kind: 'stat',
        unit: 'short',
        description:
          'How many jobs used up their attempts and wait for an operator? `dq dead ls` shows the reasons; requeue them after the repair: `dq dead requeue TOPIC`.',
        series: one('max(dq_jobs{state="dead"})', 'dead'),
        limits: { orange: 1 },
      },
      {
        title: 'Failed calls',
        kind: 'stat',
        unit: 'percentunit',
        description:
          'Which part of the calls fails? Look at the reasons in the graph below. dq retries by itself; act before the attempts are used up.',
        series: one(
          `sum(${rate('dq_attempts_total{verdict!="ack"}')}) / (sum(${rate('dq_attempts_total')}) > 0)`,
          'failed',
        ),
        limits: { orange: 0.05, red: 0.2 },
        without: 'no calls',
      },
      {
        title: 'Pushes not stored',
        kind: 'stat',
        unit: 'ops',
        description:
          'Do callers get 503, or no certain answer? Callers must push again with the same id. `/readyz` with a token names the cause: full disk, unavailable Redis, a limit.',
        series: one(`sum(${rate('dq_pushes_total{outcome=~"not_stored|unknown"}')})`, 'not stored'),
        limits: { red: 0.001 },
      },
      {
        title: 'Store answers',
        kind: 'stat',
        unit: 'bool_yes_no',
        description:
          'Does the job store of each instance answer and take pushes? No: `dq doctor` on that machine. Without an answer nothing is lost, but pushes are rejected.',
        series: one('min(dq_store_up)', 'store'),
        isBadAtZero: true,
      },
      {
        title: 'Calls by result',
        kind: 'lines',
        unit: 'ops',
        description:
          'How many calls succeed (ack), will be repeated (retry) and failed for the last time (bury)? If all three are 0 while jobs are due, look at the row Processes.',
        series: one(`sum by (verdict) (${rate('dq_attempts_total')})`, '{{verdict}}'),
      },
      {
        title: 'Failed calls by reason',
        kind: 'lines',
        unit: 'ops',
        description:
          'Why do calls fail? The troubleshooting page of the manual has a remedy for each reason; `dq get TOPIC ID` shows the reply of one job.',
        series: one(`sum by (reason) (${rate('dq_attempts_total{verdict!="ack"}')}) > 0`, '{{reason}}'),
        without: 'no failed calls',
      },
      {
        title: 'Lateness of calls',
        kind: 'lines',
        unit: 's',
        description:
          'How late do calls begin, retries included? p99 high and p50 low: single topics wait for capacity. Both high: all do, or the store is slow.',
        series: quantiles('dq_delivery_lateness_seconds'),
        limits: { red: limits.lateSeconds },
      },
      {
        title: 'Duration of calls',
        kind: 'lines',
        unit: 's',
        description:
          'How long do receivers take? Slow receivers occupy slots: let them answer early, raise `concurrency`, or lower the timeout of the topic.',
        series: quantiles('dq_callback_seconds'),
      },
      {
        title: 'Stored jobs',
        kind: 'lines',
        unit: 'short',
        description:
          'What is stored, by state? delayed: not due yet. ready: due. reserved: in a call, or pulled. dead: waits for an operator.',
        series: one('max by (state) (dq_jobs)', '{{state}}'),
      },
      {
        title: 'Pushes',
        kind: 'lines',
        unit: 'ops',
        description:
          'What do callers push, and with which outcome? refused: the caller is wrong, or a limit is reached; the `request` log has the code.',
        series: one(`sum by (outcome) (${rate('dq_pushes_total')})`, '{{outcome}}'),
      },
      {
        title: 'Duration of a push',
        kind: 'lines',
        unit: 's',
        description:
          'How long does a push take from the end of the request to its reply? It contains the fsync: compare it with the commit time of the store.',
        series: quantiles('dq_push_seconds'),
      },
      {
        title: 'Requests by status',
        kind: 'lines',
        unit: 'ops',
        description:
          'How does the API answer? Many 4xx: one caller is wrong; the `request` log names it. 5xx: the store is unavailable or full.',
        series: one(`sum by (status) (${rate('dq_http_requests_total')})`, '{{status}}'),
      },
    ],
  },
  {
    title: 'Topics: $topic',
    isByTopic: true,
    panels: [
      {
        title: 'Due and waiting, by topic',
        kind: 'lines',
        unit: 'short',
        description:
          'Which topic has the backlog? `dq topic get TOPIC` shows its `concurrency`, `rate` and state; a pull topic needs more consumers.',
        series: one('max by (topic) (dq_topic_jobs{state="ready"})', '{{topic}}'),
      },
      {
        title: 'Running, by topic',
        kind: 'lines',
        unit: 'short',
        description:
          'Which topics occupy the slots? A topic that stays at its `concurrency` has slow receivers or needs a higher value.',
        series: one('max by (topic) (dq_topic_jobs{state="reserved"})', '{{topic}}'),
      },
      {
        title: 'Delayed, by topic',
        kind: 'lines',
        unit: 'short',
        description:
          'What comes later? These jobs wait for their due time or their next attempt. A number that grows together with the retries: the receiver fails.',
        series: one('max by (topic) (dq_topic_jobs{state="delayed"})', '{{topic}}'),
      },
      {
        title: 'Pushed, by topic',
        kind: 'lines',
        unit: 'ops',
        description:
          'Who pushes? A topic that stops has a broken producer; a jump explains a backlog that follows it.',
        series: one(`sum by (topic) (${rate('dq_topic_events_total{event="pushed"}')})`, '{{topic}}'),
      },
      {
        title: 'Delivered, by topic',
        kind: 'lines',
        unit: 'ops',
        description:
          'Which topics are delivered? Below the pushes for long: the topic is paused, or it has too little capacity.',
        series: one(`sum by (topic) (${rate('dq_topic_events_total{event="delivered"}')})`, '{{topic}}'),
      },
      {
        title: 'Retried, by topic',
        kind: 'lines',
        unit: 'ops',
        description:
          'Whose receiver fails? `dq topic test TOPIC` makes one call and prints the verdict. Repair it before the attempts are used up.',
        series: one(`sum by (topic) (${rate('dq_topic_events_total{event="retried"}')})`, '{{topic}}'),
      },
      {
        title: 'New dead letters, by topic',
        kind: 'stat',
        unit: 'short',
        description:
          'Which topics lost jobs to their last attempt in the time shown? `dq dead ls TOPIC` names the jobs, `dq dead requeue TOPIC` sends them again.',
        series: one(
          'sum by (topic) (increase(dq_topic_events_total{event="dead"}[$__range])) > 0',
          '{{topic}}',
        ),
        limits: { orange: 0 },
        without: 'none',
      },
      {
        title: 'Dead letters, by topic',
        kind: 'lines',
        unit: 'short',
        description: 'Which dead letters still wait for an operator? They expire after `dead.retention`.',
        series: one('max by (topic) (dq_topic_jobs{state="dead"}) > 0', '{{topic}}'),
        without: 'none',
      },
      {
        title: 'Cancelled, by topic',
        kind: 'lines',
        unit: 'ops',
        description: 'Which jobs do callers take back? A jump may be a mistake of a producer.',
        series: one(`sum by (topic) (${rate('dq_topic_events_total{event="cancelled"}')})`, '{{topic}}'),
      },
    ],
  },
  {
    title: 'Store, Redis, journal',
    isByTopic: false,
    panels: [
      {
        title: 'Store and Redis answer',
        kind: 'stat',
        unit: 'bool_yes_no',
        description:
          'Which store does not answer? No: `dq doctor` on that instance names the hop that fails. Without Redis only the store of each instance is shown.',
        series: [
          { expression: 'min by (instance) (dq_store_up)', legend: 'store of {{instance}}' },
          { expression: 'min by (server) (dq_redis_up)', legend: 'Redis {{server}}' },
        ],
        isBadAtZero: true,
      },
      {
        title: 'Warnings and quarantine',
        kind: 'stat',
        unit: 'short',
        description:
          'Is the store configured safely, and are its records readable? `/readyz` and `dq doctor` name the settings, `dq fsck` the records in quarantine.',
        series: [
          { expression: 'max(dq_store_warnings)', legend: 'warnings' },
          { expression: 'max(dq_store_set_aside)', legend: 'in quarantine' },
          { expression: 'max(dq_jobs_orphaned)', legend: 'jobs without a topic' },
        ],
        limits: { orange: 1 },
      },
      {
        title: 'Partitions being healed',
        kind: 'stat',
        unit: 'short',
        description:
          'Did a Redis lose changes, and does dq restore them from the journal? `dq journal` shows the progress. Meanwhile a question about a job that is missing there gets 503 `restoring`.',
        series: one('max(dq_restoring)', 'partitions'),
        limits: { orange: 1 },
        without: 'no journal',
      },
      {
        title: 'Commit of the embedded store',
        kind: 'lines',
        unit: 's',
        description:
          'How fast is the disk? The fsync of jobs.db bounds the rate of pushes. Above 0.1 s: a slow or busy disk; see the page Performance.',
        series: quantiles('dq_store_group_commit_seconds'),
        limits: { orange: 0.1, red: 1 },
      },
      {
        title: 'Jobs and calls per transaction',
        kind: 'lines',
        unit: 'short',
        description:
          'How well does the embedded store share its fsyncs? A high number at a high load is good; it says that the disk is the bottleneck.',
        series: one(
          `sum by (instance) (${rate('dq_store_group_items_sum')}) / (sum by (instance) (${rate('dq_store_group_items_count')}) > 0)`,
          '{{instance}}',
        ),
        without: 'no embedded store',
      },
      {
        title: 'Lag of the journal',
        kind: 'lines',
        unit: 's',
        description:
          'Since when does MySQL lack changes? Usually below 2 s. A lag that grows: MySQL is unavailable or too slow; the spool keeps the changes until it is full. See `dq journal`.',
        series: one('max by (instance) (dq_journal_lag_seconds)', '{{instance}}'),
        limits: { red: limits.journalLagSeconds },
        without: 'no journal',
      },
      {
        title: 'Spool of the journal',
        kind: 'lines',
        unit: 'bytes',
        description:
          'How full is the spool? Compare it with `journal.spoolBytes`: at the limit dq rejects pushes. Repair MySQL before.',
        series: one('max by (instance) (dq_spool_bytes)', '{{instance}}'),
        without: 'no journal',
      },
      {
        title: 'Changes written to the journal',
        kind: 'lines',
        unit: 'ops',
        description: 'What does the journal record? No change while jobs are pushed: the journal is off.',
        series: one(`sum by (kind) (${rate('dq_journal_changes_total')})`, '{{kind}}'),
      },
      {
        title: 'fdatasync of the spool',
        kind: 'lines',
        unit: 's',
        description:
          'How fast is the disk of the spool? With the journal each push waits for it: above 0.1 s move `dataDir` to a faster disk.',
        series: quantiles('dq_journal_sync_seconds'),
        limits: { orange: 0.1, red: 1 },
      },
    ],
  },
  {
    title: 'Pull clients',
    isByTopic: false,
    panels: [
      {
        title: 'Clients that wait for a job',
        kind: 'lines',
        unit: 'short',
        description:
          'Are consumers there? 0 while jobs of pull topics are due: no consumer runs, or all of them are busy.',
        series: one('sum by (instance) (dq_pull_waiting)', '{{instance}}'),
      },
      {
        title: 'Pulls by answer',
        kind: 'lines',
        unit: 'ops',
        description:
          'Do consumers get jobs? Many empty answers: they ask without `wait`. gone: consumers leave before the answer.',
        series: one(`sum by (outcome) (${rate('dq_pulls_total')})`, '{{outcome}}'),
      },
      {
        title: 'Expired leases',
        kind: 'lines',
        unit: 'ops',
        description:
          'Do consumers take longer than their lease, or die with a job? Each is a failed attempt: extend leases, or raise the timeout of the topic.',
        series: one(`sum(${rate('dq_leases_expired_total')})`, 'expired'),
      },
    ],
  },
  {
    title: 'Processes',
    isByTopic: false,
    panels: [
      {
        title: 'Versions',
        kind: 'stat',
        unit: 'none',
        description:
          'Which instances run, and which version? An instance that is missing does not answer the scrape.',
        series: one('sum by (instance, version) (dq_info)', '{{instance}} {{version}}'),
      },
      {
        title: 'Calls jobs',
        kind: 'stat',
        unit: 'bool_yes_no',
        description:
          'Which instances call jobs? No after `dq start --no-deliveries`, and with standby on all instances but the leader. One of them must be yes.',
        series: [
          { expression: 'min by (instance) (dq_deliveries_enabled)', legend: '{{instance}} may' },
          { expression: 'max by (instance) (dq_leader)', legend: '{{instance}} leads' },
        ],
      },
      {
        title: 'Deaths of processes',
        kind: 'stat',
        unit: 'short',
        description:
          'Which processes ended by themselves in the time shown? dq-master starts them again; the `error` log and `dq-output.log` have the reason.',
        series: one('sum by (role) (increase(dq_worker_deaths_total[$__range])) > 0', '{{role}}'),
        limits: { orange: 0 },
        without: 'none',
      },
      {
        title: 'Processor time',
        kind: 'lines',
        unit: 'percentunit',
        description:
          'Which process is busy? 100 % is one core. dq-server or dq-notifier near 100 %: raise `server.workers` or `notifier.workers`.',
        series: one(
          `sum by (instance, process) (${rate('dq_process_cpu_seconds_total')})`,
          '{{instance}} {{process}}',
        ),
      },
      {
        title: 'Resident memory',
        kind: 'lines',
        unit: 'bytes',
        description: 'Which process needs memory? One that only grows for days is a defect: report it.',
        series: one(
          'sum by (instance, process) (dq_process_resident_memory_bytes)',
          '{{instance}} {{process}}',
        ),
      },
      {
        title: 'Open files',
        kind: 'lines',
        unit: 'short',
        description:
          'Does a process reach `LimitNOFILE`? dq-server holds the connections of callers, dq-notifier those to receivers.',
        series: one('sum by (instance, process) (dq_process_open_fds)', '{{instance}} {{process}}'),
        limits: { red: limits.openFiles },
      },
      {
        title: 'Work in flight',
        kind: 'lines',
        unit: 'short',
        description:
          'What runs now? notifier: callbacks; compare it with `notifier.slots`. server: requests.',
        series: one('sum by (instance, role) (dq_in_flight)', '{{instance}} {{role}}'),
      },
      {
        title: 'Leases lost and recovered',
        kind: 'lines',
        unit: 'ops',
        description:
          'Do notifiers die or stand still? Recovered jobs are called again, lost ones were called twice. Look for deaths, a busy machine, or a paused VM.',
        series: [
          { expression: `sum(${rate('dq_leases_recovered_total')})`, legend: 'recovered' },
          { expression: `sum(${rate('dq_leases_lost_total')})`, legend: 'lost' },
          { expression: `sum(${rate('dq_strikes_poisoned_total')})`, legend: 'buried as poison' },
        ],
      },
      {
        title: 'Mails and hooks',
        kind: 'lines',
        unit: 'ops',
        description:
          'Do alerts of dq reach people? refused, failed: correct `smtp.url` or `alerts.hooks`; then run `dq alert test`.',
        series: [
          { expression: `sum by (outcome) (${rate('dq_mails_total')})`, legend: 'mail {{outcome}}' },
          { expression: `sum by (outcome) (${rate('dq_alert_hooks_total')})`, legend: 'hook {{outcome}}' },
        ],
      },
      {
        title: 'Dropped log lines',
        kind: 'lines',
        unit: 'ops',
        description:
          'Do the logs lack lines? Free the disk, raise `log.bytesMaxPerDay`, or set `log.request: errors`.',
        series: one(`sum by (instance) (${rate('dq_log_lines_dropped_total')})`, '{{instance}}'),
      },
    ],
  },
];

/** Tables of monitoring.md by the name of their marker. */
export const monitoringTables: Readonly<Record<string, () => string>> = {
  rules: () =>
    table(
      ['alert', 'expression', 'for', 'what to do'],
      alertRules.map(({ name, expression, holds, action }) => [name, code(expression), holds ?? '', action]),
    ),
  graphs: () =>
    table(
      ['panel', 'expression'],
      dashboardRows.flatMap(({ panels }) =>
        panels.map(({ title, series }) => [
          title,
          series.map(({ expression }) => code(withoutVariables(expression))).join(' · '),
        ]),
      ),
    ),
};

/** The expression as Prometheus itself takes it. */
export function withoutVariables(expression: string): string {
  return expression.replaceAll('$__rate_interval', '5m').replaceAll('$__range', '1d');
}
