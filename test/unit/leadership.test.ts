// Tests which notifiers call jobs with `standby`, on two clocks: that of the registry and the notifier's own.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Owner } from '../../src/core/job.ts';
import { Leadership } from '../../src/notifier/leadership.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import type { Leader, LeaderRow } from '../../src/ports/registry.ts';
import { silentLog } from '../../src/telemetry/log.ts';

const { leaderMs, leaderEveryMs, leaderAwayMs, leaderLookMs, leaderGiveUpMs } = notifierLimits;

/** The row by the rule of registry-leader.ts; `isAway`: MySQL does not answer. */
class Row implements LeaderRow {
  isAway = false;
  clockStepMs = 0;
  readonly #processes = new Map<string, number>();
  #instance = 0;
  #until = 0;

  async leader(): Promise<Leader> {
    if (this.isAway) throw new Error('away');
    return { instance: this.#instance, leftMs: this.#until - this.#now };
  }

  async lead({ instance, incarnation }: Owner, leaseMs: number): Promise<Leader> {
    const now = this.#now;
    const isFree = this.#until <= now || this.#until > now + leaseMs;
    if (!this.isAway && (isFree || this.#instance === instance)) {
      this.#processes.set(`${instance}.${incarnation}`, now + leaseMs);
      this.#instance = instance;
      this.#until = now + leaseMs;
    }
    return this.leader();
  }

  async giveUp({ instance, incarnation }: Owner): Promise<void> {
    if (this.isAway) return new Promise(() => {});
    this.#processes.delete(`${instance}.${incarnation}`);
    const isLed = [...this.#processes].some(
      ([name, until]) => name.startsWith(`${instance}.`) && until > this.#now,
    );
    if (this.#instance === instance && !isLed) this.#until = this.#now;
  }

  get #now(): number {
    return Date.now() + this.clockStepMs;
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  // The loops of a test wait for its clock: the beat of this process must not keep it.
  for (const leadership of started.splice(0)) void leadership.drain(0);
  vi.useRealTimers();
});

let made = 1;
const started: Leadership[] = [];

async function notifierOf(instance: number, row: LeaderRow | undefined) {
  const own = { isFrozen: false, texts: [] as string[] };
  const leadership = new Leadership({
    ...{ row, owner: { instance, incarnation: made++ }, log: silentLog, now: () => performance.now() },
    onChange: (_leads, text) => own.texts.push(text),
  });
  started.push(leadership);
  await leadership.start();
  return { leadership, own };
}

it('without the option every instance calls jobs', async () => {
  const { leadership } = await notifierOf(1, undefined);
  expect([leadership.leads, leadership.text]).toEqual([true, '']);
});

it('one leads; another takes over within 8 s of its last renewal', async () => {
  const row = new Row();
  const one = await notifierOf(1, row);
  await vi.advanceTimersByTimeAsync(1);
  const two = await notifierOf(2, row);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([one.leadership.leads, two.leadership.leads]).toEqual([true, false]);
  expect(two.leadership.text).toBe('standby: instance 1 leads');
  await one.leadership.drain(0);
  let elapsed = 0;
  for (; !two.leadership.leads; elapsed += 100) {
    await vi.advanceTimersByTimeAsync(100);
    // Never both.
    expect(one.leadership.leads && two.leadership.leads).toBe(false);
  }
  expect(elapsed).toBeLessThanOrEqual(leaderMs + leaderEveryMs);
  expect(two.own.texts).toEqual(['standby: instance 1 leads', 'delivers: it leads']);
});

it('a suspend of the machine ends the time, though the monotonic clock stood still', async () => {
  const { leadership } = await notifierOf(1, new Row());
  expect(leadership.leads).toBe(true);
  vi.setSystemTime(Date.now() + leaderMs);
  expect(leadership.leads).toBe(false);
  await vi.advanceTimersByTimeAsync(leaderEveryMs);
  expect(leadership.leads).toBe(true);
});

it('giving up lets another lead at its next look; without drain it would wait for the time', async () => {
  const row = new Row();
  const one = await notifierOf(1, row);
  const two = await notifierOf(2, row);
  await one.leadership.drain(0);
  await one.leadership.giveUp();
  await vi.advanceTimersByTimeAsync(leaderLookMs);
  expect(two.leadership.leads).toBe(true);
});

it('giving up waits for MySQL at most leaderGiveUpMs', async () => {
  const row = new Row();
  const { leadership } = await notifierOf(1, row);
  await leadership.drain(0);
  row.isAway = true;
  let hasEnded = false;
  void leadership.giveUp().then(() => {
    hasEnded = true;
  });
  await vi.advanceTimersByTimeAsync(leaderGiveUpMs);
  expect(hasEnded).toBe(true);
});

it('MySQL does not answer: the leader goes on for the rest of its time; after 30 s each instance delivers', async () => {
  const row = new Row();
  const [one, two] = [await notifierOf(1, row), await notifierOf(2, row)];
  await vi.advanceTimersByTimeAsync(1);
  row.isAway = true;
  await vi.advanceTimersByTimeAsync(leaderMs - leaderEveryMs);
  expect([one.leadership.leads, two.leadership.leads]).toEqual([true, false]);
  await vi.advanceTimersByTimeAsync(leaderEveryMs + 1);
  expect([one.leadership.leads, two.leadership.leads]).toEqual([false, false]);
  await vi.advanceTimersByTimeAsync(leaderAwayMs - leaderMs - leaderEveryMs);
  expect([one.leadership.leads, two.leadership.leads]).toEqual([false, false]);
  await vi.advanceTimersByTimeAsync(2 * leaderEveryMs);
  expect([one.leadership.leads, two.leadership.leads]).toEqual([true, true]);
  expect(one.leadership.text).toBe('delivers: MySQL does not answer, so every instance does');
  row.isAway = false;
  await vi.advanceTimersByTimeAsync(leaderEveryMs + 1);
  expect([one, two].filter(({ leadership }) => leadership.leads)).toHaveLength(1);
});

it.each([3_600_000, -3_600_000])(
  'a step of the clock of MySQL by %i ms ends with one leader',
  async (stepMs) => {
    const row = new Row();
    const [one, two] = [await notifierOf(1, row), await notifierOf(2, row)];
    await vi.advanceTimersByTimeAsync(1);
    row.clockStepMs = stepMs;
    await vi.advanceTimersByTimeAsync(leaderMs + leaderEveryMs);
    expect([one, two].filter(({ leadership }) => leadership.leads)).toHaveLength(1);
  },
);
