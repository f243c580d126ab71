// Tests frames and payloads of the store's socket: written values are read back, and hostile bytes are
// rejected.

import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { AttemptRecord } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { packFirstAttempt } from '../../src/core/stored-codes.ts';
import type { PushJob, PushOutcome } from '../../src/ports/job-store.ts';
import { ruleOf, storeVerbNames, storeVerbs } from '../../src/ports/store-verbs.ts';
import { readWork } from '../../src/store/sqlite/owner/operations.ts';
import type { CapacityDelta } from '../../src/store/sqlite/wire/capacity-delta.ts';
import * as messages from '../../src/store/sqlite/wire/messages.ts';
import { FrameCutter, kinds, ProtocolError, Reader, Writer } from '../../src/store/sqlite/wire/protocol.ts';

function through<T>(write: (w: Writer) => void, read: (r: Reader) => T): T {
  const w = new Writer(1);
  write(w);
  const r = new Reader(w.done());
  const value = read(r);
  r.end();
  return value;
}

const lease = { topic: 't', id: 'ключ ✓', version: 2 ** 51 - 1, token: 1_795_190_570_708_001 };
const attempt = {
  attempt: 3,
  startedAt: 1_900_000_000_000,
  durationMs: 0.5,
  outcome: 'failed',
  reason: 'rule',
  status: 200,
  replyExcerpt: '\\u0000 "“später”\n',
  notifier: 'dq-notifier-0',
  host: 'vm',
} as const;

describe('messages', () => {
  it.each([
    { when: { delayMs: 0 }, mode: 'replace', priority: 'high', contentType: null, body: Buffer.alloc(0) },
    {
      when: { delayMs: 1.5 },
      mode: 'keep',
      priority: 'normal',
      contentType: '',
      body: Buffer.from([0, 255]),
    },
    {
      when: { at: 4e12 },
      mode: 'reject',
      priority: 'low',
      contentType: 'a/b',
      body: Buffer.alloc(70_000, 7),
    },
  ] as const)('push: $mode, $priority, $when comes back', (rest) => {
    const job = { topic: 't', id: lease.id, ...rest };
    expect(through((w) => messages.pushJobCodec.write(w, job), messages.pushJobCodec.read)).toEqual(job);
  });

  it.each<PushOutcome>([
    { kind: 'stored', version: 9, dueAt: 1, state: 'delayed', replaced: true, inFlight: true },
    { kind: 'stored', version: 9, dueAt: 1, state: 'ready', replaced: true, inFlight: false },
    { kind: 'stored', version: 9, dueAt: 1, state: 'ready', replaced: false, inFlight: false },
    { kind: 'kept', version: 9, dueAt: 1, state: 'reserved' },
    { kind: 'job_exists', version: 9, dueAt: 1, state: 'delayed' },
    { kind: 'not_stored', code: 'disk_full' },
    { kind: 'unknown', code: 'io_error' },
  ])('push outcome: $kind comes back', (outcome) => {
    expect(
      through((w) => messages.pushOutcomeCodec.write(w, outcome), messages.pushOutcomeCodec.read),
    ).toEqual(outcome);
  });

  it.each([
    { kind: 'absent' },
    { kind: 'cancelled', inFlight: true },
    { kind: 'cancelled', inFlight: false },
    { kind: 'unknown', code: 'x' },
  ] as const)('cancel outcome: $kind comes back', (outcome) => {
    expect(
      through((w) => messages.cancelOutcomeCodec.write(w, outcome), messages.cancelOutcomeCodec.read),
    ).toEqual(outcome);
  });

  it('an ack comes back with its attempt, an only one encoded as stored', () => {
    const ack = (kept: AttemptRecord | null, isPulled = false) =>
      through(
        (w) => messages.ackItemCodec.write(w, { ...lease, attempt: kept, isPulled }),
        messages.ackItemCodec.read,
      );
    const only = { ...attempt, attempt: 1, outcome: 'delivered', reason: null } as const;
    for (const isPulled of [true, false]) {
      expect(ack(attempt, isPulled)).toEqual({ ...lease, attempt, isPulled });
      expect(ack(only, isPulled)).toEqual({ ...lease, attempt: packFirstAttempt(only), isPulled });
      expect(ack(null, isPulled)).toEqual({ ...lease, attempt: null, isPulled });
    }
  });

  it('retry and bury come back with lease, condition, delay, reason and attempt', () => {
    const retry = { ...lease, ifExpired: false, isPulled: true, delayMs: 60_000, attempt };
    const bury = { ...lease, ifExpired: true, isPulled: false, reason: 'poison', attempt } as const;
    expect(through((w) => messages.retryItemCodec.write(w, retry), messages.retryItemCodec.read)).toEqual(
      retry,
    );
    expect(through((w) => messages.buryItemCodec.write(w, bury), messages.buryItemCodec.read)).toEqual(bury);
  });

  it.each([{ kind: 'acked' }, { kind: 'lease_lost' }, { kind: 'not_stored', code: 'x' }] as const)(
    'finish outcome: $kind comes back',
    (outcome) => {
      const codec = messages.finishCodec('acked');
      expect(through((w) => codec.write(w, outcome), codec.read)).toEqual(outcome);
    },
  );

  it('a reserve request comes back, capacity bounded by reserveMax + 1', () => {
    const request = {
      owner: { instance: 0xffff_ffff, incarnation: 2 ** 40 },
      max: 64,
      others: { room: Infinity, leaseMs: 13_000 },
    };
    const delta: CapacityDelta = {
      base: 6,
      number: 7,
      capacities: [
        ['t', { room: 0, leaseMs: 70_000 }],
        ['gone', null],
      ],
    };
    const write = (w: Writer) => messages.reserveRequestCodec.write(w, request, delta);
    expect(through(write, messages.reserveRequestCodec.read)).toEqual({
      ...request,
      others: { room: limits.reserveMax + 1, leaseMs: 13_000 },
      delta,
    });
  });

  it('reserved jobs and snapshots come back with their bodies', () => {
    const job = {
      ...lease,
      origin: 5,
      dueAt: 6,
      acceptedAt: 7,
      failures: 8,
      strikes: 4,
      leaseMs: 13_000,
      contentType: null,
      body: Buffer.from([0, 1, 255]),
    };
    const reserved = {
      jobs: [job, { ...job, contentType: 'a/b', body: Buffer.alloc(0) }],
      more: true,
      now: 9,
    };
    const extension = Buffer.from([2, 1, 3]);
    const own = { ...reserved, jobs: [job, { ...job, extension }, job] };
    expect(through((w) => messages.reservedCodec.write(w, own), messages.reservedCodec.read)).toEqual(own);
    const limited = { ...reserved, jobs: [], atLeaseLimit: ['t'] };
    expect(through((w) => messages.reservedCodec.write(w, limited), messages.reservedCodec.read)).toEqual(
      limited,
    );
    expect(through((w) => messages.reservedCodec.write(w, reserved), messages.reservedCodec.read)).toEqual(
      reserved,
    );
    expect(through((w) => messages.reservedCodec.write(w, null), messages.reservedCodec.read)).toBeNull();
    const { token, leaseMs, ...rest } = job;
    const snapshot = { ...rest, state: 'dead', attempts: [attempt], deadAt: 3, deadReason: 'gone' } as const;
    expect(through((w) => messages.snapshotCodec.write(w, snapshot), messages.snapshotCodec.read)).toEqual(
      snapshot,
    );
    const more = { ...snapshot, extension };
    expect(through((w) => messages.snapshotCodec.write(w, more), messages.snapshotCodec.read)).toEqual(more);
  });
});

function framesOf(count: number): { bytes: Buffer; payloads: string[] } {
  const w = new Writer(8);
  const payloads = Array.from({ length: count }, (_, n) => 'x'.repeat((n * 7_919) % 3_000));
  for (const [n, text] of payloads.entries())
    w.begin(n + 1, storeVerbs['jobs.get'].frame)
      .text(text)
      .end();
  return { bytes: w.done(), payloads };
}

describe('frames', () => {
  it('are cut from any chunks', () => {
    const dice = new Dice(1);
    const { bytes, payloads } = framesOf(60);
    for (let round = 0; round < 50; round += 1) {
      const cutter = new FrameCutter();
      const read: string[] = [];
      for (let at = 0; at < bytes.length; ) {
        const end = at + 1 + dice.below(round % 2 === 0 ? 9_000 : 40);
        for (const { requestId, kind, payload } of cutter.cut(bytes.subarray(at, end))) {
          expect([requestId, kind]).toEqual([read.length + 1, storeVerbs['jobs.get'].frame]);
          read.push(payload.text());
          payload.end();
        }
        at = end;
      }
      expect(read).toEqual(payloads);
    }
  });

  it('of an invalid length are rejected before anything is buffered', () => {
    for (const length of [0, 4, limits.frameBytesMax + 1, 0xffff_ffff]) {
      const head = Buffer.alloc(4);
      head.writeUInt32LE(length);
      expect(() => new FrameCutter().cut(head)).toThrow(ProtocolError);
    }
  });

  it('abandoned: leave nothing in the writer', () => {
    const w = new Writer(4);
    w.begin(1, storeVerbs['jobs.get'].frame).text('kept').end();
    w.begin(2, storeVerbs['jobs.get'].frame).text('dropped');
    w.abandon();
    w.begin(3, storeVerbs['jobs.get'].frame).text('after').end();
    const frames = new FrameCutter().cut(w.done());
    expect(frames.map(({ requestId, payload }) => [requestId, payload.text()])).toEqual([
      [1, 'kept'],
      [3, 'after'],
    ]);
  });
});

const framesOfVerbs = storeVerbNames.flatMap((verb) => ruleOf(verb).frame ?? []);

it('frames: the numbers of verbs ascend, and no other kind of frame has one', () => {
  const other: readonly number[] = Object.values(kinds);
  expect(new Set(other).size).toBe(other.length);
  expect(framesOfVerbs).toEqual([...new Set(framesOfVerbs)].sort((a, b) => a - b));
  expect(framesOfVerbs.filter((frame) => other.includes(frame))).toEqual([]);
});

describe('hostile payloads', () => {
  it('of random bytes are read or rejected, never anything else', () => {
    const dice = new Dice(2);
    const all = [...Object.values(kinds), ...framesOfVerbs];
    let rejected = 0;
    for (let n = 0; n < 20_000; n += 1) {
      const payload = Buffer.from(Array.from({ length: dice.below(64) }, () => dice.below(256)));
      // Small first numbers, so that lengths and counts are often plausible.
      if (payload.length > 4 && dice.chance(0.7)) payload.writeUInt32LE(dice.below(8));
      try {
        readWork(all[n % all.length] as number, new Reader(payload));
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError);
        rejected += 1;
      }
    }
    expect(rejected).toBeGreaterThan(15_000);
  });

  it('that are too short or too long are rejected', () => {
    const job: PushJob = {
      topic: 't',
      id: '1',
      when: { delayMs: 0 },
      mode: 'keep',
      priority: 'low',
      contentType: 'a/b',
      body: Buffer.from('body'),
    };
    const w = new Writer();
    w.list([job], messages.pushJobCodec.write);
    const whole = w.done();
    expect(readWork(storeVerbs['jobs.push'].frame, new Reader(whole)).isPush).toBe(true);
    for (let length = 0; length < whole.length; length += 1)
      expect(() => readWork(storeVerbs['jobs.push'].frame, new Reader(whole.subarray(0, length)))).toThrow(
        ProtocolError,
      );
    const longer = Buffer.concat([whole, Buffer.from([0])]);
    expect(() => readWork(storeVerbs['jobs.push'].frame, new Reader(longer))).toThrow(ProtocolError);
  });

  it('with a long list in a short frame allocate no list', () => {
    const w = new Writer();
    w.u32(0xffff_fff0);
    expect(() => readWork(storeVerbs['jobs.ack'].frame, new Reader(w.done()))).toThrow(
      /a list of 4294967280/,
    );
  });

  it('with non-finite numbers are rejected', () => {
    const w = new Writer();
    w.list([0], () => messages.endingLeaseCodec.write(w, lease).f64(Number.NaN).json(attempt));
    expect(() => readWork(storeVerbs['jobs.retry'].frame, new Reader(w.done()))).toThrow(/NaN/);
    const retry = { ...lease, delayMs: Number.NaN, attempt };
    expect(() => messages.retryItemCodec.write(new Writer(), retry)).toThrow(/NaN/);
  });
});
