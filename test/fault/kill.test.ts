// kill -9 of every process under load: acknowledged jobs are delivered; only jobs in flight at the kill
// arrive twice.
import { describe, expect, it, vi } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { isAlive, startDaemon } from '../support/daemon.ts';
import {
  addTopic,
  forAll,
  groupBy,
  jobsLeft,
  numbers,
  pauseTopic,
  resumeTopic,
  startPushing,
} from '../support/producing.ts';
import { type Arrival, ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

// Above the sum of the waits.
vi.setConfig({ testTimeout: 300_000 });

const idOf = (arrival: Arrival) => arrival.id;

it('killed notifier: its running callbacks repeat before their leases end, no others', async () => {
  let holding = true;
  const sink = await startSink((arrival, response) => {
    // Held callbacks get no answer: they run until their notifier dies.
    if (!arrival.id.startsWith('held') || !holding) return ok(arrival, response);
  });
  const daemon = await startDaemon({ args: ['--notifiers', '1'], config: { notifier: { slots: 1_000 } } });
  await addTopic(daemon, 't', sink.url, { concurrency: 1_000, timeout: '60s' });
  await forAll(numbers(500), (n) => daemon.push('t', '{}', { id: `early${n}` }));
  await until('the early ones are settled', async () => (await jobsLeft(daemon)) === 0);
  await pauseTopic(daemon, 't');
  await forAll(numbers(500), (n) => daemon.push('t', '{}', { id: `held${n}` }));
  await resumeTopic(daemon, 't');
  // All 500 on a fast machine: once the first have hung for a while, the topic gets few more.
  await until('many callbacks are running', () => sink.open().length >= notifierLimits.untriedAtOnce);

  const killedAt = Date.now();
  const arrived = sink.arrivals.length;
  const running = new Set(sink.open().map(idOf));
  holding = false;
  process.kill(daemon.pidOf('dq-notifier-0'), 'SIGKILL');
  await forAll(numbers(100), (n) => daemon.push('t', '{}', { id: `late${n}` }));
  const again = await until('the first is called again', () =>
    sink.arrivals.slice(arrived).find(({ id }) => running.has(id)),
  );
  // Their leases last 70 s.
  expect(again.arrivedAt - killedAt).toBeLessThanOrEqual(30_000);

  await until('nothing is left', async () => (await jobsLeft(daemon)) === 0);
  const byId = groupBy(sink.arrivals, idOf);
  expect(byId.size).toBe(1_100);
  for (const [id, arrivals] of byId) {
    // The lease ended without an outcome: no attempt counts, and `webhook-id` is the same.
    const attempts = arrivals.map((arrival) => arrival.attempt).join();
    if (running.has(id)) expect(attempts, id).toBe('1,1');
    // Between the look and the kill the notifier may have called further ones.
    else expect(attempts, id).toMatch(id.startsWith('held') ? /^1(,1)?$/ : /^1$/);
    expect(new Set(arrivals.map((arrival) => arrival.webhookId)).size, id).toBe(1);
  }
});

describe('one daemon', async () => {
  const daemon = await startDaemon({ scope: 'file' });

  it.each(['dq-store', 'dq-timer-0', 'dq-server-0', 'dq-upkeep', 'dq-notifier-0'])(
    '%s killed four times under load: no acknowledged job is lost',
    async (title) => {
      const sink = await startSink();
      await addTopic(daemon, title, sink.url);
      const producers = startPushing(daemon, title);
      for (let kill = 0; kill < 4; kill++) {
        const before = producers.acknowledged.length;
        await until('pushes are acknowledged', () => producers.acknowledged.length > before + 100);
        const pid = await until(
          `${title} runs`,
          () => daemon.workers().find((worker) => worker.title === title)?.pid,
        );
        process.kill(pid, 'SIGKILL');
        await until(`${title} is restarted`, () =>
          daemon.workers().some((worker) => worker.title === title && worker.pid !== pid),
        );
      }
      await producers.stop();
      const missing = () => {
        const arrived = new Set(sink.arrivals.map(idOf));
        return producers.acknowledged.filter((id) => !arrived.has(id));
      };
      await until('all acknowledged jobs have arrived', () => missing().length === 0, 90_000, 100);
      await until('nothing is left', async () => (await jobsLeft(daemon)) === 0, 90_000, 100);
      expect(daemon.child.exitCode).toBeNull();
    },
  );
});

it('master killed: the workers end, and the next start loses no job', async () => {
  const sink = await startSink();
  const first = await startDaemon();
  await addTopic(first, 't', sink.url);
  const producers = startPushing(first, 't');
  await until('pushes are acknowledged', () => producers.acknowledged.length > 500);
  const workers = first.workers();
  process.kill(first.pid, 'SIGKILL');
  await until('the workers leave', () => !workers.some((worker) => isAlive(worker.pid)));
  await producers.stop();

  const second = await startDaemon({ directory: first.directory });
  const missing = () => {
    const arrived = new Set(sink.arrivals.map(idOf));
    return producers.acknowledged.filter((id) => !arrived.has(id));
  };
  await until('all acknowledged jobs have arrived', () => missing().length === 0, 90_000, 100);
  await until('nothing is left', async () => (await jobsLeft(second)) === 0, 90_000, 100);
});

it('buries the job that always kills its notifier, and delivers 500 others once', async () => {
  const poisonCalls: Arrival[] = [];
  const sink = await startSink((arrival, response) => {
    if (arrival.id === 'poison') poisonCalls.push(arrival);
    else return ok(arrival, response);
  });
  const daemon = await startDaemon({ args: ['--notifiers', '1'] });
  await addTopic(daemon, 't', sink.url, { timeout: '60s' });
  const reserved = async () => (await daemon.api('GET', '/v1/stats')).body.states.reserved as number;
  const pushOthers = (from: number, to: number) =>
    forAll(numbers(500).slice(from, to), (n) => daemon.push('t', '{}', { id: `o${n}` }));

  await pushOthers(0, 200);
  await daemon.push('t', '{}', { id: 'poison' });
  await pushOthers(200, 400);
  for (let call = 1; call <= 5; call++) {
    await until(`call ${call} of the poisonous job`, () => poisonCalls.length === call);
    // The first two calls run beside others. A kill would repeat running calls, so wait until the others are
    // settled.
    if (call <= 2) await until('the others are delivered', () => sink.arrivals.length === 400 + call);
    // From the third call on the job runs in isolation, and others wait.
    else await pushOthers(400 + (call - 3) * 30, 400 + (call - 2) * 30);
    await until('it alone is reserved', async () => (await reserved()) === 1);
    process.kill(daemon.pidOf('dq-notifier-0'), 'SIGKILL');
  }
  await pushOthers(490, 500);
  const dead = await until('it is buried', async () => {
    const { body } = await daemon.api('GET', '/v1/dead');
    return body.items.length > 0 ? body.items : null;
  });
  expect(dead).toMatchObject([{ id: 'poison', reason: 'poison' }]);
  await until('the others have arrived', () => sink.arrivals.length >= 505);
  const byId = groupBy(sink.arrivals, idOf);
  for (const n of numbers(500)) expect(byId.get(`o${n}`), `o${n}`).toHaveLength(1);
  expect(poisonCalls.map((arrival) => arrival.attempt)).toEqual([1, 1, 1, 1, 1]);
});
