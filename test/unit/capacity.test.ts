// Tests the capacities that a notifier requests while topics come, change and go, and its explanations of
// capacity 0.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { ReservedJob } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { type Topic, topicDefaults } from '../../src/core/topic/topic.ts';
import { Capacity, type CapacityOptions } from '../../src/notifier/capacity.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { PoisonIsolation } from '../../src/notifier/poison-isolation.ts';
import type { Held } from '../../src/notifier/settler.ts';
import type { TopicTarget } from '../../src/notifier/topic-target.ts';
import type { TopicBook } from '../../src/registry/topic-book.ts';
import { silentLog } from '../../src/telemetry/log.ts';

function bookOf(topics: Map<string, Topic>) {
  const book = {
    looks: 0,
    isKnown: true,
    get: (name: string) => topics.get(name),
    isUnreadable: (name: string) => name === 'unreadable',
    all() {
      book.looks += 1;
      return topics.values();
    },
  };
  return book;
}

const capacityOf = (book: object, more: Partial<CapacityOptions> = {}) =>
  new Capacity({
    topics: book as TopicBook,
    log: silentLog,
    brokers: new Map(),
    index: 0,
    count: 1,
    slots: 100,
    leaseMarginMs: 10_000,
    pollCeilingMs: 1_000,
    openFilesMax: null,
    lookups: { isQueued: () => false },
    settler: { leased: 0, unsettled: () => 0 },
    isolation: new PoisonIsolation(),
    partitions: () => [0],
    failures: { failing: new Map(), healing: new Set() },
    onGain: () => {},
    ...more,
  });

const topicOf = (topic: string, more: Partial<Topic> = {}): Topic => ({
  ...topicDefaults,
  ...{ topic, callbackUrl: 'http://127.0.0.1/', state: 'active', secrets: [] },
  ...{ revision: 1, createdAt: 0, updatedAt: 0 },
  ...more,
});
/** Topics as in the topic book. */
const known = (topic: string, more: Partial<Topic> = {}): Topic => {
  const record = topicOf(topic, more);
  return { ...record, open: () => record } as Topic;
};

function fakeTime(): void {
  onTestFinished(() => void vi.useRealTimers());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
}

function granted(capacity: Capacity) {
  const grant = capacity.request(0);
  if (grant === null) throw new Error('nothing is granted');
  return grant;
}
/** The request that a reserve would send now. */
function ask(capacity: Capacity) {
  const grant = granted(capacity);
  capacity.endRequest(grant, []);
  return grant;
}
const askFor = (capacity: Capacity, name: string) => {
  const { others, topics } = ask(capacity);
  return topics.get(name) ?? others;
};
function targetIn(capacity: Capacity, name: string): TopicTarget {
  const target = capacity.targetOf(name);
  if (target === undefined) throw new Error(`no target of ${name}`);
  return target;
}
const start = (capacity: Capacity, name = 't') => capacity.started(targetIn(capacity, name));
function startMany(capacity: Capacity, name: string, count: number): void {
  for (let n = 0; n < count; n += 1) start(capacity, name);
}
type Judged = Parameters<Capacity['judged']>;
/** A call ends. */
function end(capacity: Capacity, call: Judged[0], ...how: [Judged[1], Judged[2], Judged[3]?, Judged[4]?]) {
  capacity.released(call);
  return capacity.judged(call, ...how);
}
/** A call that ends at once. */
function attempt(capacity: Capacity, reason: Judged[1], status: Judged[2] = null, name = 't'): void {
  end(capacity, start(capacity, name), reason, status);
}
/** Makes the topic ailing. */
function outage(capacity: Capacity, name = 't'): void {
  for (let n = 0; n < notifierLimits.ailingAttempts; n += 1) attempt(capacity, 'connect', null, name);
}

const codes = (capacity: Capacity, topic = 't') => capacity.explain(topic).map(({ code }) => code);

describe('capacity', () => {
  it('is the same after single changes and after reading all topics at once', () => {
    const seeded = new Dice(7);
    const dice = (n: number) => seeded.below(n);
    const topics = new Map<string, Topic>();
    const capacity = capacityOf(bookOf(topics));
    const names = Array.from({ length: 300 }, (_, n) => `t${n}`);
    ask(capacity);
    for (let step = 0; step < 1_000; step += 1) {
      const name = names[dice(names.length)] as string;
      if (dice(4) === 0) topics.delete(name);
      else {
        const state = dice(5) === 0 ? 'paused' : 'active';
        topics.set(
          name,
          topicOf(name, { state, concurrency: 1 + dice(3), timeoutMs: 1_000 * (1 + dice(2)) }),
        );
      }
      capacity.topicsChanged([name]);
      if (dice(10) === 0 && !topics.has(name)) capacity.hold(name);
      if (dice(3) === 0) ask(capacity);
    }
    const fresh = capacityOf(bookOf(topics));
    for (const name of topics.keys()) expect(askFor(capacity, name), name).toEqual(askFor(fresh, name));
  });

  it('does not read every topic for each registered one', () => {
    const topics = new Map<string, Topic>();
    const book = bookOf(topics);
    const capacity = capacityOf(book);
    for (let n = 0; n < 1_000; n += 1) {
      topics.set(`t${n}`, topicOf(`t${n}`, { timeoutMs: 1_000 + n }));
      capacity.topicsChanged([`t${n}`]);
      expect(askFor(capacity, `t${n}`).leaseMs).toBe(11_000 + n);
    }
    expect(book.looks).toBeLessThan(10);
  });

  it('is 0 for a topic whose look-up is queued, and keeps the token', () => {
    fakeTime();
    let isQueued = true;
    const book = bookOf(new Map([['t', known('t', { callbackUrl: 'http://queued.test/', rate: 1 })]]));
    const capacity = capacityOf(book, { lookups: { isQueued: () => isQueued } });
    const call = start(capacity);
    capacity.released(call);
    expect(askFor(capacity, 't').room).toBe(0);
    capacity.notStarted(call);
    expect(codes(capacity)).toEqual(['lookup_queued']);
    vi.advanceTimersByTime(3 * notifierLimits.lookupPauseMs);
    expect(askFor(capacity, 't').room).toBe(0);
    isQueued = false;
    vi.advanceTimersByTime(notifierLimits.lookupPauseMs);
    expect(askFor(capacity, 't').room).toBe(1);
  });

  it('keeps one base for many requests while topics change', () => {
    const topics = new Map<string, Topic>();
    for (let n = 0; n < 5_000; n += 1)
      topics.set(`t${n}`, topicOf(`t${n}`, { state: n < 4_000 ? 'paused' : 'active' }));
    const capacity = capacityOf(bookOf(topics));
    const first = ask(capacity).topics;
    const bases = new Set([first.base]);
    const change = (name: string, state: Topic['state']) => {
      topics.set(name, topicOf(name, { state }));
      capacity.topicsChanged([name]);
      bases.add(ask(capacity).topics.base);
    };
    for (let n = 0; n < 200; n += 1) {
      change(`t${n}`, 'active');
      change(`t${4_999 - n}`, 'paused');
      expect(ask(capacity).topics.over.size).toBeLessThanOrEqual(notifierLimits.changedTopicsMax);
    }
    expect(bases.size).toBeLessThan(400 / notifierLimits.changedTopicsMax + 2);
    const fresh = capacityOf(bookOf(topics));
    for (const name of topics.keys()) expect(askFor(capacity, name), name).toEqual(askFor(fresh, name));
    expect(first.get('t0')?.room).toBe(0);
  });

  it('is the base capacity again after the end of a call', () => {
    const topics = new Map([['t', known('t', { concurrency: 2 })]]);
    for (const name of ['a', 'b', 'c']) topics.set(name, topicOf(name));
    const capacity = capacityOf(bookOf(topics));
    const { base } = ask(capacity).topics;
    const call = start(capacity);
    expect(askFor(capacity, 't').room).toBe(1);
    capacity.released(call);
    const { topics: after } = ask(capacity);
    expect([after.base, after.over.size, after.get('t')?.room]).toEqual([base, 0, 2]);
  });

  it('of a running request does not change with a topic', () => {
    const topics = new Map([['t', topicOf('t', { timeoutMs: 1_000 })]]);
    for (const name of ['a', 'b']) topics.set(name, topicOf(name));
    const capacity = capacityOf(bookOf(topics));
    const before = ask(capacity).topics;
    expect(before.get('t')?.leaseMs).toBe(11_000);
    topics.set('t', topicOf('t', { timeoutMs: 60_000 }));
    capacity.topicsChanged(['t']);
    expect(askFor(capacity, 't').leaseMs).toBe(70_000);
    expect(before.get('t')?.leaseMs).toBe(11_000);
  });

  it('topics in the pause after an isolation have none', () => {
    const isolation = new PoisonIsolation();
    const capacity = capacityOf(bookOf(new Map(['t', 'a', 'b'].map((name) => [name, known(name)]))), {
      isolation,
    });
    const held = { job: { topic: 't', strikes: limits.strikesIsolated } } as Held;
    const now = performance.now();
    isolation.choose([held], true, now);
    expect(capacity.request(0)).toBeNull();
    expect(codes(capacity, 'a')).toEqual(['isolation']);
    isolation.called(now);
    isolation.settled(now + 100_000);
    expect(['t', 'a'].map((name) => askFor(capacity, name).room)).toEqual([0, 50]);
    expect(codes(capacity)).toEqual(['isolation_pause']);
    expect(capacity.explain('a')).toEqual([]);
  });
});

describe('explain', () => {
  const one = (more: Partial<Topic>) => bookOf(new Map([['t', known('t', more)]]));

  it('names topics that cannot be called', () => {
    const capacity = capacityOf(one({ callbackUrl: 'no url' }));
    expect(codes(capacity)).toEqual(['cannot_be_called']);
    const published = { delivery: 'mq', target: { broker: 'gone', to: 'q', key: null } } as const;
    expect(codes(capacityOf(one(published)))).toEqual(['unknown_broker']);
    expect(codes(capacity, 'unreadable')).toEqual(['unreadable_topic']);
    expect(codes(capacity, 'absent')).toEqual(['unknown_topic']);
    const unread = { ...bookOf(new Map()), isKnown: false };
    expect(codes(capacityOf(unread), 'absent')).toEqual(['unknown_topics']);
  });

  it('names states and shares of 0', () => {
    expect(codes(capacityOf(one({ state: 'paused' })))).toEqual(['paused']);
    expect(codes(capacityOf(one({ state: 'offline' })))).toEqual(['offline']);
    expect(codes(capacityOf(one({ concurrency: 1 }), { index: 1, count: 2 }))).toEqual(['no_share']);
    expect(capacityOf(one({ rate: 1 }), { index: 1, count: 2 }).explain('t')).toMatchObject([
      { code: 'no_share', values: { callers: 'dq-notifier-0' } },
    ]);
    expect(capacityOf(one({ concurrency: 2 }), { index: 2, count: 3 }).explain('t')).toMatchObject([
      { code: 'no_share', values: { callers: 'dq-notifier-0 to dq-notifier-1' } },
    ]);
    expect(capacityOf(one({ concurrency: 2, rate: 1 }), { index: 3, count: 4 }).explain('t')).toMatchObject([
      {
        code: 'no_share',
        message:
          'concurrency 2 and rate 1 are smaller than the number of notifiers (4), and the share of this one is 0',
        remedy:
          'dq-notifier-0 may call this topic; for calls from every notifier raise concurrency and rate to 4',
        values: { concurrency: 2, rate: 1, callers: 'dq-notifier-0' },
      },
    ]);
    const pulled = one({ delivery: 'pull', concurrency: 1 });
    expect(codes(capacityOf(pulled, { index: 1, count: 2 }))).toEqual(['pulled']);
    expect(codes(capacityOf(one({ concurrency: 1 }), { index: 0, count: 2 }))).toEqual([]);
  });

  it('names the partitions that fail, with the code, and those that heal', () => {
    const failures = { failing: new Map([[1, 'disk_full']]), healing: new Set([0]) };
    const several = { partitions: () => [0, 1, 2], nameOf: (partition: number) => `s:${partition}` };
    expect(capacityOf(one({}), { failures, ...several }).explain('t')).toMatchObject([
      { code: 'store_unavailable', values: { failing: 1, partitions: 3, code: 'disk_full', places: 's:1' } },
      { code: 'healing', values: { healing: 1, partitions: 3, places: 's:0' } },
    ]);
    const [only] = capacityOf(one({}), { failures, partitions: () => [1] }).explain('t');
    expect(only?.message).toMatch(/failed in 1 of 1 partitions of the store \(disk_full\)$/);
    expect(only?.values).toEqual({ failing: 1, partitions: 1, code: 'disk_full' });
  });

  it('asking changes nothing', () => {
    const capacity = capacityOf(one({ concurrency: 1, rate: 5 }), { index: 1, count: 2 });
    capacity.explain('t');
    capacity.request(0);
    expect(capacity.isFull).toBe(false);
  });

  it('counts calls against the concurrency, half of the slots, and the rate', () => {
    const full = capacityOf(one({ concurrency: 2, rate: 2 }));
    startMany(full, 't', 2);
    expect(full.explain('t')).toMatchObject([
      { code: 'concurrency_reached', values: { running: 2, limit: 2 } },
      { code: 'rate_reached', values: { rate: 2 } },
    ]);
    const half = capacityOf(one({ concurrency: 1_000 }), { slots: 4 });
    startMany(half, 't', 2);
    expect(half.explain('t')).toMatchObject([
      { code: 'half_of_slots', values: { running: 2, limit: 2, slots: 4 } },
    ]);
  });

  it('names full slots, except for topics that may take kept slots', () => {
    const topics = new Map(['t', 'fine', 'busy'].map((name) => [name, known(name, { concurrency: 1_000 })]));
    const capacity = capacityOf(bookOf(topics), { slots: 16 });
    attempt(capacity, null, 200, 'fine');
    startMany(capacity, 'busy', 14);
    expect(capacity.explain('t')).toMatchObject([
      { code: 'no_free_slot', values: { slots: 16, used: 14, kept: 2 } },
    ]);
    expect(codes(capacity, 'fine')).toEqual([]);
    const grant = capacity.request(0);
    expect([grant?.slots, grant?.others.room, grant?.topics.get('fine')?.room]).toEqual([2, 0, 1]);
  });

  it('offers probes while no slot is open: they have their own account', () => {
    const topics = new Map(['t', 'busy', 'fine'].map((name) => [name, known(name, { concurrency: 1_000 })]));
    topics.set('t', known('t', { callbackUrl: 'http://127.0.0.2/' }));
    const capacity = capacityOf(bookOf(topics), { slots: 16 });
    attempt(capacity, null, null, 'fine');
    outage(capacity);
    const asked = () => {
      const { slots, others, topics: own } = ask(capacity);
      return [slots, others.room, own.get('t')?.room, own.get('fine')?.room];
    };
    startMany(capacity, 'busy', 14);
    // The jobs of both count against the two kept slots: any of them may be a job of `fine`.
    expect(asked()).toEqual([2, 0, notifierLimits.ailingCallsMax, 1]);
    startMany(capacity, 'busy', 2);
    expect(asked()).toEqual([notifierLimits.ailingCallsMax, 0, notifierLimits.ailingCallsMax, undefined]);
    expect(codes(capacity)).toEqual(['ailing', 'origin_ailing']);
    startMany(capacity, 't', notifierLimits.ailingCallsMax);
    expect(capacity.request(0)).toBeNull();
  });

  it('the next turn of probes ends a sleep also while no slot is open', () => {
    const ailing = Array.from({ length: notifierLimits.ailingOriginCallsMax + 1 }, (_, n) => `t${n}`);
    const topics = new Map(ailing.map((name) => [name, known(name, { callbackUrl: 'http://127.0.0.2/' })]));
    topics.set('busy', known('busy', { concurrency: 1_000 }));
    const pollCeilingMs = 2 * notifierLimits.probeTurnMs;
    const capacity = capacityOf(bookOf(topics), { slots: 16, pollCeilingMs });
    for (const name of ailing) outage(capacity, name);
    startMany(capacity, 'busy', 16);
    expect(ask(capacity).slots).toBeGreaterThan(0);
    expect(capacity.sleepMs()).toBeLessThanOrEqual(notifierLimits.probeTurnMs);
  });

  it('the rate of a probed topic ends a sleep also while no slot is open', () => {
    fakeTime();
    const topics = new Map(['t', 'busy'].map((name) => [name, known(name, { concurrency: 1_000 })]));
    topics.set('t', known('t', { callbackUrl: 'http://127.0.0.2/', rate: 2 }));
    const capacity = capacityOf(bookOf(topics), { slots: 16, pollCeilingMs: 60_000 });
    for (let n = 0; n < notifierLimits.ailingAttempts; n += 1) {
      attempt(capacity, 'connect');
      vi.advanceTimersByTime(500);
    }
    startMany(capacity, 'busy', 16);
    start(capacity);
    expect(capacity.request(0)).toBeNull();
    const waitMs = capacity.sleepMs();
    expect(waitMs).toBeLessThanOrEqual(500);
    vi.advanceTimersByTime(waitMs);
    expect(askFor(capacity, 't').room).toBe(1);
  });

  it('while a job waits to be called alone, a rate that is worth a request ends no sleep at once', () => {
    fakeTime();
    const isolation = new PoisonIsolation();
    const capacity = capacityOf(one({ rate: 2 }), { isolation });
    start(capacity);
    vi.advanceTimersByTime(500);
    isolation.choose([{ job: { topic: 't', strikes: 2 } } as Held], false, 0);
    expect(capacity.request(0)).toBeNull();
    expect(capacity.sleepMs()).toBeGreaterThan(0);
  });

  it('names full slots for a topic whose success is older than those of the topics with kept slots', () => {
    const names = Array.from({ length: limits.keptTopicsMax + 1 }, (_, n) => `t${n}`);
    const book = bookOf(
      new Map([...names, 'busy'].map((name) => [name, known(name, { concurrency: 1_000 })])),
    );
    const capacity = capacityOf(book, { slots: 16 });
    for (const name of names) attempt(capacity, null, 200, name);
    startMany(capacity, 'busy', 14);
    expect(ask(capacity).topics.get('t0')).toBeUndefined();
    expect(capacity.explain('t0')).toMatchObject([{ code: 'no_free_slot', values: { keptTopics: 256 } }]);
    expect([ask(capacity).topics.get('t1')?.room, codes(capacity, 't1')]).toEqual([1, []]);
  });

  it.each([
    ['connect', 'ECONNREFUSED 127.0.0.1:80', 'connection refused (ECONNREFUSED 127.0.0.1:80)'],
    ['dns', 'ENOTFOUND shop.invalid', 'no address for the host name (ENOTFOUND shop.invalid)'],
    ['tls', 'certificate has expired', 'no TLS connection (certificate has expired)'],
    ['timeout', 'no whole reply within 3s', 'no whole reply within 3s'],
  ] as const)(
    'names an ailing topic and its origin, since when, and what its calls said: %s',
    (reason, detail, words) => {
      fakeTime();
      const capacity = capacityOf(one({}));
      const [first, ...others] = Array.from({ length: notifierLimits.ailingAttempts }, () => detail);
      end(capacity, start(capacity), reason, null, null, first);
      vi.advanceTimersByTime(90_000);
      for (const said of others) end(capacity, start(capacity), reason, null, null, said);
      const [topic, origin] = capacity.explain('t');
      expect([topic, origin]).toMatchObject([
        { code: 'ailing', values: { attemptsInRow: notifierLimits.ailingAttempts, running: 0, why: words } },
        { code: 'origin_ailing', values: { origin: 'http://127.0.0.1', topics: 1, forMs: 90_000 } },
      ]);
      expect(topic?.message).toContain(`did not reach the receiver: ${words}; `);
      expect(origin?.message).toContain(`http://127.0.0.1 has given no reply in time for 1m30s: ${words}; `);
    },
  );

  it('ramps after an outage: a tenth, doubled after each second in which most attempts reach the receiver', () => {
    fakeTime();
    let gains = 0;
    const book = one({ concurrency: 40, rate: 4_000 });
    const capacity = capacityOf(book, {
      onGain: (gain) => {
        if (gain === 'topics') gains += 1;
      },
    });
    outage(capacity);
    vi.advanceTimersByTime(5_000);
    expect(codes(capacity)).toContain('ailing');
    attempt(capacity, null);
    const seen: number[] = [];
    for (let second = 0; second < 6; second += 1) {
      vi.advanceTimersByTime(500);
      seen.push(askFor(capacity, 't').room);
      if (second === 1) attempt(capacity, 'connect');
      // A topic of which some calls always fail, and of which most are to be called again.
      if (second > 1)
        for (const reason of [null, 'connect', 'status', 'status'] as const) attempt(capacity, reason);
      vi.advanceTimersByTime(500);
    }
    // 8 twice: no attempt of that second reached the receiver.
    expect(seen).toEqual([4, 8, 8, 16, 32, 40]);
    expect(capacity.explain('t')).toEqual([]);
    expect(gains).toBeGreaterThanOrEqual(5);
    outage(capacity);
    attempt(capacity, null);
    expect(capacity.explain('t')).toMatchObject([
      { code: 'ramping', values: { part: 0.1, limit: 4, calls: 40, running: 0 } },
    ]);
    // The tenth of the rate: 400 a second, so 40 in 100 ms; the concurrency allows 4.
    vi.advanceTimersByTime(900);
    for (let n = 0; n < 40; n += 1) attempt(capacity, null);
    expect(askFor(capacity, 't').room).toBe(0);
    expect(capacity.explain('t')).toContainEqual(
      expect.objectContaining({
        message: expect.stringMatching(
          /^rate 400 a second \(10 % of 4000 after an outage or a pause\) is used up/,
        ),
        values: expect.objectContaining({ rate: 400, whole: 4_000 }),
      }),
    );
    vi.advanceTimersByTime(10_000);
    expect(askFor(capacity, 't').room).toBe(40);
  });

  it('names the rate of a ramp with two decimals', () => {
    fakeTime();
    const capacity = capacityOf(one({ concurrency: 40, rate: 3 }));
    outage(capacity);
    attempt(capacity, null);
    expect(capacity.explain('t')).toContainEqual(
      expect.objectContaining({
        message: expect.stringMatching(/^rate 0\.3 a second \(10 % of 3 after/),
        values: expect.objectContaining({ rate: 0.3, whole: 3, share: 0.3 }),
      }),
    );
  });

  it('ramps after replies of a gateway only when no attempt has succeeded for gatewayOutageMs', () => {
    fakeTime();
    const capacity = capacityOf(one({ concurrency: 40 }));
    const rejections = () => {
      for (let n = 0; n < 2 * notifierLimits.ailingAttempts; n += 1) attempt(capacity, 'status', 503);
    };
    attempt(capacity, null, 200);
    vi.advanceTimersByTime(1_000);
    rejections();
    attempt(capacity, null, 200);
    expect(capacity.explain('t')).toEqual([]);
    vi.advanceTimersByTime(notifierLimits.gatewayOutageMs + 1);
    rejections();
    attempt(capacity, null, 200);
    expect(capacity.explain('t')).toMatchObject([{ code: 'ramping' }]);
    // A receiver that answers most jobs so gets all of its limits again.
    for (let second = 0; second < 5; second += 1) {
      rejections();
      vi.advanceTimersByTime(notifierLimits.rampStepMs);
    }
    expect(capacity.explain('t')).toEqual([]);
  });

  describe('a receiver that asks to slow down', () => {
    const { slowDownAttempts, slowDownMsMin } = notifierLimits;

    function startTrial() {
      fakeTime();
      let gains = 0;
      const capacity = capacityOf(one({ concurrency: 40 }), {
        onGain: (gain) => {
          if (gain === 'topics') gains += 1;
        },
      });
      const begin = () => start(capacity);
      const ended = (call: Judged[0], status: number, slowDownMs: number | null = null) =>
        end(capacity, call, status === 200 ? null : 'status', status, slowDownMs);
      return {
        ...{ capacity, start: begin, end: ended },
        room: () => askFor(capacity, 't').room,
        slow: (askedMs = 0) => {
          for (let n = 0; n < slowDownAttempts; n += 1) ended(begin(), 429, askedMs);
        },
        gains: () => gains,
      };
    }

    it('gets no call for the time that it asks for, then one probe', () => {
      const { capacity, room, slow, gains } = startTrial();
      slow(20_000);
      expect(room()).toBe(0);
      expect(capacity.explain('t')).toMatchObject([{ code: 'slowed_down', values: { waitMs: 20_000 } }]);
      vi.advanceTimersByTime(19_999);
      expect([room(), gains()]).toEqual([0, 0]);
      vi.advanceTimersByTime(1);
      expect([room(), gains()]).toEqual([1, 1]);
    });

    it('counts the reply that begins it and those of probes, and no call that was under way', () => {
      const { start, end, room } = startTrial();
      const calls = Array.from({ length: 10 }, start);
      vi.advanceTimersByTime(10);
      const counted = calls.map((call) => end(call, 429, 1_000));
      expect(counted.filter((counts) => counts)).toHaveLength(slowDownAttempts);
      // A job that was reserved before: its call starts in the pause.
      expect(end(start(), 429, 1_000)).toBe(false);
      vi.advanceTimersByTime(1_000);
      const probe = start();
      vi.advanceTimersByTime(10);
      expect(end(probe, 429, 1_000)).toBe(true);
      expect(room()).toBe(0);
    });

    it('ramps after a probe with another reply; a reply in the ramp slows down at once', () => {
      const { capacity, start, end, room, slow } = startTrial();
      slow(1_000);
      const late = start();
      vi.advanceTimersByTime(1_000);
      // From before the end of the pause: it says nothing about now.
      end(late, 200);
      expect(room()).toBe(1);
      end(start(), 200);
      expect(capacity.explain('t')).toMatchObject([{ code: 'ramping', values: { limit: 4 } }]);
      vi.advanceTimersByTime(notifierLimits.rampStepMs);
      expect(room()).toBe(8);
      expect(end(start(), 429, 1_000)).toBe(true);
      expect(room()).toBe(0);
      vi.advanceTimersByTime(1_000);
      end(start(), 200);
      vi.advanceTimersByTime(4 * notifierLimits.rampStepMs);
      expect([room(), capacity.explain('t')]).toEqual([40, []]);
    });

    it('without a time the pauses double', () => {
      const { start, end, room, slow } = startTrial();
      slow();
      for (const ms of [slowDownMsMin, 2 * slowDownMsMin, 4 * slowDownMsMin]) {
        vi.advanceTimersByTime(ms - 1);
        expect(room()).toBe(0);
        vi.advanceTimersByTime(1);
        expect(room()).toBe(1);
        end(start(), 429, 0);
      }
    });

    it('a longer time of a call that was under way extends the pause', () => {
      const { start, end, room, slow } = startTrial();
      const call = start();
      slow(1_000);
      end(call, 429, 5_000);
      vi.advanceTimersByTime(1_000);
      expect(room()).toBe(0);
      vi.advanceTimersByTime(4_000);
      expect(room()).toBe(1);
    });

    it('single rejected jobs between delivered ones slow nothing down', () => {
      const { capacity, start, end } = startTrial();
      for (let n = 0; n < 10; n += 1) {
        for (let m = 1; m < slowDownAttempts; m += 1) expect(end(start(), 429, 60_000)).toBe(true);
        end(start(), 200);
      }
      expect(capacity.explain('t')).toEqual([]);
    });

    it('a long time that rejected jobs ask for stops the others for a short time only', () => {
      const { start, end, room, slow } = startTrial();
      const hourMs = 3_600_000;
      slow(hourMs);
      // One customer without quota: his jobs are the next ones, too.
      for (let n = 0; n < 3; n += 1) {
        vi.advanceTimersByTime(notifierLimits.slowDownAskedMsMax);
        expect(room()).toBe(1);
        expect(end(start(), 429, hourMs)).toBe(true);
        expect(room()).toBe(0);
      }
      expect(notifierLimits.slowDownAskedMsMax).toBeLessThanOrEqual(60_000);
    });

    it('calls from before the pause that still run delay no probe', () => {
      const { capacity, start, end, room, slow } = startTrial();
      const [first, second] = [start(), start()];
      slow(1_000);
      expect(room()).toBe(0);
      vi.advanceTimersByTime(1_000);
      expect(room()).toBe(1);
      end(first, 429, 1_000);
      expect(room()).toBe(1);
      const probe = start();
      expect(room()).toBe(0);
      // Nor do their ends make another one.
      end(second, 200);
      expect(room()).toBe(0);
      end(probe, 200);
      expect(capacity.explain('t')).toMatchObject([{ code: 'ramping' }]);
    });

    it('a topic in its pause is not full: the end of a call gives it no capacity', () => {
      const { capacity, start, slow } = startTrial();
      start();
      slow(100);
      expect(capacity.isFull).toBe(false);
      vi.advanceTimersByTime(100);
      expect(capacity.isFull).toBe(false);
      start();
      expect(capacity.isFull).toBe(true);
    });

    it('an unreachable receiver after a pause is probed as one', () => {
      const { capacity, slow, room } = startTrial();
      slow(1_000);
      vi.advanceTimersByTime(1_000);
      outage(capacity);
      expect(codes(capacity)).toContain('ailing');
      expect(room()).toBe(1);
    });
  });

  it('names a slow call', () => {
    fakeTime();
    const capacity = capacityOf(one({}));
    start(capacity);
    expect(codes(capacity)).toEqual([]);
    vi.advanceTimersByTime(2 * notifierLimits.slowCallMs);
    expect(capacity.explain('t')).toMatchObject([{ code: 'slow_calls', values: { running: 1 } }]);
  });

  it('names a store that does not answer', () => {
    const capacity = capacityOf(one({}), {
      settler: { leased: 100, unsettled: () => 100 },
      failures: { failing: new Map([[0, 'timeout']]), healing: new Set() },
    });
    expect(capacity.request(0)).toBeNull();
    expect(capacity.explain('t')).toMatchObject([
      { code: 'settling', values: { unsettled: 100, partitions: 1 } },
      { code: 'store_unavailable', values: { failing: 1, partitions: 1 } },
    ]);
  });

  it('has numbers, a message and a remedy for each reason', () => {
    const capacity = capacityOf(one({ concurrency: 1 }));
    start(capacity);
    expect(capacity.explain('t')).toEqual([
      {
        code: 'concurrency_reached',
        message: '1 of 1 calls run (concurrency 1 over 1 notifiers)',
        remedy:
          'make the receiver answer faster; where it answers in time (dq topic test t), raise concurrency: dq topic set t --concurrency N',
        values: { running: 1, limit: 1, concurrency: 1, notifiers: 1 },
      },
    ]);
  });
});

describe('requests', () => {
  it.each([
    ['unknown', undefined],
    ['of more calls', topicOf('t', { concurrency: 9 })],
  ])('bring no more jobs of a topic that was %s than it may have now', (_, before) => {
    const topics = new Map(before === undefined ? [] : [['t', before]]);
    const capacity = capacityOf(bookOf(topics));
    const grant = granted(capacity);
    topics.set('t', topicOf('t', { concurrency: 2 }));
    capacity.topicsChanged(['t']);
    const jobs = Array.from({ length: 3 }, () => ({ topic: 't' }) as ReservedJob);
    expect(capacity.endRequest(grant, jobs)).toEqual(new Set(jobs.slice(0, 2)));
  });

  it('for probes bring no job of a topic that recovers before the answer and needs a slot then', () => {
    const topics = new Map(['t', 'busy'].map((name) => [name, known(name, { concurrency: 1_000 })]));
    topics.set('t', known('t', { callbackUrl: 'http://127.0.0.2/' }));
    const capacity = capacityOf(bookOf(topics), { slots: 16 });
    outage(capacity);
    const probe = start(capacity);
    startMany(capacity, 'busy', 16);
    const grant = granted(capacity);
    expect(grant.slots).toBeGreaterThan(0);
    end(capacity, probe, null, 200);
    expect(capacity.endRequest(grant, [{ topic: 't' } as ReservedJob])).toEqual(new Set());
  });

  it('bring no job of a topic whose receiver asks to slow down before the answer', () => {
    const capacity = capacityOf(bookOf(new Map([['t', known('t', { concurrency: 9 })]])));
    const calls = Array.from({ length: notifierLimits.slowDownAttempts }, () => start(capacity));
    const grant = granted(capacity);
    for (const call of calls) end(capacity, call, 'status', 429, 1_000);
    expect(targetIn(capacity, 't').slowDown).not.toBeNull();
    expect(capacity.endRequest(grant, [{ topic: 't' } as ReservedJob])).toEqual(new Set());
  });

  it('end with the jobs that they brought', () => {
    const gains: string[] = [];
    const capacity = capacityOf(bookOf(new Map()), {
      partitions: () => [0, 1],
      onGain: (gain) => void gains.push(gain),
    });
    const grant = granted(capacity);
    expect([capacity.openRequests, grant.isDivided]).toEqual([1, true]);
    expect(capacity.endRequest(grant, [{ topic: 't' } as ReservedJob])).toBeNull();
    expect([capacity.openRequests, gains]).toEqual([0, ['grants']]);
  });
});
