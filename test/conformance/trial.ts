// The tools of a case: an empty store, short calls to seed it, and the comparison of its whole state before
// and after one call. The storage clock stands still until the case moves it, so every time that a store
// writes is known exactly, and no case waits for one.

import { expect } from 'vitest';
import { replaceOptions, webhookOriginOf } from '../../src/core/extension.ts';
import type {
  AttemptRecord,
  DeadReason,
  JobKey,
  JobSnapshot,
  JobState,
  Lease,
  Owner,
  Priority,
  ReservedJob,
  Version,
} from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import type * as port from '../../src/ports/job-store.ts';
import type { SteppedClock } from '../support/stepped-clock.ts';
import { until } from '../support/until.ts';
import { inDumpOrder, type OpenStore, type StateDump, type StoreUnderTest } from './store-under-test.ts';

/** One fact about a store. */
export interface Case {
  readonly title: string;
  run(openStore: OpenStore): Promise<void>;
}

export function fact(title: string, check: (trial: Trial) => Promise<void>): Case {
  return {
    title,
    async run(openStore) {
      const under = await openStore();
      try {
        await check(new Trial(under));
      } finally {
        await under.close();
      }
    },
  };
}

/** Matches the numbers that `isRight` accepts. */
function numberThat(name: string, isRight: (value: number) => boolean): unknown {
  return {
    $$typeof: Symbol.for('jest.asymmetricMatcher'),
    asymmetricMatch: (value: unknown) => typeof value === 'number' && isRight(value),
    toString: () => name,
    toAsymmetricMatcher: () => name,
  };
}

/** Matches any number from low to high. */
export const within = (low: number, high: number) =>
  numberThat(`within(${low}, ${high})`, (value) => value >= low && value <= high);

/** When a job with this delay is due: 1 ms later, because the clock has lost its fraction of a ms. */
export const dueAfter = (now: number, delayMs: number): number => now + delayMs + 1;

/** Matches the wait of promote. A store that polls may ask to be called one poll earlier. */
export const waitOf = (ms: number) =>
  numberThat(`waitOf(${ms})`, (value) => value === ms || value === ms - limits.redisPollMs);

/** Changed fields, by `topic/id` and by version; null = gone. A new key is a whole new entry. */
export interface Changes {
  readonly jobs?: Readonly<Record<string, object | null>>;
  readonly alerts?: Readonly<Record<string, object | null>>;
  /** The history is compared if it is named, or no job is. */
  readonly ended?: Readonly<Record<string, object | null>>;
}

function changed(before: StateDump, changes: Changes): unknown {
  const edit = <T>(entries: readonly T[], nameOf: (entry: T) => string, edits: Changes['jobs'] = {}) => {
    const byName = new Map<string, object>(
      entries.map((entry) => [nameOf(entry), entry as unknown as object]),
    );
    for (const [name, fields] of Object.entries(edits)) {
      if (fields === null) byName.delete(name);
      else byName.set(name, { ...byName.get(name), ...fields });
    }
    return [...byName.values()] as T[];
  };
  return inDumpOrder(
    edit(before.jobs, (job) => `${job.topic}/${job.id}`, changes.jobs),
    edit(before.alerts, (alert) => String(alert.version), changes.alerts),
    edit(before.ended, (job) => `${job.topic}/${job.id}`, changes.ended),
  );
}

export interface Pushed {
  readonly topic?: string;
  readonly when?: port.When;
  readonly mode?: port.PushMode;
  readonly priority?: Priority;
  readonly contentType?: string | null;
  readonly body?: Buffer;
  readonly extension?: Buffer | null;
  readonly windowMs?: number;
}

export function jobOf(id: string, pushed: Pushed = {}): port.PushJob {
  return {
    topic: 't',
    id,
    when: { delayMs: 0 },
    mode: 'replace',
    priority: 'normal',
    contentType: 'text/plain',
    body: Buffer.from(`body of ${id}`),
    ...pushed,
  };
}

export const newContent = {
  priority: 'low',
  contentType: 'application/json',
  body: Buffer.from('{"new":1}'),
} as const;

/** The edit of a caller that has read the job, and keeps its webhook-id. */
export const editOf = (job: JobSnapshot, over: Partial<port.EditItem> = {}): port.EditItem => ({
  ...key(job),
  ...newContent,
  version: job.version,
  acceptedAt: job.acceptedAt,
  extension: replaceOptions(job.extension, { webhookOrigin: webhookOriginOf(job) }),
  when: null,
  requeue: false,
  ...over,
});

export const owner: Owner = { instance: 3_000_000_007, incarnation: 1 };
export const longLeaseMs = 60_000;
export const farOffMs = 3_600_000;

/** Capacity for all topics, or only for the named ones. */
export function request(
  max: number,
  rooms: Readonly<Record<string, number | port.TopicCapacity>> | null = null,
  holder: Owner = owner,
  leaseMs = longLeaseMs,
): port.ReserveRequest {
  return {
    owner: holder,
    max,
    others: { room: rooms === null ? 250 : 0, leaseMs },
    topics: new Map(
      Object.entries(rooms ?? {}).map(([topic, room]) => [
        topic,
        typeof room === 'number' ? { room, leaseMs } : room,
      ]),
    ),
  };
}

export function attemptOf(
  job: { readonly failures: number },
  over: Partial<AttemptRecord> = {},
): AttemptRecord {
  return {
    ...{ attempt: job.failures + 1, startedAt: 1_900_000_000_000, durationMs: 12, outcome: 'failed' },
    ...{ reason: 'status', status: 503, replyExcerpt: 'busy \\u0000 “später”', notifier: 'dq-notifier-0' },
    host: 'vm-1',
    ...over,
  };
}

export const leaseOf = ({ topic, id, version, token, isPulled }: port.ShownLease): port.ShownLease => ({
  ...{ topic, id, version, token },
  ...(isPulled === undefined ? {} : { isPulled }),
});
const key = (job: JobKey): JobKey => ({ topic: job.topic, id: job.id });

export class Trial {
  readonly under: StoreUnderTest;
  readonly jobs: port.JobStore;
  readonly dead: port.DeadLetters;
  readonly alerts: port.AlertOutbox;
  readonly history: port.History;
  readonly admin: port.StoreAdmin;
  readonly surveys: port.Surveys;
  readonly partition: port.Partition;

  constructor(under: StoreUnderTest) {
    this.under = under;
    this.jobs = under.store.jobs;
    this.dead = under.store.dead;
    this.alerts = under.store.alerts;
    this.history = under.store.history;
    this.admin = under.store.admin;
    this.surveys = under.store.surveys;
    this.partition = this.jobs.partitions()[0] as port.Partition;
  }

  /** The storage clock. Throws for a store with a real one. */
  get clock(): SteppedClock {
    const { clock } = this.under;
    if (clock === undefined) throw new Error('the store is on a real clock');
    return clock;
  }

  get now(): number {
    return this.clock.now;
  }

  // One item at a time

  async push(id: string, pushed: Pushed = {}): Promise<Extract<port.PushOutcome, { kind: 'stored' }>> {
    const outcome = await this.tryPush(id, pushed);
    if (outcome.kind !== 'stored') throw new Error(`push of ${id}: ${JSON.stringify(outcome)}`);
    return outcome;
  }

  async tryPush(id: string, pushed: Pushed = {}): Promise<port.PushOutcome> {
    return only(await this.jobs.push([jobOf(id, pushed)]));
  }

  async cancel(job: JobKey): Promise<port.CancelOutcome> {
    return only(await this.jobs.cancel([key(job)]));
  }

  async ack(job: ReservedJob): Promise<port.FinishOutcome<'acked'>> {
    const attempt = attemptOf(job, { outcome: 'delivered', reason: null, status: 200 });
    return only(await this.jobs.ack([{ ...leaseOf(job), attempt }]));
  }

  async retry(
    job: ReservedJob,
    delayMs: number,
    attempt: AttemptRecord | null = attemptOf(job),
    extension?: Buffer,
  ): Promise<port.FinishOutcome<'retried'>> {
    return only(await this.jobs.retry([{ ...leaseOf(job), delayMs, attempt, extension }]));
  }

  async bury(
    job: ReservedJob,
    reason: DeadReason = 'attempts_exhausted',
  ): Promise<port.FinishOutcome<'buried'>> {
    return only(await this.jobs.bury([{ ...leaseOf(job), reason, attempt: attemptOf(job) }]));
  }

  async release(job: Lease): Promise<port.FinishOutcome<'released'>> {
    return only(await this.jobs.release([leaseOf(job)]));
  }

  promote(max = 500): Promise<port.Promoted> {
    return this.jobs.promote(this.partition, max);
  }

  async reserve(asked: port.ReserveRequest): Promise<readonly ReservedJob[]> {
    return (await this.jobs.reserve(this.partition, asked)).jobs;
  }

  recover(max = 500): Promise<port.Recovered> {
    return this.jobs.recover(this.partition, max);
  }

  /** Runs one call while the clock of this process is `days` off the storage clock. A store reads its own. */
  async withWrongClock<T>(days: number, call: () => Promise<T>): Promise<T> {
    const right = Date.now;
    Date.now = () => this.now + days * 86_400_000;
    try {
      return await call();
    } finally {
      Date.now = right;
    }
  }

  // Seeds

  /** Reserves the only ready job of the topic. */
  async lease(topic = 't', holder: Owner = owner, leaseMs = longLeaseMs): Promise<ReservedJob> {
    return only(await this.reserve(request(1, { [topic]: 1 }, holder, leaseMs)));
  }

  /** Reserved again, after a failed attempt, one that buried it, and a requeue. */
  async requeued(id: string) {
    const first = await this.reserved(id);
    await this.retry(first, 0);
    const second = await this.lease();
    await this.bury(second);
    await this.jobs.requeue([{ topic: 't', id }]);
    return { first, second, again: await this.lease() };
  }

  async reserved(
    id: string,
    pushed: Pushed = {},
    holder = owner,
    leaseMs = longLeaseMs,
  ): Promise<ReservedJob> {
    await this.push(id, pushed);
    const job = await this.lease(pushed.topic, holder, leaseMs);
    if (job.id !== id) throw new Error(`seed ${id} alone in its topic: ${job.id} was reserved`);
    return job;
  }

  async buried(id: string, pushed: Pushed = {}, reason?: DeadReason): Promise<ReservedJob> {
    const job = await this.reserved(id, pushed);
    expect(await this.bury(job, reason)).toMatchObject({ kind: 'buried' });
    return job;
  }

  /** Makes a job in this state; returns its lease if it has or had one. */
  async seed(state: JobState, id = '1', pushed: Pushed = {}): Promise<ReservedJob | null> {
    if (state === 'reserved') return this.reserved(id, pushed);
    if (state === 'dead') return this.buried(id, pushed);
    await this.push(id, { ...pushed, when: { delayMs: state === 'delayed' ? farOffMs : 0 } });
    return null;
  }

  /** Makes one job per state, in other topics but with the usual id: no call on `t` may affect them. */
  async bystanders(): Promise<void> {
    for (const state of ['delayed', 'ready', 'reserved', 'dead'] as const)
      await this.seed(state, '1', { topic: `by.${state}` });
  }

  /** Returns the lease after it expired and was recovered: its job is ready again. */
  async lostLease(id: string, pushed: Pushed = {}): Promise<ReservedJob> {
    const job = await this.reserved(id, pushed, owner, 30);
    await this.clock.skip(30);
    expect(await this.recover()).toMatchObject({ returned: 1 });
    return job;
  }

  /** Moves the storage clock on by 1 ms. */
  tick(): Promise<void> {
    return this.clock.skip(1);
  }

  /** Moves the storage clock to that moment. */
  async reach(moment: number): Promise<void> {
    if (!(moment >= this.now)) throw new Error(`${moment} is before ${this.now}`);
    await this.clock.skip(moment - this.now);
  }

  /** Moves the storage clock to the last moment before that one, makes the call, and moves it on. */
  async justBefore<T>(moment: number, call: () => Promise<T>): Promise<T> {
    await this.reach(moment - 1);
    const result = await call();
    await this.reach(moment);
    return result;
  }

  /** Pushes jobs in one call and moves the clock until all are due. `dueMs` counts from a later instant. */
  async pushDue(
    pushed: readonly (Pushed & { readonly id: string; readonly dueMs: number })[],
  ): Promise<void> {
    const instant = this.now + 1_000;
    const jobs = pushed.map(({ id, dueMs, ...more }) =>
      jobOf(id, { ...more, when: { at: instant + dueMs } }),
    );
    for (const outcome of await this.jobs.push(jobs))
      expect(outcome).toMatchObject({ kind: 'stored', state: 'delayed' });
    await this.reach(instant + Math.max(...pushed.map(({ dueMs }) => dueMs)));
  }

  // Comparing

  /** Reads a job that must exist. */
  async known(id: string, topic = 't'): Promise<JobSnapshot> {
    const job = await this.jobs.get({ topic, id });
    if (job === null) throw new Error(`${topic}/${id} is gone`);
    return job;
  }

  dump(): Promise<StateDump> {
    return this.under.dump();
  }

  /** Runs one call and compares the whole state with the state before plus the named changes. */
  async changes<T>(call: () => Promise<T>, expected: (result: T, now: number) => Changes): Promise<T> {
    const before = await this.dump();
    const result = await call();
    const changes = expected(result, this.now);
    const after = await this.dump();
    const anyHistory = changes.jobs !== undefined && changes.ended === undefined;
    expect(anyHistory ? { ...after, ended: before.ended } : after).toEqual(changed(before, changes));
    return result;
  }

  unchanged<T>(call: () => Promise<T>): Promise<T> {
    return this.changes(call, () => ({}));
  }

  /** All four finishing writes of a lost lease: each returns lease_lost and changes nothing. */
  async lost(job: ReservedJob): Promise<void> {
    const lost = { kind: 'lease_lost' };
    expect(await this.unchanged(() => this.ack(job))).toEqual(lost);
    expect(await this.unchanged(() => this.retry(job, 0))).toEqual(lost);
    expect(await this.unchanged(() => this.bury(job))).toEqual(lost);
    expect(await this.unchanged(() => this.release(job))).toEqual(lost);
  }
}

/** Runs an examination to its end. */
export async function examined(
  { admin }: Pick<port.Store, 'admin'>,
  how?: 'relinks',
): Promise<port.Examination> {
  expect(await admin.startFsck(how)).toBe('started');
  const work = await until('it to be examined', async () => {
    const state = await admin.fsck();
    return state.kind === 'running' ? null : state;
  });
  if (work.kind !== 'done') throw new Error(JSON.stringify(work));
  return work.result;
}

export function only<T>(items: readonly T[]): T {
  expect(items).toHaveLength(1);
  return items[0] as T;
}

export const idsOf = (jobs: readonly JobKey[]): string[] => jobs.map((job) => job.id);

/** The fields of a job as a push stored it. */
export function storedAs(
  pushed: port.PushJob,
  outcome: { version: Version; dueAt: number },
  now: number,
): object {
  const { topic, id, priority, contentType, body } = pushed;
  return {
    ...{ topic, id, version: outcome.version, origin: outcome.version, state: 'ready', dueAt: outcome.dueAt },
    ...{ acceptedAt: now, failures: 0, strikes: 0, priority, lease: null, contentType, body, attempts: [] },
    ...{ deadAt: null, deadReason: null },
  };
}
