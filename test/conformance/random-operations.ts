// Runs random operations on the model and a store, whose answers must be equal in every field. Both read one
// clock that only this file moves, so due times, lease ends, versions and tokens are equal too. Every choice
// comes from one seed; a failure names the seed and the last operations.

import { expect } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { extensionOf, replaceOptions, webhookOriginOf, withAgain } from '../../src/core/extension.ts';
import type { JobKey, Lease, Owner, Priority, ReservedJob, Token, VersionedKey } from '../../src/core/job.ts';
import { endStates, jobStates, priorities, pullOwner } from '../../src/core/job.ts';
import type * as port from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { numbers } from '../support/producing.ts';
import type { SteppedClock } from '../support/stepped-clock.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { attemptOf, leaseOf } from './trial.ts';

const topics = ['a', 'b', 'c', 'a.b'];
/** Ids of the shape that dq generates are some of them: a store may expect those to be new. */
const ids = [
  '\u00e9😀',
  ...numbers(3).map((n) => `01989f6e-5d3a-7c0${n}-8000-0123456789ab`),
  ...numbers(8).map((n) => `job ${n}`),
];
const owners: readonly Owner[] = [
  ...[1, 2].flatMap((instance) =>
    [1, 2, 3].map((incarnation) => ({ instance: instance * 2_000_000_000, incarnation })),
  ),
  pullOwner,
  pullOwner,
];

interface Operation {
  readonly what: string;
  readonly given: unknown;
  readonly call: (store: port.Store) => Promise<unknown>;
  /** Several calls, or a read: the port does not define whether a read sees writes of the same moment. */
  readonly alone?: boolean;
  /** May take several steps; a concurrent operation may run between two of them. */
  readonly isBulk?: boolean;
  /** The part of the answer that concurrent operations cannot change. */
  readonly part?: (answer: unknown) => unknown;
}

type Held = Pick<ReservedJob, keyof Lease | 'failures'> & {
  /** null: unknown */
  readonly extension?: Buffer | null;
};

export class RandomOperations extends Dice {
  /** the last leases, most of them lost by now */
  readonly #leases: Held[] = [];
  /** the last leases that make their jobs poison */
  readonly #poisoned: Lease[] = [];
  readonly #versions: number[] = [];
  readonly #now: () => number;

  constructor(seed: number, now: () => number) {
    super(seed);
    this.#now = now;
  }

  some<T>(make: () => T, most = 3): T[] {
    return Array.from({ length: 1 + this.below(most) }, make);
  }

  /** Remembers jobs and leases for later operations. */
  learn(answer: unknown): void {
    for (const lease of (answer as { jobs?: Held[] } | null)?.jobs ?? []) this.#leases.push(lease);
    const { pulled = [], poisoned = [] } = Object(answer) as Partial<port.Recovered>;
    this.#poisoned.push(...poisoned);
    for (const { lease, failures } of pulled) this.#leases.push({ ...lease, failures, extension: null });
    for (const { version } of Array.isArray(answer) ? (answer as { version?: number }[]) : [])
      if (version !== undefined) this.#versions.push(version);
    this.#leases.splice(0, this.#leases.length - 24);
    this.#poisoned.splice(0, this.#poisoned.length - 4);
    this.#versions.splice(0, this.#versions.length - 40);
  }

  draw(): Operation {
    const weighed: readonly (readonly [number, () => Operation])[] = [
      [22, () => this.#push()],
      [5, () => this.#cancel()],
      [3, () => this.#get()],
      [6, () => this.#verb()],
      [3, () => this.#edit()],
      [10, () => this.#promote()],
      [16, () => this.#reserve()],
      [24, () => this.#finish()],
      [4, () => this.#extend()],
      ...(this.#poisoned.length > 0 ? [[3, () => this.#buryPoison()] as const] : []),
      [4, () => this.#recover()],
      [2, () => this.#recoverOwners()],
      [2, () => this.#releaseUnheld()],
      [6, () => this.#dead()],
      [10, () => this.#alerts()],
      [2, () => this.#admin()],
      [3, () => this.#search()],
      [4, () => this.#history()],
    ];
    let ticket = this.below(weighed.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, make] of weighed) {
      if (ticket < weight) return make();
      ticket -= weight;
    }
    throw new Error('the weights do not add up');
  }

  #key = (): JobKey => ({ topic: this.pick(topics), id: this.pick(ids) });

  /** Some name a version, often the one of a job; few of those are of this id. */
  #versionedKey = (): VersionedKey => ({
    ...this.#key(),
    ...(this.chance(0.2) ? { version: this.#versions.length === 0 ? 1 : this.pick(this.#versions) } : {}),
  });

  #when(): port.When {
    const kind = this.below(10);
    if (kind < 4) return { delayMs: 0 };
    if (kind < 5) return { at: this.#now() - this.below(10_000) };
    // Some at the same moment as other jobs of their topic.
    if (kind < 7) return { at: Math.ceil(this.#now() / 100) * 100 + this.below(2) };
    return { delayMs: this.below(kind < 9 ? 100 : 100_000) };
  }

  #content() {
    return {
      priority: this.pick<Priority>(priorities),
      contentType: this.pick([null, 'text/plain']),
      // Sometimes a large one, which a store may keep apart.
      body: this.chance(0.15)
        ? Buffer.alloc(1_100, this.below(256))
        : Buffer.from(Array.from({ length: this.below(6) }, () => this.below(256))),
      extension: this.chance(0.3) ? extensionOf({ leaseMs: 1 + this.below(400) }) : null,
    };
  }

  #push(): Operation {
    const jobs = this.some(() => ({
      ...this.#key(),
      when: this.#when(),
      mode: this.pick(['replace', 'replace', 'keep', 'reject'] as const),
      ...this.#content(),
      ...(this.chance(0.1) ? { acceptedAt: this.#now() - 500 + this.below(1_000) } : {}),
      ...(this.chance(0.1) ? { failures: this.below(4) } : {}),
      ...(this.chance(0.3) ? { windowMs: this.pick([1, 100, 2_000]) } : {}),
    }));
    return { what: 'push', given: jobs, call: (store) => store.jobs.push(jobs) };
  }

  #cancel(): Operation {
    const keys = this.some(this.#versionedKey, 2);
    const as = this.pick(['done', undefined] as const);
    return { what: 'cancel', given: [keys, as], call: (store) => store.jobs.cancel(keys, as) };
  }

  #verb(): Operation {
    const items = this.some(() => ({ ...this.#versionedKey(), when: this.#when() }), 4);
    const verb = this.pick(['run', 'reschedule', 'reschedule', 'requeue'] as const);
    return { what: verb, given: items, call: (store) => store.jobs[verb](items) };
  }

  /** Of the version that a read finds; now and then of another one. */
  #edit(): Operation {
    const key = this.#key();
    const off = this.chance(0.1) ? 1 : 0;
    const given = {
      ...this.#content(),
      when: this.chance(0.5) ? this.#when() : null,
      requeue: this.chance(0.3),
    };
    const call = async ({ jobs }: port.Store) => {
      const job = await jobs.get(key);
      const extension = replaceOptions(given.extension, {
        webhookOrigin: job === null ? undefined : webhookOriginOf(job),
      });
      const { version, acceptedAt } = job ?? { version: 1, acceptedAt: 0 };
      return jobs.edit([{ ...key, ...given, extension, version: version + off, acceptedAt }]);
    };
    return { what: 'edit', given: [key, given], alone: true, call };
  }

  #get(): Operation {
    const key = this.#key();
    return { what: 'get', given: key, alone: true, call: (store) => store.jobs.get(key) };
  }

  #promote(): Operation {
    const max = 1 + this.below(8);
    // waitMs may already count a concurrent push.
    const part = (answer: unknown) => (answer as port.Promoted).moved;
    return { what: 'promote', given: max, part, call: (store) => store.jobs.promote(0, max) };
  }

  #reserve(): Operation {
    const room = () => ({ room: this.below(5), leaseMs: 20 + this.below(300) });
    const request: port.ReserveRequest = {
      owner: this.pick(owners),
      max: 1 + this.below(8),
      others: room(),
      topics: new Map(topics.filter(() => this.chance(0.3)).map((topic) => [topic, room()])),
    };
    const given = { ...request, topics: Object.fromEntries(request.topics) };
    return { what: 'reserve', given, call: (store) => store.jobs.reserve(0, request) };
  }

  /** A lease, usually one that a reserve returned. */
  #lease(): Held {
    const known = this.#leases.length > 0 && this.chance(0.95);
    const lease = known ? this.pick(this.#leases) : { ...this.#key(), version: 1, token: 2, failures: 0 };
    const off = () => (this.chance(0.03) ? 1 : 0);
    return { ...lease, version: lease.version + off(), token: lease.token + off() };
  }

  #extend(): Operation {
    const items = this.some(() => ({ ...leaseOf(this.#lease()), leaseMs: this.below(500) }));
    return { what: 'extend', given: items, call: (store) => store.jobs.extend(items) };
  }

  #finish(): Operation {
    const verb = this.pick(['ack', 'retry', 'retry', 'bury', 'bury', 'release'] as const);
    const end = verb === 'ack' ? ({ outcome: 'delivered', reason: null, status: 200 } as const) : {};
    const items = this.some(() => {
      const lease = this.#lease();
      return {
        ...leaseOf(lease),
        ...(verb !== 'ack' && this.chance(0.2) ? { ifExpired: true } : {}),
        attempt: verb !== 'ack' && this.chance(0.2) ? null : attemptOf(lease, end),
        // The other options of the job stay, as with its notifier.
        ...(verb === 'retry' && lease.extension !== null && this.chance(0.2)
          ? { extension: withAgain(lease.extension, this.below(9_000)) }
          : {}),
        delayMs: this.pick([0, this.below(200), this.below(5_000)]),
        reason: this.pick(['attempts_exhausted', 'gone', 'no_retry'] as const),
      };
    });
    return { what: verb, given: items, call: (store) => store.jobs[verb](items) };
  }

  #buryPoison(): Operation {
    const items = this.some(
      () => ({ ...this.pick(this.#poisoned), reason: 'poison', attempt: null }) as const,
    );
    return { what: 'bury', given: items, call: (store) => store.jobs.bury(items) };
  }

  #recover(): Operation {
    const max = this.pick([1, 3, 500]);
    return { what: 'recover', given: max, call: (store) => store.jobs.recover(0, max) };
  }

  #recoverOwners(): Operation {
    const { instance, incarnation } = this.pick(owners);
    const which = this.chance(0.5)
      ? { dead: incarnation }
      : { living: [1, 2, 3].filter(() => this.chance(0.6)) };
    const max = this.pick([1, 500]);
    return {
      what: 'recoverOwners',
      given: [instance, which, max],
      call: (store) => store.jobs.recoverOwners(0, instance, which, max),
    };
  }

  #releaseUnheld(): Operation {
    const owner = this.pick(owners);
    const held: Token[] = this.#leases.filter(() => this.chance(0.7)).map((lease) => lease.token);
    return {
      what: 'releaseUnheld',
      given: [owner, held],
      call: (store) => store.jobs.releaseUnheld(0, owner, held, Number.MAX_SAFE_INTEGER),
    };
  }

  #filter(): port.DeadFilter {
    const from = this.#now() - this.below(3_000);
    const topic = this.pick(topics);
    const kind = this.below(5);
    if (kind === 0) return {};
    if (kind === 1) return { topic };
    if (kind === 2) return { since: from, until: from + this.below(2_000) };
    if (kind === 3) return { topic, until: from };
    return { topic, ids: this.some(() => this.pick(ids), 4) };
  }

  #dead(): Operation {
    const filter = this.#filter();
    const max = 1 + this.below(3);
    const verb = this.pick(['list', 'list', 'requeue', 'purge'] as const);
    const given = [filter, max];
    if (verb !== 'list')
      return {
        what: `dead ${verb}`,
        isBulk: true,
        given,
        call: (store) => store.dead[verb](filter, max),
      };
    return {
      what: 'dead list',
      alone: true,
      given,
      call: (store) => pages((cursor) => store.dead.list(filter, max, cursor)),
    };
  }

  #alerts(): Operation {
    const verb = this.pick(['claim', 'claim', 'claim', 'settle', 'settle', 'settle', 'due', 'list'] as const);
    const max = 1 + this.below(12);
    if (verb === 'claim') {
      const topic = this.pick(topics);
      const claimMs = 20 + this.below(400);
      return {
        what: 'claim',
        given: [topic, claimMs, max],
        call: (store) => store.alerts.claim(topic, claimMs, max),
      };
    }
    if (verb === 'due') {
      const windowMs = this.pick([0, 200, 2_000]);
      return { what: 'due', given: windowMs, alone: true, call: (store) => store.alerts.due(windowMs) };
    }
    if (verb === 'list')
      return {
        what: 'alerts',
        alone: true,
        given: max,
        call: (store) => pages((cursor) => store.alerts.list(max, cursor)),
      };
    const versions = this.#versions.filter(() => this.chance(0.4));
    const as = this.pick(['sent', 'sent', 'nobody', 'owed'] as const);
    return { what: 'settle', given: [versions, as], call: (store) => store.alerts.settle(versions, as) };
  }

  #history(): Operation {
    const age = this.below(8_000);
    const max = 1 + this.below(3);
    const verb = this.pick(['get', 'get', 'forget', 'expire', 'expire'] as const);
    if (verb === 'expire')
      return { what: 'expire', given: [age, max], call: (store) => store.dead.expire(age, max) };
    if (verb === 'forget')
      return { what: 'forget', given: [age, max], call: (store) => store.history.forget(age, max) };
    const key = this.#key();
    return { what: 'get ended', given: key, alone: true, call: (store) => store.history.get(key) };
  }

  #search(): Operation {
    const maybe = <T>(make: () => T): T | undefined => (this.chance(0.3) ? make() : undefined);
    const given = {
      topic: maybe(() => this.pick(topics)),
      state: maybe(() => this.pick([...jobStates, ...endStates])),
      id: maybe(() => this.pick(ids)),
      since: maybe(() => this.#now() - this.below(3_000)),
      until: maybe(() => this.#now() + this.below(3_000)),
    };
    const filter = Object.fromEntries(
      Object.entries(given).filter(([, value]) => value !== undefined),
    ) as port.SearchFilter;
    const limit = 1 + this.below(12);
    const call = (store: port.Store) => pages((cursor) => store.jobs.search(filter, limit, cursor));
    return { what: 'search', given: [filter, limit], alone: true, call };
  }

  #admin(): Operation {
    if (this.chance(0.7)) {
      const held = topics.filter(() => this.chance(0.2));
      const pulled = topics.filter(() => this.chance(0.2));
      if (this.chance(0.3)) {
        const call = (store: port.Store) => judgedCounts(store, () => store.admin.countsOf(held));
        return { what: 'countsOf', given: held, alone: true, call };
      }
      const call = (store: port.Store) =>
        judgedCounts(store, () => store.admin.counts(held, pulled), held, pulled);
      return { what: 'counts', given: [held, pulled], alone: true, call };
    }
    const topic = this.pick(topics);
    return {
      what: 'purgeTopic',
      isBulk: true,
      given: topic,
      call: (store) => store.admin.purgeTopic(topic, 500),
    };
  }
}

/** Of jobs that were due at once, a store may name any. */
async function judgedCounts(
  store: port.Store,
  ask: () => Promise<port.Counts>,
  held: readonly string[] = [],
  pulled: readonly string[] = [],
) {
  const { oldest, ...counts } = await ask();
  const isRight = await Promise.all(
    oldest.map(async ({ topic, id, dueAt }) => {
      const job = await store.jobs.get({ topic, id });
      const isDelayed = job?.state === 'delayed';
      const isJudged = !held.includes(topic) && (isDelayed || !pulled.includes(topic));
      return isJudged && (isDelayed || job?.state === 'ready') && job.dueAt === dueAt;
    }),
  );
  const dueOf = Object.fromEntries(oldest.map(({ topic, dueAt }) => [topic, dueAt]));
  return { ...counts, dueOf, dueTimes: oldest.map(({ dueAt }) => dueAt), isRight };
}

/** All pages: cursors are opaque, their pages are not. */
async function pages<T>(page: (cursor: string | null) => Promise<port.Page<T>>): Promise<readonly T[][]> {
  const all: T[][] = [];
  let cursor: string | null = null;
  do {
    const next: port.Page<T> = await page(cursor);
    all.push([...next.items]);
    cursor = next.nextCursor;
  } while (cursor !== null);
  return all;
}

/** Loses calls and replies on the way to the tested store. */
export interface Losses {
  /** share of lost calls among operations of one call: 0 … 1 */
  readonly share: number;
  /** The next call is lost, or runs and its reply is lost. */
  lose(what: 'call' | 'answer'): void;
  /** Resolves when calls arrive again; false: nothing was lost. */
  mended(): Promise<boolean>;
}

/** A model and a store with the same past; `tested` may be another object on the same data in each run. */
export class SideBySide {
  /** Count of each kind of operation and outcome. */
  readonly seen: Record<string, number> = {};
  readonly #seed: number;
  readonly #clock: SteppedClock;
  readonly #model: StoreUnderTest;
  readonly #source: RandomOperations;
  readonly #trace: string[] = [];
  readonly #losses: Losses | null;

  /** `clock`: of the model and of the tested store */
  constructor(seed: number, clock: SteppedClock, model: StoreUnderTest, losses: Losses | null = null) {
    this.#losses = losses;
    this.#seed = seed;
    this.#clock = clock;
    this.#model = model;
    this.#source = new RandomOperations(seed, () => clock.now);
  }

  /** Some operations are concurrent; the whole state is compared after every 50. */
  async run(operations: number, tested: StoreUnderTest): Promise<void> {
    let dumpedAt = 0;
    for (let done = 0; done < operations; ) {
      if (this.#source.chance(0.5)) await this.#clock.skip(this.#source.below(120));
      const drawn = this.#source.some(() => this.#source.draw(), this.#source.chance(0.3) ? 6 : 1);
      const together = drawn.some((operation) => operation.alone || operation.isBulk)
        ? drawn.slice(0, 1)
        : drawn;
      const [first] = together;
      const isOneCall = together.length === 1 && first !== undefined && first.alone !== true;
      if (this.#losses !== null && isOneCall && this.#source.chance(this.#losses.share))
        await this.#losing(this.#losses, first, tested);
      else await this.#both(together, tested);
      done += together.length;
      if (done - dumpedAt < 50 && done < operations) continue;
      dumpedAt = done;
      await this.compareStates(tested);
    }
  }

  /** Reserves until nothing is ready: a reopened store may start its turns again. */
  async emptyReady(tested: StoreUnderTest): Promise<void> {
    const everything = { room: 250, leaseMs: 10_000 };
    const request = { owner: owners[0] as Owner, max: 250, others: everything, topics: new Map() };
    const call = (store: port.Store) => store.jobs.reserve(0, request);
    const isReady = async () =>
      Object.values((await this.#model.store.admin.counts()).topics).some(({ ready }) => ready > 0);
    for (let left = true; left; left = await isReady())
      await this.#both([{ what: 'reserve', given: request, call }], tested);
  }

  async compareStates(tested: StoreUnderTest): Promise<void> {
    expect(await tested.dump(), this.#failureText()).toEqual(await this.#model.dump());
  }

  async #both(together: readonly Operation[], tested: StoreUnderTest): Promise<void> {
    const answers = await Promise.all(together.map((operation) => operation.call(tested.store)));
    for (const [n, { what, given, call, part }] of together.entries()) {
      this.#trace.push(`at ${this.#clock.now}${n > 0 ? ' with it' : ''}: ${what} ${JSON.stringify(given)}`);
      const right = await call(this.#model.store);
      const compared = (answer: unknown) =>
        together.length > 1 && part !== undefined ? part(answer) : answer;
      expect(compared(answers[n]), this.#failureText()).toEqual(compared(right));
      this.#source.learn(right);
      this.#count(what, right);
    }
  }

  /** A lost call must be unknown. It has run completely or not at all, and may be repeated. */
  async #losing(losses: Losses, operation: Operation, tested: StoreUnderTest): Promise<void> {
    const { what, given, call } = operation;
    const lost = this.#source.pick(['call', 'answer'] as const);
    this.#trace.push(`at ${this.#clock.now}, ${lost} lost: ${what} ${JSON.stringify(given)}`);
    losses.lose(lost);
    const answer = await call(tested.store).catch((error: unknown) => error);
    const wasLost = await losses.mended();
    if (wasLost) expect(claims(answer), this.#failureText()).toEqual([]);
    if (!wasLost || lost === 'answer') {
      const right = await call(this.#model.store);
      if (!wasLost) expect(answer, this.#failureText()).toEqual(right);
      this.#source.learn(right);
      this.#count(what, right);
    }
    this.#count(wasLost ? `${lost} lost` : 'nothing lost', null);
    if (this.#source.chance(0.5)) await this.#both([operation], tested);
  }

  #count(what: string, answer: unknown): void {
    const kinds = Array.isArray(answer) ? answer.map((item: { kind?: string }) => item.kind) : [];
    const poisoned = (answer as { poisoned?: unknown[] } | null)?.poisoned ?? [];
    const pulled = (answer as Partial<port.Recovered> | null)?.pulled ?? [];
    kinds.push(...pulled.map(() => 'pulled'));
    const { state, forgotten = 0, expired = 0 } = Object(answer) as Partial<Record<string, number>>;
    if (what === 'get ended' && state !== undefined) kinds.push(`ended: ${state}`);
    if (forgotten > 0) kinds.push('forgotten');
    if (expired > 0) kinds.push('expired');
    for (const kind of [what, ...kinds, ...poisoned.map(() => 'poisoned')])
      if (kind !== undefined) this.seen[kind] = (this.seen[kind] ?? 0) + 1;
  }

  #failureText(): string {
    return `seed ${this.#seed}; the last operations:\n${this.#trace.slice(-12).join('\n')}`;
  }
}

/** Outcomes other than `unknown`. */
function claims(answer: unknown): readonly unknown[] {
  if (answer instanceof StoreError) return answer.failure.kind === 'unknown' ? [] : [answer.failure];
  const items = Array.isArray(answer) ? (answer as { kind?: string }[]) : [answer as { kind?: string }];
  return items.filter(({ kind }) => kind !== 'unknown');
}
