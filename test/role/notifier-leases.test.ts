// Tests a notifier with short, lost, unanswered and released leases, and jobs that may kill it.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { FinishOutcome, JobStore, Reserved } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, owner, type Rig, startRig } from './rig.ts';

const hang = () => {};
const unknown = () => new StoreError({ kind: 'unknown', code: 'no_answer' });

/** The rig's store with some methods replaced, for lost and late answers. */
function between(rig: Rig, jobs: Partial<JobStore>) {
  return { ...rig.store, jobs: Object.assign(Object.create(rig.store.jobs), jobs) as JobStore };
}

/** Gives a job strikes, as notifiers would that died with it. */
async function strike(rig: Rig, topic: string, id: string, strikes = limits.strikesIsolated) {
  for (let n = 0; n < strikes; n += 1) {
    const dead = owner(900 + n);
    const room = { room: 1_000, leaseMs: 60_000 };
    const { jobs } = await rig.store.jobs.reserve(0, {
      owner: dead,
      max: limits.reserveMax,
      others: room,
      topics: new Map(),
    });
    await rig.store.jobs.release(jobs.filter((job) => job.id !== id || job.topic !== topic));
    await rig.store.jobs.recoverOwners(0, dead.instance, { dead: dead.incarnation }, limits.recoverMax);
  }
  expect(await rig.store.jobs.get({ topic, id })).toMatchObject({ state: 'ready', strikes });
}

describe('notifier: leases', () => {
  it('a call that would outlive its lease is not started', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url);
    await rig.push('t', 'a');
    let late = 3;
    const steps: string[] = [];
    const store = between(rig, {
      async reserve(partition, request) {
        const reserved = await rig.store.jobs.reserve(partition, request);
        if (reserved.jobs.length === 0) return reserved;
        // The answer takes longer than the lease allows.
        if (late > 0) {
          late -= 1;
          await new Promise((resolve) => setTimeout(resolve, 1_100));
        }
        steps.push('reserve');
        return reserved;
      },
      release(leases) {
        steps.push(...leases.map(({ id }) => `release ${id}`));
        return rig.store.jobs.release(leases);
      },
    });
    const config = { 'lease.margin': limits.leaseReserveMs + 1_000 };
    await rig.run(createNotifier(rig.context({ store, config })));
    await until('it is delivered', () => rig.counted('t', 'delivered') === 1);
    const lateOnes = Array(3).fill(['reserve', 'release a']).flat();
    // On a busy machine a further answer may come too late.
    expect(steps.slice(0, 6)).toEqual(lateOnes);
    expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1]);
  });

  it('jobs of a lost answer are released before the next reserve', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url);
    await rig.pushAll('t', ids('j', 5));
    let lost = 0;
    const steps: string[] = [];
    const store = between(rig, {
      async reserve(partition, request) {
        const reserved = await rig.store.jobs.reserve(partition, request);
        if (reserved.jobs.length > 0) steps.push('reserve');
        if (lost > 0 || reserved.jobs.length === 0) return reserved;
        lost = reserved.jobs.length;
        throw unknown();
      },
      async releaseUnheld(partition, holder, held) {
        steps.push('releaseUnheld');
        return rig.store.jobs.releaseUnheld(partition, holder, held);
      },
    });
    await rig.run(createNotifier(rig.context({ store })));
    // Well before the next round of releaseUnheld.
    await until(
      'all are delivered',
      () => rig.counted('t', 'delivered') === 5,
      notifierLimits.releaseUnheldMs - 500,
    );
    expect(lost).toBe(5);
    expect(steps).toEqual(['reserve', 'releaseUnheld', 'reserve']);
    expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1, 1]);
  });

  it('releases leases that it does not hold', async () => {
    const rig = await startRig();
    const sink = await startSink(hang);
    await rig.topic('held', sink.url, { timeoutMs: 60_000 });
    await rig.topic('lost', sink.url);
    await rig.push('held', 'a');
    await rig.run(createNotifier(rig.context()));
    await until('it runs', () => sink.open().length === 1);
    // As if the answer to an earlier reserve of this process were lost. Of a paused topic, whose jobs the
    // notifier does not reserve itself.
    await rig.topic('lost', sink.url, { state: 'paused' });
    await rig.push('lost', 'b');
    const room = { room: 10, leaseMs: 60_000 };
    const { jobs } = await rig.store.jobs.reserve(0, {
      owner: owner(),
      max: 10,
      others: room,
      topics: new Map(),
    });
    expect(jobs.map(({ id }) => id)).toEqual(['b']);
    await until(
      'it is released',
      async () => (await rig.store.jobs.get({ topic: 'lost', id: 'b' }))?.state === 'ready',
    );
    expect(await rig.store.jobs.get({ topic: 'held', id: 'a' })).toMatchObject({ state: 'reserved' });
  });

  it('an outcome without an answer is sent again, and counted once', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url);
    const failures: FinishOutcome<'acked'>[] = [
      { kind: 'not_stored', code: 'full' },
      { kind: 'unknown', code: 'no_answer' },
    ];
    let tries = 0;
    const store = between(rig, {
      async ack(items) {
        tries += 1;
        const failure = failures.shift();
        if (failure === undefined) return rig.store.jobs.ack(items);
        // The second is applied, and its answer is lost.
        if (failure.kind === 'unknown') await rig.store.jobs.ack(items);
        return items.map(() => failure);
      },
    });
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    await until('it is settled', () => rig.counted('t', 'delivered') === 1);
    expect(tries).toBe(3);
    expect(notifier.inFlight()).toBe(0);
    expect(sink.arrivals).toHaveLength(1);
    expect(rig.lines.some(({ message }) => message.includes('lost'))).toBe(false);
  });

  it('as many outcomes as slots outlive their lease while the store is unavailable', async () => {
    const rig = await startRig();
    const sink = await startSink();
    // A call that times out has another outcome, and its job does not come back in this test.
    await rig.topic('t', sink.url, { timeoutMs: 3_000 });
    let away = true;
    const store = between(rig, {
      ack: async (items) =>
        away ? items.map(() => ({ kind: 'unknown', code: 'no_answer' })) : rig.store.jobs.ack(items),
    });
    const config = { 'lease.margin': limits.leaseReserveMs + 100, 'notifier.slots': 2 };
    const notifier = await rig.run(createNotifier(rig.context({ store, config })));
    await rig.pushAll('t', ids('j', 4));
    const givenUp = () => rig.lines.filter(({ message }) => message.includes('never answered'));
    // The leases of the first two have ended when the others are called.
    await until('two are given up', () => givenUp().length === 2);
    const called = sink.arrivals.map(({ id }) => id);
    const [kept, left] = [called.slice(0, 2), called.slice(2, 4)];
    expect(givenUp().map(({ id }) => id)).toEqual(left);
    expect(rig.lines.filter(({ message }) => message.includes('is repeated'))).toHaveLength(1);
    away = false;
    await until('the others are settled', async () => {
      const jobs = await Promise.all(kept.map((id) => rig.store.jobs.get({ topic: 't', id })));
      return jobs.every((job) => job === null);
    });
    await until('it is logged', () =>
      rig.lines.some(({ message }) => message === 'notifier: ack is answered again'),
    );
    expect(sink.arrivals.filter(({ id }) => kept.includes(id))).toHaveLength(2);
    await until('nothing is in flight', () => notifier.inFlight() === 0);
  });

  it('an outcome of a lost lease changes nothing and is logged', async () => {
    const rig = await startRig();
    const sink = await startSink(hang);
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    const first = await until('it runs', () => sink.open()[0]);
    await rig.store.jobs.cancel([{ topic: 't', id: 'a' }]);
    await rig.push('t', 'a', { when: { delayMs: 60_000 } });
    sink.answer((_arrival, response) => void response.end('{}'));
    sink.finish(first);
    await until('it is reported', () =>
      rig.lines.some(({ message, lost }) => message.includes('lost') && lost === 1),
    );
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({ state: 'delayed' });
    expect(rig.counted('t', 'delivered')).toBe(0);
  });

  it('reserves again after a failure of the store', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url);
    let down = true;
    const store = between(rig, {
      reserve: (partition, request): Promise<Reserved> =>
        down
          ? Promise.reject(new StoreError({ kind: 'not_stored', code: 'away' }))
          : rig.store.jobs.reserve(partition, request),
    });
    await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    await until('it is reported', () =>
      rig.lines.some(({ message }) => message === 'notifier: cannot reserve jobs'),
    );
    down = false;
    await until('it is delivered', () => rig.counted('t', 'delivered') === 1);
    expect(rig.lines.filter(({ message }) => message === 'notifier: cannot reserve jobs')).toHaveLength(1);
    expect(rig.lines.filter(({ message }) => message === 'notifier: reserves jobs again')).toHaveLength(1);
  });
});

describe('notifier: a job that may kill its notifiers', () => {
  it('is isolated', async () => {
    const rig = await startRig();
    const sink = await startSink(hang);
    await rig.topic('calm', sink.url, { timeoutMs: 60_000 });
    await rig.topic('suspect', sink.url, { timeoutMs: 60_000 });
    await rig.push('suspect', 's');
    await strike(rig, 'suspect', 's');
    await rig.topic('suspect', sink.url, { timeoutMs: 60_000, state: 'paused' });
    await rig.push('calm', 'a');
    await rig.push('calm', 'b');
    await rig.run(createNotifier(rig.context()));
    await until('the others run', () => sink.open().length === 2);
    await rig.topic('suspect', sink.url, { timeoutMs: 60_000 });
    await until(
      'the suspect is held',
      async () => (await rig.store.jobs.get({ topic: 'suspect', id: 's' }))?.state === 'reserved',
    );
    await rig.push('calm', 'c');
    sink.finish(sink.arrivals[0]);
    await until('one of the others is settled', () => rig.counted('calm', 'delivered') === 1);
    expect(sink.arrivals).toHaveLength(2);
    sink.finish(sink.arrivals[1]);
    await until('the job with strikes is called', () => sink.open()[0]?.topic === 'suspect');
    expect(sink.open()).toMatchObject([{ topic: 'suspect', attempt: 1 }]);
    await rig.push('calm', 'd');
    expect(await rig.store.jobs.get({ topic: 'calm', id: 'c' })).toMatchObject({ state: 'ready' });
    expect(sink.arrivals).toHaveLength(3);
    sink.finish(sink.open()[0]);
    await until('the others go on', () => sink.open().length === 2);
    expect(rig.counted('suspect', 'delivered')).toBe(1);
  });

  it('is released while others run for longer than its lease', async () => {
    const rig = await startRig();
    /** other calls that ran when the job with strikes was called */
    const beside: number[] = [];
    const sink = await startSink(({ topic }) => {
      if (topic === 'suspect') beside.push(sink.open().length - 1);
    });
    await rig.topic('calm', sink.url, { timeoutMs: 60_000 });
    await rig.topic('suspect', sink.url, { timeoutMs: 1_000 });
    await rig.push('suspect', 's');
    await strike(rig, 'suspect', 's');
    await rig.topic('suspect', sink.url, { timeoutMs: 1_000, state: 'paused' });
    await rig.push('calm', 'a');
    const marginMs = 1_000;
    let sentAt = 0;
    /** Number of answers with the job with strikes that came late. The notifier may release the job at once,
     *  because too little of its lease is left. */
    let late = 0;
    /** for each release of this job: ms since its reserve was sent */
    const released: number[] = [];
    const store = between(rig, {
      async reserve(partition, request) {
        const from = performance.now();
        const reserved = await rig.store.jobs.reserve(partition, request);
        if (!reserved.jobs.some(({ id }) => id === 's')) return reserved;
        sentAt = from;
        if (performance.now() - from > marginMs / 2) late += 1;
        return reserved;
      },
      release(leases) {
        if (leases.some(({ id }) => id === 's')) released.push(performance.now() - sentAt);
        return rig.store.jobs.release(leases);
      },
    });
    const config = { 'lease.margin': limits.leaseReserveMs + marginMs };
    await rig.run(createNotifier(rig.context({ store, config })));
    await until('the other runs', () => sink.open().length === 1);
    await rig.topic('suspect', sink.url, { timeoutMs: 1_000 });
    // One release suffices: an isolation reserves nothing while another call runs.
    await until('the job with strikes is released', () => released.length > 0);
    expect(beside).toEqual([]);
    sink.finish(sink.open()[0]);
    await until('the job with strikes is called', () => beside.length > 0);
    expect(beside[0]).toBe(0);
    expect(released.length).toBeLessThanOrEqual(1 + late);
    // The notifier notes the start of the lease a moment before.
    for (const afterMs of released) expect(afterMs).toBeGreaterThan(marginMs - 5);
    expect(rig.counted('calm', 'delivered')).toBe(1);
  });

  it('is followed by other jobs at once, and by the next one after the pause', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('suspect', sink.url);
    await rig.topic('other', sink.url);
    const names = ids('s', 10);
    await rig.pushAll('suspect', names);
    for (const id of names) await strike(rig, 'suspect', id);
    await rig.pushAll('other', ids('o', 10));
    // Ten polls would take ten minutes.
    await rig.run(createNotifier(rig.context({ config: { pollCeiling: 60_000 } })));
    await until(
      'all are delivered',
      () => rig.counted('suspect', 'delivered') === 10 && rig.counted('other', 'delivered') === 10,
    );
  });

  it('is followed by 200 more, one by one, without a pause', async () => {
    const rig = await startRig();
    let [running, most] = [0, 0];
    const sink = await startSink((_arrival, response) => {
      running += 1;
      most = Math.max(most, running);
      setImmediate(() => {
        running -= 1;
        response.end('{}');
      });
    });
    await rig.topic('suspect', sink.url);
    await rig.pushAll('suspect', ids('s', 200));
    for (let n = 0; n < limits.strikesIsolated; n += 1) {
      const others = { room: 1_000, leaseMs: 60_000 };
      const dead = owner(900 + n);
      await rig.store.jobs.reserve(0, { owner: dead, max: limits.reserveMax, others, topics: new Map() });
      await rig.store.jobs.recoverOwners(0, dead.instance, { dead: dead.incarnation }, limits.recoverMax);
    }
    let skipped = 0;
    const store = between(rig, {
      reserve(partition, request) {
        if (request.topics.get('suspect')?.room === 0) skipped += 1;
        return rig.store.jobs.reserve(partition, request);
      },
    });
    // With a poll after each they would take 200 s.
    await rig.run(createNotifier(rig.context({ store, config: { pollCeiling: 1_000 } })));
    await until('all are delivered', () => rig.counted('suspect', 'delivered') === 200, 60_000);
    expect(sink.arrivals).toHaveLength(200);
    expect([most, skipped]).toEqual([1, 0]);
  });

  it('leaves half of the time to other jobs', async () => {
    const rig = await startRig();
    /** number of other deliveries at each call of a suspect */
    const before: number[] = [];
    /** when the last answer with suspects came: the isolation of the next call began later */
    let reservedAt = 0;
    const fine = await startSink();
    const slow = await startSink(async (_arrival, response) => {
      before.push(fine.arrivals.length);
      const from = performance.now();
      // Ready when this call ends.
      await rig.push('calm', `c${before.length}`);
      // An isolation lasts at least as long as its first call took to begin. A pause may make this long.
      const isolationMs = Math.max(2 * notifierLimits.isolationMs, from - reservedAt);
      await until('the isolation is over', () => performance.now() > from + isolationMs);
      response.writeHead(500).end();
    });
    await rig.topic('suspect', slow.url, {
      timeoutMs: 60_000,
      backoff: { type: 'ladder', stepsMs: [60_000] },
    });
    await rig.topic('calm', fine.url);
    for (let n = 0; n < 6; n += 1) {
      await rig.push('suspect', `s${n}`);
      await strike(rig, 'suspect', `s${n}`);
    }
    const store = between(rig, {
      async reserve(partition, request) {
        const reserved = await rig.store.jobs.reserve(partition, request);
        if (reserved.jobs.some(({ topic }) => topic === 'suspect')) reservedAt = performance.now();
        return reserved;
      },
    });
    await rig.run(createNotifier(rig.context({ store })));
    await until(
      'every job with strikes has been called',
      () => slow.arrivals.length === 6 && slow.open().length === 0,
      60_000,
    );
    // After each suspect, another was delivered before the next one was called.
    for (let n = 0; n < 5; n += 1) expect(before[n + 1]).toBeGreaterThan(before[n] ?? 0);
    await until('the others are delivered', () => rig.counted('calm', 'delivered') === 6);
    expect(slow.arrivals.every(({ attempt }) => attempt === 1)).toBe(true);
  });
});

describe('notifier: a drain', () => {
  it('finishes and settles running calls, and reserves nothing', async () => {
    const rig = await startRig();
    const sink = await startSink(hang);
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    const notifier = await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    await until('it runs', () => sink.open().length === 1);
    const drained = notifier.drain(10_000);
    await rig.push('t', 'b');
    sink.finish(sink.arrivals[0]);
    await drained;
    expect(rig.counted('t', 'delivered')).toBe(1);
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toBeNull();
    expect(await rig.store.jobs.get({ topic: 't', id: 'b' })).toMatchObject({ state: 'ready', strikes: 0 });
    expect(sink.arrivals).toHaveLength(1);
  });

  it('interrupts calls at its deadline, and releases their jobs', async () => {
    const rig = await startRig();
    const sink = await startSink(hang);
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    const notifier = await rig.run(createNotifier(rig.context()));
    await rig.pushAll('t', ids('j', 5));
    await until('they run', () => sink.open().length === 5);
    await notifier.drain(50);
    await until('the connections are closed', () => sink.open().length === 0);
    expect(sink.arrivals.every(({ broken }) => broken)).toBe(true);
    for (let n = 0; n < 5; n += 1)
      expect(await rig.store.jobs.get({ topic: 't', id: `j${n}` })).toMatchObject({
        state: 'ready',
        failures: 0,
        strikes: 0,
      });
    expect(rig.notified()).toEqual([]);
  });

  it('releases the jobs of a running reserve', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url);
    let answer: (() => void) | null = null;
    const store = between(rig, {
      async reserve(partition, request) {
        const reserved = await rig.store.jobs.reserve(partition, request);
        if (reserved.jobs.length > 0)
          await new Promise<void>((resolve) => {
            answer = resolve;
          });
        return reserved;
      },
    });
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    const giveAnswer = await until('it is reserved', () => answer);
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({ state: 'reserved' });
    const drained = notifier.drain(30_000);
    giveAnswer();
    await drained;
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({ state: 'ready', strikes: 0 });
    expect(sink.arrivals).toEqual([]);
  });

  it('ends while the store does not answer', async () => {
    const rig = await startRig();
    const sink = await startSink();
    await rig.topic('t', sink.url);
    let isCalled = false;
    const store = between(rig, {
      async ack(items) {
        isCalled = true;
        return items.map(() => ({ kind: 'unknown', code: 'no_answer' }));
      },
    });
    const notifier = await rig.run(createNotifier(rig.context({ store })));
    await rig.push('t', 'a');
    // A drain would cut a call short whose reply it has not read.
    await until('its call has ended', () => isCalled);
    await notifier.drain(100);
    expect(
      rig.lines.some(({ message, unsettled }) => message.includes('cannot settle jobs') && unsettled === 1),
    ).toBe(true);
  });
});
