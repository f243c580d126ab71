// Tests /metrics of a real daemon: correct numbers, also while its processes hang and die.
import { expect, it } from 'vitest';
import { metricDeclarations } from '../../src/telemetry/metric-declarations.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** Series → number, and the types by name. */
async function scrape(daemon: Daemon) {
  const response = await fetch(`${daemon.url}/metrics`);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const values = new Map<string, number>();
  const types = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (name !== undefined && type !== undefined) types.set(name, type);
    const at = line.lastIndexOf(' ');
    if (line !== '' && !line.startsWith('#')) values.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return { types, values, of: (series: string) => values.get(series) };
}

type Scraped = Pick<Awaited<ReturnType<typeof scrape>>, 'values' | 'of'>;

/** Counters and histogram parts that have fallen. */
const fallen = (before: Scraped, after: Scraped) =>
  [...before.values].filter(([series, value]) => {
    const isCounter = /_total(\{|$)|_(bucket|count|sum)(\{|$)/.test(series);
    return isCounter && !((after.of(series) ?? -1) >= value);
  });

it('reports all processes, also hanging and dead ones', {
  timeout: 180_000,
}, async () => {
  const sink = await startSink((arrival, response) =>
    status(arrival.topic === 'bad' ? 500 : 200, {}, 'ok')(arrival, response),
  );
  const daemon = await startDaemon({ args: ['--notifiers', '2', '--servers', '2'] });
  await addTopic(daemon, 'good', sink.url);
  await addTopic(daemon, 'bad', sink.url, { maxAttempts: 1 });
  for (let n = 0; n < 20; n += 1) await daemon.push('good', '1', { id: n });
  for (let n = 0; n < 3; n += 1) await daemon.push('bad', '1', { id: n });
  await daemon.push('absent', '1');
  await daemon.push('good', '1', { id: 'later', delay: 3_600_000 });
  const expected: Readonly<Record<string, number>> = {
    'dq_jobs{state="dead"}': 3,
    'dq_attempts_total{verdict="ack",reason="none"}': 20,
    'dq_topic_events_total{topic="good",event="delivered"}': 20,
    'dq_pushes_total{outcome="stored"}': 24,
    'dq_pushes_total{outcome="refused"}': 1,
    dq_push_seconds_count: 24,
    'dq_attempts_total{verdict="bury",reason="status"}': 3,
    dq_callback_seconds_count: 23,
    'dq_delivery_lateness_seconds_bucket{le="+Inf"}': 23,
    'dq_jobs{state="delayed"}': 1,
    'dq_topic_jobs{topic="bad",state="dead"}': 3,
    'dq_topic_events_total{topic="bad",event="dead"}': 3,
    dq_store_up: 1,
    'dq_in_flight{role="notifier"}': 0,
  };
  // Each process reports at its own time.
  const settled = await until('every number is reported', async () => {
    const found = await scrape(daemon);
    const seen = Object.fromEntries(Object.keys(expected).map((series) => [series, found.of(series)]));
    if (JSON.stringify(seen) !== JSON.stringify(expected)) throw new Error(JSON.stringify(seen));
    return found;
  });
  const { of } = settled;
  expect(Object.fromEntries(settled.types)).toEqual(
    Object.fromEntries(Object.entries(metricDeclarations).map(([name, { type }]) => [name, type])),
  );
  expect(of('dq_store_group_commit_seconds_count')).toBeGreaterThan(0);
  const titles = ['dq-master', 'dq-store', 'dq-server-1', 'dq-timer-0', 'dq-notifier-1', 'dq-upkeep'];
  await until('each process has reported itself', async () => {
    const { of: now } = await scrape(daemon);
    for (const title of titles) {
      expect(now(`dq_process_resident_memory_bytes{process="${title}"}`), title).toBeGreaterThan(20e6);
      expect(now(`dq_process_open_fds{process="${title}"}`), title).toBeGreaterThan(10);
      expect(now(`dq_process_cpu_seconds_total{process="${title}"}`), title).toBeGreaterThan(0);
    }
    return true;
  });

  const [hung, killed] = [daemon.pidOf('dq-notifier-0'), daemon.pidOf('dq-notifier-1')];
  const store = daemon.pidOf('dq-store');
  for (const pid of [hung, store]) process.kill(pid, 'SIGSTOP');
  process.kill(killed, 'SIGKILL');
  const deaths = 'dq_worker_deaths_total{role="notifier"}';
  // Not by the API, which calls the store; a scrape needs only the master.
  const meanwhile = await until('the death is reported', async () => {
    const found = await scrape(daemon);
    return found.of(deaths) === 1 ? found : null;
  });
  expect(fallen(settled, meanwhile)).toEqual([]);
  expect(meanwhile.of('dq_jobs{state="dead"}')).toBe(3);
  for (const pid of [hung, store]) process.kill(pid, 'SIGCONT');
  await until('it delivers again', async () => {
    await daemon.push('good', '1', { id: 'after' });
    return sink.arrivals.some(({ id }) => id === 'after');
  });

  const before = await scrape(daemon);
  daemon.child.kill('SIGUSR2');
  const after = await until('it is reloaded', async () => {
    const found = await scrape(daemon);
    return found.of('dq_reloads_total{outcome="reloaded"}') === 1 ? found : null;
  });
  expect(fallen(before, after)).toEqual([]);
  await daemon.push('good', '1', { id: 'reloaded' });
  await until('the new processes are counted too', async () => {
    const { of: now } = await scrape(daemon);
    return (
      (now('dq_pushes_total{outcome="stored"}') ?? 0) > (before.of('dq_pushes_total{outcome="stored"}') ?? 0)
    );
  });
  expect(await daemon.stop()).toBe(0);
});
