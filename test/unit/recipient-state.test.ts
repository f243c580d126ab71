// Tests which alerts each recipient gets in which mail: windows, backoff, cap.
import { describe, expect, it } from 'vitest';
import type { Answer } from '../../src/mail/smtp-sender.ts';
import { RecipientState } from '../../src/upkeep/alerts/recipient-state.ts';

const everyone = ['a', 'b', 'c'];
const windowMs = 300;
const hourMs = 3_600_000;
/** Waits 10 ms after the first failure, 20 ms after the second. */
const open = (perHour: number | null = null, window = windowMs) =>
  new RecipientState({ perHour, windowMs: window, backoffMs: (failures) => 10 * failures, doneMax: 4 });

const plan = (state: RecipientState, ids: readonly number[], now: number, addresses = everyone) =>
  state.plan('t', addresses, ids, now).map((batch) => [batch.addresses.join(), [...batch.ids].join()]);

interface Answered {
  readonly ids: readonly number[];
  readonly deferred?: readonly string[];
  readonly now?: number;
}

/** The server has answered one mail of key t. */
function answer(state: RecipientState, addresses: readonly string[], answered: Answered): void {
  const { ids, deferred = [], now = 0 } = answered;
  const answers = addresses.map((address): [string, Answer] => [
    address,
    deferred.includes(address) ? { kind: 'deferred', reason: '' } : { kind: 'accepted' },
  ]);
  state.answered('t', ids, new Map(answers), addresses, now);
}

/** The server has failed at one mail of key t about alert 1; `all`: the addresses of the key. */
function fail(state: RecipientState, addresses: readonly string[], all = everyone): void {
  const answers = addresses.map((address): [string, Answer] => [address, { kind: 'failed', reason: '' }]);
  state.answered('t', [1], new Map(answers), all, 0);
}

describe('RecipientState', () => {
  it('plans one mail about all alerts for all recipients', () => {
    expect(plan(open(), [1, 2], 0)).toEqual([['a,b,c', '1,2']]);
  });

  it('retries deferred recipients alone; the others get newer alerts when their window ends', () => {
    const state = open();
    answer(state, everyone, { ids: [1, 2], deferred: ['b'] });
    expect(state.nextAt('t', everyone)).toBe(10);
    expect(plan(state, [1, 2, 3], 9)).toEqual([]);
    expect(plan(state, [1, 2, 3], 10)).toEqual([['b', '1,2,3']]);
    expect(plan(state, [1, 2, 3], 300)).toEqual([
      ['a,c', '3'],
      ['b', '1,2,3'],
    ]);
    expect(state.finished('t', everyone, [1, 2, 3])).toEqual([]);
    answer(state, ['b'], { ids: [1, 2, 3], now: 10 });
    expect(state.finished('t', everyone, [1, 2, 3])).toEqual([1, 2]);
    expect(plan(state, [3], 310)).toEqual([['a,c', '3']]);
  });

  it('who has every alert that another one fails to take costs no claim in each round', () => {
    const state = open();
    answer(state, everyone, { ids: [1], deferred: ['b'] });
    // b is paused, so the window of the others ends first.
    for (const now of [300, 310, 330]) {
      expect(state.nextAt('t', ['a', 'c'])).toBe(now);
      expect(plan(state, [1], now, ['a', 'c'])).toEqual([]);
    }
    expect(plan(state, [1, 2], 360, ['a', 'c'])).toEqual([['a,c', '2']]);
    answer(state, ['a', 'c'], { ids: [2], now: 360 });
    expect(plan(state, [1, 2], 660, ['a', 'c'])).toEqual([]);
    expect(state.nextAt('t', ['a', 'c'])).toBe(670);
  });

  it('backs off longer with each deferral in a row; an accepted mail ends the row', () => {
    const state = open();
    const defer = () => answer(state, ['a'], { ids: [1], deferred: ['a'] });
    const waits = [1, 2, 3].map(() => {
      defer();
      return state.nextAt('t', ['a']);
    });
    answer(state, ['a'], { ids: [1] });
    defer();
    expect([...waits, state.nextAt('t', ['a'])]).toEqual([10, 20, 30, 10]);
  });

  it('mails a new recipient about alerts that are still owed, at once', () => {
    const state = open();
    answer(state, ['a'], { ids: [1] });
    expect(state.nextAt('t', ['a', 'new'])).toBe(0);
    expect(plan(state, [1], 5, ['a', 'new'])).toEqual([['new', '1']]);
  });

  it('does not wait for a recipient that was removed', () => {
    const state = open();
    answer(state, ['a', 'b'], { ids: [1], deferred: ['b'] });
    expect(state.finished('t', ['a', 'b'], [1])).toEqual([]);
    expect(state.finished('t', ['a'], [1])).toEqual([1]);
  });

  it('keeps keys apart and forgets one', () => {
    const state = open();
    answer(state, ['a'], { ids: [1] });
    expect(state.nextAt('u', ['a'])).toBe(0);
    state.settled('t', [1]);
    state.forget('t');
    expect(plan(state, [1], 0, ['a'])).toEqual([['a', '1']]);
  });

  it('forgets alerts that are settled', () => {
    const state = open();
    answer(state, ['a'], { ids: [1, 2] });
    state.settled('t', [1]);
    expect(state.finished('t', ['a'], [1, 2, 3])).toEqual([2]);
  });

  it('remembers an alert that the store did not settle while a claim of others is served', () => {
    const state = open();
    answer(state, ['a'], { ids: [1] });
    expect(plan(state, [2], windowMs, ['a'])).toEqual([['a', '2']]);
    answer(state, ['a'], { ids: [2], now: windowMs });
    state.settled('t', [2]);
    state.forget('t');
    expect(plan(state, [1], 2 * windowMs, ['a'])).toEqual([]);
    expect(state.finished('t', ['a'], [1])).toEqual([1]);
  });

  it('an alert that was mailed and not settled is not mailed again, whenever it is claimed', () => {
    const state = open();
    answer(state, ['a'], { ids: [1] });
    expect(plan(state, [2], 100 * hourMs, ['a'])).toEqual([['a', '2']]);
    expect(plan(state, [1], 200 * hourMs, ['a'])).toEqual([]);
    expect(state.finished('t', ['a'], [1, 2])).toEqual([1]);
  });

  it('of too many mailed and unsettled alerts those are mailed again that were claimed longest ago', () => {
    const state = open();
    answer(state, ['a'], { ids: [1, 2, 3] });
    plan(state, [1], 10, ['a']);
    answer(state, ['a'], { ids: [4, 5] });
    expect(state.finished('t', ['a'], [1, 2, 3, 4, 5])).toEqual([1, 3, 4, 5]);
  });

  it('serves a failed key last and each of its recipients alone, the failing one last', () => {
    const state = open();
    expect(plan(state, [1], 0)).toEqual([['a,b,c', '1']]);
    fail(state, everyone);
    expect(state.inOrder(['t', 'u'])).toEqual(['u', 't']);
    expect(plan(state, [1], 0)).toEqual([
      ['a', '1'],
      ['b', '1'],
      ['c', '1'],
    ]);
    fail(state, ['a']);
    expect(plan(state, [1], 9).map(([address]) => address)).toEqual(['b', 'c']);
    expect(plan(state, [1], 10).map(([address]) => address)).toEqual(['b', 'c', 'a']);
    answer(state, ['b'], { ids: [1], now: 10 });
    expect(state.inOrder(['t', 'u'])).toEqual(['t', 'u']);
    expect(plan(state, [1], 10)).toEqual([['a,c', '1']]);
  });

  it('does not let the only recipient of a key back off when the server fails', () => {
    const state = open();
    fail(state, ['a'], ['a']);
    expect(state.nextAt('t', ['a'])).toBe(0);
  });

  it('forgets that a key failed when it is no longer due', () => {
    const state = open();
    state.failed('t');
    expect(state.inOrder(['u'])).toEqual(['u']);
    expect(state.inOrder(['t', 'u'])).toEqual(['t', 'u']);
  });
});

describe('RecipientState with a cap', () => {
  /** Sends the maximum of mails to the address between fromMs and toMs, each with another key; returns
   *  their times. */
  function sendAll(state: RecipientState, address: string, fromMs: number, toMs: number): number[] {
    const times: number[] = [];
    for (let now = fromMs; ; ) {
      const key = `key ${times.length}`;
      now = Math.max(now, state.nextAt(key, [address]));
      if (now >= toMs) return times;
      state.answered(key, [1], new Map([[address, { kind: 'accepted' }]]), [address], now);
      state.settled(key, [1]);
      state.forget(key);
      times.push(now);
    }
  }

  it('sends half of the mails at once, spreads the rest, and never exceeds the cap in any hour', () => {
    const times = sendAll(open(120), 'a', 1_000, 1_000 + 5 * hourMs);
    expect(times.filter((at) => at === 1_000)).toHaveLength(60);
    for (const from of times) {
      const inHour = times.filter((at) => at >= from && at < from + hourMs).length;
      expect(inHour).toBeLessThanOrEqual(120);
    }
    expect(times.length).toBeGreaterThanOrEqual(60 + 5 * 60 - 1);
  });

  it('caps each address by itself', () => {
    const state = open(10);
    sendAll(state, 'a', 1, 2);
    expect(state.nextAt('t', ['a'])).toBeGreaterThan(2);
    expect(state.nextAt('t', ['b'])).toBeLessThanOrEqual(2);
  });

  it('allows half of the mails at once again after an hour without one', () => {
    const state = open(10);
    sendAll(state, 'a', 1, 2);
    sendAll(state, 'b', 1 + hourMs, 2 + hourMs);
    expect(sendAll(state, 'a', 1 + hourMs, 2 + hourMs)).toHaveLength(5);
  });

  it('does not cap without a limit', () => {
    const state = open(null, 0);
    for (let n = 0; n < 1_000; n += 1) answer(state, ['a'], { ids: [n], now: 5 });
    expect(state.nextAt('t', ['a'])).toBeLessThanOrEqual(5);
  });
});
