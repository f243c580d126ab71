// What a notifier asks the store for, while topics come, change and go.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Topic, topicDefaults } from '../../src/core/topic/topic.ts';
import { Capacity } from '../../src/notifier/capacity.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import type { TopicBook } from '../../src/registry/topic-book.ts';
import { silentLog } from '../../src/telemetry/log.ts';

function bookOf(topics: Map<string, Topic>) {
  const book = {
    looks: 0,
    get: (name: string) => topics.get(name),
    all() {
      book.looks += 1;
      return topics.values();
    },
  };
  return book;
}

const roomsOf = (book: object, isLookupQueued = () => false) =>
  new Capacity({
    topics: book as TopicBook,
    log: silentLog,
    index: 0,
    count: 1,
    slots: 100,
    leaseMarginMs: 10_000,
    openFilesMax: null,
    isLookupQueued,
    onFreed: () => {},
    onProbed: () => {},
  });

const topicOf = (topic: string, more: Partial<Topic> = {}): Topic => ({
  ...topicDefaults,
  ...{ topic, callbackUrl: 'http://127.0.0.1/', state: 'active', secrets: [] },
  ...{ revision: 1, createdAt: 0, updatedAt: 0 },
  ...more,
});

const none = new Set<string>();
const asked = (rooms: Capacity, name: string) => {
  const { others, topics } = rooms.free(none);
  return topics.get(name) ?? others;
};

describe('rooms', () => {
  it('that follow changes one by one are those of who learns all at once', () => {
    const dice = (n: number) => Math.floor(Math.random() * n);
    const topics = new Map<string, Topic>();
    const rooms = roomsOf(bookOf(topics));
    const names = Array.from({ length: 300 }, (_, n) => `t${n}`);
    rooms.free(none);
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
      rooms.topicsChanged([name]);
      if (dice(10) === 0 && !topics.has(name)) rooms.markUnknown(name);
      if (dice(3) === 0) rooms.free(none);
    }
    const anew = roomsOf(bookOf(topics));
    for (const name of topics.keys()) expect(asked(rooms, name), name).toEqual(asked(anew, name));
  });

  it('do not look at every topic for each that is registered, however unlike they are', () => {
    const topics = new Map<string, Topic>();
    const book = bookOf(topics);
    const rooms = roomsOf(book);
    for (let n = 0; n < 1_000; n += 1) {
      topics.set(`t${n}`, topicOf(`t${n}`, { timeoutMs: 1_000 + n }));
      rooms.topicsChanged([`t${n}`]);
      expect(asked(rooms, `t${n}`).leaseMs).toBe(11_000 + n);
    }
    expect(book.looks).toBeLessThan(10);
  });

  it('give a topic whose look-up is queued no call before the turn, and its token back', () => {
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    let isQueued = true;
    const known = topicOf('t', { callbackUrl: 'http://queued.test/', rate: 1 });
    const book = bookOf(new Map([['t', { ...known, open: () => known } as Topic]]));
    const rooms = roomsOf(book, () => isQueued);
    const lane = rooms.laneOf('t');
    if (lane === undefined) throw new Error('no lane');
    const call = rooms.callStarted(lane);
    rooms.callEnded(call);
    expect(asked(rooms, 't').room).toBe(0);
    rooms.notBegun(call);
    vi.advanceTimersByTime(3 * notifierLimits.lookupPauseMs);
    expect(asked(rooms, 't').room).toBe(0);
    isQueued = false;
    vi.advanceTimersByTime(notifierLimits.lookupPauseMs);
    expect(asked(rooms, 't').room).toBe(1);
  });

  it('share one base while topics come, change and go, and follow its successor', () => {
    const topics = new Map<string, Topic>();
    for (let n = 0; n < 5_000; n += 1)
      topics.set(`t${n}`, topicOf(`t${n}`, { state: n < 4_000 ? 'paused' : 'active' }));
    const rooms = roomsOf(bookOf(topics));
    const first = rooms.free(none).topics;
    const bases = new Set([first.base]);
    const change = (name: string, state: Topic['state']) => {
      topics.set(name, topicOf(name, { state }));
      rooms.topicsChanged([name]);
      bases.add(rooms.free(none).topics.base);
    };
    for (let n = 0; n < 200; n += 1) {
      change(`t${n}`, 'active');
      change(`t${4_999 - n}`, 'paused');
      expect(rooms.free(none).topics.over.size).toBeLessThanOrEqual(notifierLimits.changedRoomsMax);
    }
    expect(bases.size).toBeLessThan(400 / notifierLimits.changedRoomsMax + 2);
    const anew = roomsOf(bookOf(topics));
    for (const name of topics.keys()) expect(asked(rooms, name), name).toEqual(asked(anew, name));
    expect(first.get('t0')?.room).toBe(0);
  });

  it('of a topic whose call ends, or that is skipped no longer, are those of the base again', () => {
    const known = topicOf('t', { concurrency: 2 });
    const topics = new Map([['t', { ...known, open: () => known } as Topic]]);
    for (const name of ['a', 'b', 'c']) topics.set(name, topicOf(name));
    const rooms = roomsOf(bookOf(topics));
    const { base } = rooms.free(none).topics;
    const lane = rooms.laneOf('t');
    if (lane === undefined) throw new Error('no lane');
    const call = rooms.callStarted(lane);
    expect(asked(rooms, 't').room).toBe(1);
    expect(rooms.free(new Set(['t', 'a'])).topics.get('a')?.room).toBe(0);
    rooms.callEnded(call);
    const { topics: after } = rooms.free(none);
    expect([after.base, after.over.size, after.get('t')?.room]).toEqual([base, 0, 2]);
  });

  it('of a request that is under way do not change with a topic', () => {
    const topics = new Map([['t', topicOf('t', { timeoutMs: 1_000 })]]);
    for (const name of ['a', 'b']) topics.set(name, topicOf(name));
    const rooms = roomsOf(bookOf(topics));
    const before = rooms.free(none).topics;
    expect(before.get('t')?.leaseMs).toBe(11_000);
    topics.set('t', topicOf('t', { timeoutMs: 60_000 }));
    rooms.topicsChanged(['t']);
    expect(asked(rooms, 't').leaseMs).toBe(70_000);
    expect(before.get('t')?.leaseMs).toBe(11_000);
  });
});
