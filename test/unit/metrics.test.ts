// Tests metrics from the buffer of a worker to the text of the master.
import { expect, it } from 'vitest';
import { statNames } from '../../src/core/series.ts';
import { MetricsHub } from '../../src/master/metrics-hub.ts';
import type { ProcessInfo } from '../../src/process/messages.ts';
import { telemetryLimits } from '../../src/telemetry/limits.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import {
  type Declaration,
  metricDeclarations,
  renderMetricsTable,
} from '../../src/telemetry/metric-declarations.ts';
import { exposition, MetricTally } from '../../src/telemetry/metric-tally.ts';
import { MetricBuffer, type MetricReport } from '../../src/telemetry/metrics.ts';
import { texts } from '../support/words.ts';

const report = (more: Partial<MetricReport>): MetricReport => ({
  keeps: [],
  counts: [],
  histograms: [],
  gauges: [],
  ...more,
});
const textOf = (tally: MetricTally) => exposition(tally.families());
/** The lines of this name, without HELP and TYPE. */
const linesOf = (text: string, name: string) => text.split('\n').filter((line) => line.startsWith(name));

it('buffer: reports each increment once, and nothing without one', () => {
  const meter = new MetricBuffer();
  expect(meter.take()).toBeNull();
  meter.count('dq_pushes_total', 2, 'stored');
  meter.count('dq_pushes_total', 1, 'kept');
  meter.count('dq_pushes_total', 3, 'stored');
  meter.count('dq_attempts_total', 1, 'retry', 'timeout');
  meter.set('dq_jobs', [
    ['ready', 4],
    ['dead', 5],
  ]);
  expect(meter.take()).toEqual({
    keeps: [],
    counts: [
      ['dq_pushes_total', ['stored'], 5],
      ['dq_pushes_total', ['kept'], 1],
      ['dq_attempts_total', ['retry', 'timeout'], 1],
    ],
    histograms: [],
    gauges: [
      [
        'dq_jobs',
        [
          [['ready'], 4],
          [['dead'], 5],
        ],
      ],
    ],
  });
  expect(meter.take()).toBeNull();
  meter.count('dq_pushes_total', 1, 'kept');
  expect(meter.take()?.counts).toEqual([['dq_pushes_total', ['kept'], 1]]);
});

it('report: unchanged after JSON', () => {
  const meter = new MetricBuffer();
  meter.count('dq_topic_events_total', 1, 't', 'pushed');
  meter.observe('dq_push_seconds', 0.002);
  meter.set('dq_store_up', [[1]]);
  const taken = meter.take();
  expect(JSON.parse(JSON.stringify(taken))).toEqual(taken);
});

it('histogram: a bound belongs to its bucket; buckets are cumulative', async () => {
  const tally = new MetricTally();
  for (const values of [
    [0.0005, 0.001],
    [0.0011, 99],
  ]) {
    const meter = new MetricBuffer();
    for (const value of values) meter.observe('dq_push_seconds', value);
    tally.addReport(meter.take() as MetricReport);
  }
  const lines = linesOf(await textOf(tally), 'dq_push_seconds');
  expect(lines[0]).toBe('dq_push_seconds_bucket{le="0.001"} 2');
  expect(lines[1]).toBe('dq_push_seconds_bucket{le="0.0025"} 3');
  expect(lines.slice(-4)).toEqual([
    'dq_push_seconds_bucket{le="10"} 3',
    'dq_push_seconds_bucket{le="+Inf"} 4',
    expect.stringMatching(/^dq_push_seconds_sum 99\.002/),
    'dq_push_seconds_count 4',
  ]);
});

it('counters: possible combinations of known labels begin at 0', async () => {
  const text = await textOf(new MetricTally());
  expect(linesOf(text, 'dq_pushes_total')).toEqual(
    ['stored', 'replaced', 'kept', 'ended', 'refused', 'not_stored', 'unknown'].map(
      (outcome) => `dq_pushes_total{outcome="${outcome}"} 0`,
    ),
  );
  const attempts = linesOf(text, 'dq_attempts_total');
  expect(attempts).toContain('dq_attempts_total{verdict="ack",reason="none"} 0');
  expect(attempts).toContain('dq_attempts_total{verdict="bury",reason="rule"} 0');
  expect(attempts).toContain('dq_attempts_total{verdict="again",reason="none"} 0');
  expect(attempts).toHaveLength(2 + 2 * 18);
  expect(linesOf(text, 'dq_jobs{')).toEqual([]);
});

it('gauge: a report replaces all its series', async () => {
  const tally = new MetricTally();
  const set = (series: readonly (readonly [readonly string[], number])[]) =>
    tally.addReport(report({ gauges: [['dq_topic_jobs', series]] }));
  set([
    [['a', 'ready'], 1],
    [['b', 'ready'], 2],
  ]);
  set([[['b', 'ready'], 3]]);
  expect(linesOf(await textOf(tally), 'dq_topic_jobs')).toEqual(['dq_topic_jobs{topic="b",state="ready"} 3']);
});

it('report: unknown names of another version are ignored', async () => {
  const tally = new MetricTally();
  const before = await textOf(tally);
  tally.addReport(
    report({
      counts: [
        ['dq_later_total', [], 1],
        ['constructor', [], 1],
        ['dq_pushes_total', ['stored', 'more'], 1],
        ['dq_jobs', ['ready'], 1],
      ],
      histograms: [['dq_push_seconds', [1, 2], 3]],
      gauges: [
        ['dq_later', [[[], 1]]],
        ['dq_pushes_total', [[['stored'], 1]]],
        ['dq_jobs', [[[], 1]]],
      ],
    }),
  );
  expect(await textOf(tally)).toBe(before);
});

it('series bound: drops and counts new series, keeps existing ones', () => {
  const tally = new MetricTally();
  const topics = Array.from({ length: telemetryLimits.metricSeriesMax + 10 }, (_, n) => `t${n}`);
  const gauges: MetricReport['gauges'] = [
    ['dq_topic_jobs', topics.map((topic) => [[topic, 'ready'], 1] as const)],
  ];
  tally.addReport(report({ gauges }));
  const dropped = tally.dropped;
  expect(dropped).toBeGreaterThan(10);
  tally.addReport(report({ counts: [['dq_pushes_total', ['stored'], 1]] }));
  expect(tally.dropped).toBe(dropped);
  tally.addReport(report({ gauges: [['dq_topic_jobs', []]] }));
  tally.addReport(report({ counts: [['dq_topic_events_total', ['t', 'pushed'], 1]] }));
  expect(tally.dropped).toBe(dropped);
});

it('counter: keeps named series; others end and restart at 0', async () => {
  const tally = new MetricTally();
  const meter = new MetricBuffer();
  const send = () => tally.addReport(JSON.parse(JSON.stringify(meter.take() ?? report({}))) as MetricReport);
  const lines = async () => linesOf(await textOf(tally), 'dq_topic_events_total{');
  // Many more topics than the bound, 10 of them at a time.
  for (let n = 0; n < telemetryLimits.metricSeriesMax; n += 10) {
    const own = Array.from({ length: 10 }, (_, i) => `t${n + i}`);
    meter.keep('dq_topic_events_total', new Set([...own, '_other']));
    for (const topic of own)
      for (const name of ['pushed', 'delivered'] as const)
        meter.count('dq_topic_events_total', 1, topic, name);
    send();
  }
  expect(tally.dropped).toBe(0);
  expect(await lines()).toHaveLength(11 * statNames.length);
  meter.keep('dq_topic_events_total', new Set(['t1', '_other']));
  meter.count('dq_topic_events_total', 2, 't1', 'pushed');
  meter.count('dq_topic_events_total', 5, 'gone', 'pushed');
  meter.count('dq_topic_events_total', 3, '_other', 'pushed');
  send();
  const begun = ['delivered', 'retried', 'dead', 'cancelled', 'again'].flatMap((name) =>
    ['t1', '_other'].map((topic) => `dq_topic_events_total{topic="${topic}",event="${name}"} 0`),
  );
  expect((await lines()).toSorted()).toEqual(
    [
      'dq_topic_events_total{topic="t1",event="pushed"} 2',
      'dq_topic_events_total{topic="_other",event="pushed"} 8',
      ...begun,
    ].toSorted(),
  );
});

it('counter: the series of a kept value begin at 0 before their first event', async () => {
  const tally = new MetricTally();
  const meter = new MetricBuffer();
  meter.keep('dq_topic_events_total', new Set(['t', '_other']));
  tally.addReport(meter.take() ?? report({}));
  const begun = (topic: string) =>
    statNames.map((name) => `dq_topic_events_total{topic="${topic}",event="${name}"} 0`);
  expect(linesOf(await textOf(tally), 'dq_topic_events_total{')).toEqual([...begun('t'), ...begun('_other')]);
  meter.count('dq_topic_events_total', 1, 't', 'dead');
  meter.keep('dq_topic_events_total', new Set(['t', '_other']));
  tally.addReport(meter.take() ?? report({}));
  expect(await textOf(tally)).toContain('dq_topic_events_total{topic="t",event="dead"} 1\n');
});

it('topic: removed and created again between two reports loses no count', () => {
  const tally = new MetricTally();
  const meter = new MetricBuffer();
  const pushed = () =>
    tally
      .families()
      .find(({ name }) => name === 'dq_topic_events_total')
      ?.values.filter(({ labels }) => labels['topic'] === 't' && labels['event'] === 'pushed')
      .map(({ value }) => value);
  meter.count('dq_topic_events_total', 4, 't', 'pushed');
  tally.addReport(meter.take() ?? report({}));
  meter.count('dq_topic_events_total', 2, 't', 'pushed');
  meter.keep('dq_topic_events_total', new Set(['_other']));
  meter.keep('dq_topic_events_total', new Set(['t', '_other']));
  meter.count('dq_topic_events_total', 1, 't', 'pushed');
  tally.addReport(meter.take() ?? report({}));
  expect(pushed()).toEqual([7]);
  meter.keep('dq_topic_events_total', new Set(['_other']));
  tally.addReport(meter.take() ?? report({}));
  expect(pushed()).toEqual([]);
  // Earlier counts are not counted twice, later ones are not lost.
  meter.keep('dq_topic_events_total', new Set(['t', '_other']));
  meter.count('dq_topic_events_total', 1, 't', 'pushed');
  tally.addReport(meter.take() ?? report({}));
  expect(pushed()).toEqual([1]);
});

it('hub: logs each time that it becomes full', async () => {
  const errors: string[] = [];
  const log = { ...silentLog, error: (message: string) => void errors.push(message) };
  const hub = new MetricsHub({ version: '1', processes: () => [], log, dropped: () => 0, delivers: true });
  const from = { title: 'dq-upkeep', send: () => true };
  const send = (metrics: MetricReport) => hub.receive(from, { kind: 'metrics', metrics });
  const fill = () =>
    send(
      report({
        counts: Array.from({ length: telemetryLimits.metricSeriesMax }, (_, n) => [
          'dq_topic_events_total',
          [`t${n}`, 'pushed'],
          1,
        ]),
      }),
    );
  fill();
  await hub.text();
  await hub.text();
  expect(errors).toHaveLength(1);
  send(report({ keeps: [['dq_topic_events_total', ['t1']]] }));
  expect(linesOf(await hub.text(), 'dq_topic_events_total{')).toHaveLength(statNames.length);
  expect(errors).toHaveLength(1);
  fill();
  await hub.text();
  expect(errors).toHaveLength(2);
});

it('exposition: escapes label values', async () => {
  const tally = new MetricTally();
  tally.addReport(report({ gauges: [['dq_info', [[['1"\\\n'], 1]]]] }));
  expect(linesOf(await textOf(tally), 'dq_info')).toEqual(['dq_info{version="1\\"\\\\\\n"} 1']);
});

it('declarations: names follow Prometheus, and the table has all', () => {
  const table = renderMetricsTable();
  for (const [name, { type, help, bounds, labels }] of Object.entries<Declaration>(metricDeclarations)) {
    expect(name).toMatch(/^dq_[a-z_]+$/);
    expect(name.endsWith('_total'), name).toBe(type === 'counter');
    expect(help, name).not.toMatch(/[|\n]|\.$/);
    expect([...bounds].sort((a, b) => a - b)).toEqual(bounds);
    for (const [label] of labels) expect(['le', 'quantile', 'job', 'instance']).not.toContain(label);
    expect(table).toContain(`\n| \`${name}\` | ${type} |`);
  }
});

it('master: merges processes of one title, counts dropped lines once', async () => {
  const info = (title: string, rssBytes: number, startedAt: number): ProcessInfo => ({
    title,
    role: title === 'dq-master' ? 'master' : 'notifier',
    pid: process.pid,
    version: '1.2.3',
    generation: 1,
    state: 'ready',
    startedAt,
    restarts: 0,
    inFlight: 2,
    rssBytes,
    cpuPercent: 0,
  });
  const processes = [
    info('dq-master', 1, 1_000),
    info('dq-notifier-0', 10, 2_000),
    info('dq-notifier-0', 20, 3_000),
  ];
  let dropped = 2;
  const hub = new MetricsHub({
    version: '1.2.3',
    processes: () => processes,
    log: silentLog,
    dropped: () => dropped,
    delivers: true,
  });
  const from = { title: 'dq-notifier-0', send() {} };
  for (const cpuMs of [100, 150])
    hub.receive(from, {
      kind: 'report',
      report: { inFlight: 0, rssBytes: 0, cpuPercent: 0, cpuMs },
    });
  hub.workerDied('notifier');
  await hub.text();
  dropped = 5;
  const lines = (await hub.text()).split('\n');
  expect(lines).toEqual(
    expect.arrayContaining(texts`
      dq_info{version="1.2.3"} 1 | dq_in_flight{role="notifier"} 4 |
      dq_process_resident_memory_bytes{process="dq-notifier-0"} 30 |
      dq_process_start_time_seconds{process="dq-notifier-0"} 3 |
      dq_process_cpu_seconds_total{process="dq-notifier-0"} 0.25 |
      dq_worker_deaths_total{role="notifier"} 1 | dq_worker_deaths_total{role="store"} 0 |
      dq_log_lines_dropped_total 5 | dq_deliveries_enabled 1
    `),
  );
});
