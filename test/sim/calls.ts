// What the receivers of a world saw, and the rules on it.

import { limits } from '../../src/core/limits.ts';
import type { Deadlines } from './deadlines.ts';
import type { Judge } from './judge.ts';
import type { Lead } from './lead.ts';
import type { CallRecord, LeaseRecord } from './ledger.ts';
import { keyOf, tagOf } from './ledger.ts';
import type { Ledgers } from './ledgers.ts';
import type { Loop } from './loop.ts';
import type { Occasions } from './occasions.ts';
import type { Process } from './process.ts';
import type { TopicTable } from './topics.ts';

export interface Request {
  readonly process: Process;
  readonly topic: string;
  readonly id: string;
  readonly body: Buffer;
  /** as its header says */
  readonly attempt: number;
}

export interface CallsOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly deadlines: Deadlines;
  readonly ledger: Ledgers;
  readonly topics: TopicTable;
  readonly occasions: Occasions;
  /** The notifiers of an instance share each topic: there is one generation of them. */
  readonly isOneGeneration: boolean;
  /** as in Scene */
  readonly isOrderly: boolean;
  readonly lead: Lead | null;
  /** of a notifier */
  readonly slots: number;
}

/** Calls of a topic with a rate that are compared with each other. */
const startsCompared = 10;
/** A lease that ended so may still be called: its job is gone, and its notifier does not know it yet. */
const harmlessEnds = ['cancelled', 'replaced', 'acked', 'purged'];

export class Calls {
  readonly #options: CallsOptions;
  readonly #running = new Set<CallRecord>();
  /** by process and topic: virtual ms of the last starts, oldest first */
  readonly #starts = new WeakMap<Process, Map<string, number[]>>();
  /** the last call by job, version and attempt */
  readonly #called = new Map<string, CallRecord>();
  count = 0;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Returns null for a request without a lease. */
  begin(request: Request): CallRecord | null {
    const { loop, judge, ledger, topics } = this.#options;
    const { process, attempt } = request;
    const key = keyOf(request);
    this.count += 1;
    const lease = this.#leaseOf(request);
    loop.tell(`${process.title} calls ${key}, attempt ${attempt}.`);
    if (lease === null) {
      judge.fail('6 a call needs a lease', `${key} by ${process.title}`);
      return null;
    }
    const { ended } = lease;
    const name = `${key}, version ${lease.version}, attempt ${attempt}`;
    judge.check(!process.isOnTrial, 'a notifier on trial calls nothing', () => `${process.title}: ${key}`);
    // A reply that slows its topic down, and a snooze, use no attempt up: the next call has its number.
    const before = this.#called.get(name);
    const mayRepeat = before === undefined || before.status === 429 || before.asked?.verdict === 'again';
    judge.check(mayRepeat || !this.#options.isOrderly, 'a reload doubles no call', () => name);
    judge.check(
      ended === null || harmlessEnds.includes(ended) || lease.unseenMs > 0,
      '6 a call starts under its lease',
      () => `${key}, token ${lease.token}: the lease ended before: ${ended}`,
    );
    const leftMs = lease.at + lease.ms - loop.at;
    judge.check(
      leftMs >= lease.timeoutMs,
      '6 a lease outlives its attempt',
      () => `${key}: ${leftMs} ms are left for ${lease.timeoutMs}`,
    );
    judge.check(
      attempt === lease.failures + 1,
      '7 only outcomes count as attempts',
      () => `${key}: attempt ${attempt} after ${lease.failures} failures`,
    );
    this.#options.deadlines.attempted(lease, ledger.steppedAt);
    const entry = ledger.entries.get(key);
    if (ended === null && entry !== undefined) {
      judge.check(
        entry.body.equals(request.body),
        '5 the body is unchanged',
        () => `${key}: the receiver got push ${tagOf(request.body)}, stored is ${entry.tag}`,
      );
      ledger.checkEarly(entry, 'called');
    }
    judge.check(
      !topics.isReadSoon || !topics.isRemoved(request.topic),
      'a removed topic gets no calls',
      () => `${key} by ${process.title}`,
    );
    judge.check(
      !topics.isKnownClosed(request.topic),
      '10 a topic that is not active gets no calls',
      () => `${key} by ${process.title}`,
    );
    const concurrency = Math.max(...topics.possible(request.topic).map((each) => each.concurrency));
    this.#checkLimits(key, lease, process, concurrency);
    this.#checkRate(request);
    const call = {
      lease,
      process,
      startedAt: loop.at,
      endedAt: null,
      status: null,
      asked: null,
      concurrency,
    };
    lease.call = call;
    this.#called.set(name, call);
    this.#running.add(call);
    this.#options.lead?.called(call);
    this.#options.occasions.happened('call', key);
    return call;
  }

  end(call: CallRecord): void {
    call.endedAt ??= this.#options.loop.at;
    this.#running.delete(call);
  }

  #checkLimits(key: string, lease: LeaseRecord, process: Process, concurrency: number): void {
    const { loop, judge, isOneGeneration } = this.#options;
    const topic = key.slice(0, key.indexOf('/'));
    let [ofTopic, ofProcess, ofBoth] = [1, 1, 1];
    // A call that began before its topic was edited goes on.
    let allowed = concurrency;
    const isSuspect = (of: LeaseRecord) => of.strikes >= limits.strikesIsolated;
    for (const call of this.#running) {
      if (!call.process.isAlive) {
        this.#running.delete(call);
        continue;
      }
      const isOfInstance = call.process.instance === process.instance;
      const isShared = call.process === process || (isOneGeneration && isOfInstance);
      const isOfTopic = call.lease.key.startsWith(`${topic}/`);
      if (isShared && isOfTopic) {
        ofTopic += 1;
        allowed = Math.max(allowed, call.concurrency);
      }
      if (call.process === process) {
        ofProcess += 1;
        if (isOfTopic) ofBoth += 1;
        judge.check(
          !isSuspect(lease) && !isSuspect(call.lease),
          '7 a job with two strikes is called alone',
          () => `${process.title} calls ${key} beside ${call.lease.key}`,
        );
      }
      const isOfSameJob = call.lease.key === key && call.lease.version === lease.version;
      if (!isOfSameJob || call.lease.unseenMs > 0) continue;
      judge.check(
        loop.at - call.startedAt >= call.lease.timeoutMs,
        '6 attempts of a job do not overlap',
        () => `${key}: tokens ${call.lease.token} and ${lease.token}`,
      );
    }
    const { slots } = this.#options;
    const probes = Math.max(1, Math.floor(slots * limits.probesPerSlot));
    const most = slots + Math.floor(slots * limits.slowCallsPerSlot) + probes;
    judge.check(
      ofProcess <= most,
      '10 calls of a notifier ≤ its slots, slow calls and probes',
      () => `${process.title}: ${ofProcess} of ${most}`,
    );
    judge.check(
      ofBoth <= Math.max(1, Math.floor(slots / 2)),
      '10 a topic has half of the slots of a notifier at most',
      () => `${topic}: ${ofBoth} of ${slots} slots of ${process.title}`,
    );
    judge.check(
      ofTopic <= allowed,
      '10 calls of a topic ≤ its concurrency',
      () => `${topic}: ${ofTopic} of ${allowed}, the last one by ${process.title}`,
    );
  }

  /** In any t seconds one call, and rate × t more. */
  #checkRate({ process, topic }: Request): void {
    const { loop, judge, topics } = this.#options;
    const rates = topics.possible(topic).map((each) => each.rate);
    if (rates.includes(0)) return;
    const rate = Math.max(...rates);
    const ofProcess = this.#starts.get(process) ?? new Map<string, number[]>();
    this.#starts.set(process, ofProcess);
    const starts = ofProcess.get(topic) ?? [];
    ofProcess.set(topic, [...starts.slice(-startsCompared), loop.at]);
    for (const [i, from] of starts.entries()) {
      const calls = starts.length - i;
      const most = (rate * (loop.at - from)) / 1_000;
      // Sums of fractions.
      const isKept = calls <= most + 0.001;
      judge.check(
        isKept,
        '10 calls of a topic keep its rate',
        () => `${topic}: ${calls} after one, ${most} may`,
      );
    }
  }

  /** The newest lease of the process for this job that was not called yet. */
  #leaseOf({ process, topic, id }: Request): LeaseRecord | null {
    const key = keyOf({ topic, id });
    let found: LeaseRecord | null = null;
    for (const lease of this.#options.ledger.leases)
      if (lease.key === key && lease.owner.incarnation === process.incarnation && lease.call === null)
        if (found === null || lease.token > found.token) found = lease;
    return found;
  }
}
