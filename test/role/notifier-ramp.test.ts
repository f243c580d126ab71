// Tests that a backlog does not meet an endpoint that has just come back: the arrivals of a ramp by the
// receiver's own clock. By hand with a large backlog: DQ_RAMP_JOBS=20000 prints the arrivals of each second.
import { expect, it } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

const jobs = Number(process.env['DQ_RAMP_JOBS'] ?? 200);
/** per second; a backlog of some seconds */
const rate = Math.max(100, jobs / 10);
/** of this process, in which the receiver and the notifier run */
const lateMs = 300;

it('a receiver that asks to slow down costs no dead letter, and few attempts', async () => {
  const rig = await startRig();
  const attemptsMax = 3;
  const pauseS = 1;
  let busyUntil = 0;
  const sink = await startSink((_, reply) => {
    if (busyUntil === 0) busyUntil = performance.now() + (attemptsMax - 0.5) * pauseS * 1_000;
    const isBusy = performance.now() < busyUntil;
    reply.writeHead(isBusy ? 429 : 200, isBusy ? { 'retry-after': String(pauseS) } : {});
    reply.end('{}');
  });
  await rig.topic('t', sink.url, {
    ...{ concurrency: 40, maxAttempts: attemptsMax },
    backoff: { type: 'ladder', stepsMs: [100] },
  });
  await rig.pushAll('t', ids('j', 80));
  await rig.run(createTimer(rig.context()));
  await rig.run(createNotifier(rig.context()));
  const reasons = async () => (await rig.ask('capacity', { topic: 't' }))?.map(({ code }) => code) ?? [];
  await until('it slows down', async () => (await reasons()).includes('slowed_down'));
  await until('all are delivered', () => rig.counted('t', 'delivered') === 80, 30_000);
  const verdicts = rig.notified().map(({ verdict }) => verdict);
  const count = (verdict: string) => verdicts.filter((one) => one === verdict).length;
  expect(count('bury')).toBe(0);
  // Those that begin it, and a probe for each pause.
  expect(count('retry')).toBeLessThanOrEqual(notifierLimits.slowDownAttempts + attemptsMax);
  expect(count('release')).toBeGreaterThan(0);
});

it.each([
  { outage: 'refuses connections', hasGateway: false },
  { outage: 'has a gateway that replies 503', hasGateway: true },
])(
  'an endpoint that $outage gets a tenth of the rate after it, doubled each second',
  async ({ hasGateway }) => {
    const rig = await startRig();
    // Not a port of the kernel: another process could take it while nothing listens.
    const [port = 0] = await freePorts(1);
    const before = await startSink(status(503), port);
    if (!hasGateway) await before.close();
    await rig.topic('t', before.url, { rate, backoff: { type: 'ladder', stepsMs: [100] }, maxAttempts: 100 });
    for (let from = 0; from < jobs; from += 100)
      await rig.pushAll('t', ids(`j${from}-`, Math.min(100, jobs - from)));
    await rig.run(createTimer(rig.context()));
    await rig.run(createNotifier(rig.context()));
    await until('an outage', () => rig.notified().length > 2 * notifierLimits.ailingAttempts);
    if (hasGateway) await before.close();
    const after = await startSink(undefined, port);
    const reasons = async () => (await rig.ask('capacity', { topic: 't' }))?.map(({ code }) => code) ?? [];
    await until('it ramps', async () => (await reasons()).includes('ramping'));
    await until('all are delivered', () => rig.counted('t', 'delivered') === jobs, 60_000);
    expect(await reasons()).not.toContain('ramping');

    const [first = 0, ...times] = after.arrivals.map(({ arrivedAt }) => arrivedAt).sort((a, b) => a - b);
    const perSecond = [0.1, 0.2, 0.4, 0.8, 1].map((part) => part * rate);
    const burst = Math.max(1, (rate * notifierLimits.rateBurstMs) / 1_000);
    /** most arrivals in the time since the first */
    const mostIn = (ms: number) =>
      perSecond.reduce(
        (sum, each, n) =>
          sum + each * Math.max(0, Math.min(n < 4 ? 1 : Number.POSITIVE_INFINITY, ms / 1_000 - n)),
        burst,
      );
    for (const [n, at] of times.entries()) {
      const ms = at - first;
      expect(n + 1, `arrivals within ${ms} ms`).toBeLessThanOrEqual(Math.ceil(mostIn(ms + lateMs)));
    }
    const seconds: number[] = [];
    for (const at of [first, ...times]) {
      const second = Math.floor((at - first) / 1_000);
      seconds[second] = (seconds[second] ?? 0) + 1;
    }
    console.log(`ramp: ${jobs} jobs at a rate of ${rate}/s; arrivals in each second: ${seconds.join(' ')}`);
  },
);
