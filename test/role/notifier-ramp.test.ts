// Tests that a backlog does not meet a receiver that asks to slow down. The pauses and the ramp after them
// are those of capacity.test.ts.
import { expect, it } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

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
  await until('all are delivered', () => rig.counted('t', 'delivered') === 80);
  const verdicts = rig.notified().map(({ verdict }) => verdict);
  const count = (verdict: string) => verdicts.filter((one) => one === verdict).length;
  expect(count('bury')).toBe(0);
  // Those that begin it, and a probe for each pause.
  expect(count('retry')).toBeLessThanOrEqual(notifierLimits.slowDownAttempts + attemptsMax);
  expect(count('release')).toBeGreaterThan(0);
});
