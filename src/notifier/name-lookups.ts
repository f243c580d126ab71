// Looks up the host names of callbacks. Owns the answers that are kept, and which name may use the system's resolver when.
// Invariant: names that do not resolve cannot take the look-ups that other names need.
//
// The system's resolver (getaddrinfo) decides, because it alone honours /etc/hosts, nsswitch modules and search domains.
// It needs a thread per question, for 10 s and more where a name server does not answer, and libuv runs eight at once
// (half of UV_THREADPOOL_SIZE). So three rules protect those threads:
// 1. A probe without a thread (name-probe.ts) goes first. All names are probed at once. Only the name of an answered probe
//    gets a full chance of a thread; a name whose probe is silent gets one of the few threads of its rank.
// 2. Places are nested by rank: a silent or slow name starts only while fewer than two threads are in use, a new name
//    while fewer than four, a name in good standing while fewer than six. Two stay for other users of the process, such
//    as the connection to Redis.
// 3. Where the system's resolver has no free thread or is slow, addresses that the probe has found are used, provided
//    that the system would have asked for the same name first.
// Answers are kept for seconds. An old answer is used for minutes while newer look-ups hang; failures are kept for seconds.
//
// Rejected: getaddrinfo alone, because 30 hung names fill any number of threads and a new name cannot be told from
// them; c-ares alone, because names from mDNS, LDAP, systemd-resolved or search domains would no longer resolve.

import { ADDRCONFIG, type LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { limits } from '../core/limits.ts';
import type { NameProbe } from './name-probe.ts';

export type Found = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void;

/** The look-up that a call waits for. */
export interface PendingLookup {
  /** false: no question was sent for it yet, or it waits for a thread */
  readonly hasBegun: boolean;
}

/** The look-up had no turn within its time. Says nothing about the name. */
export class LookupNotBegun extends Error {
  constructor() {
    super('the look-up had no turn');
    this.name = 'LookupNotBegun';
  }
}

export interface NameLookupsOptions {
  /** the system's resolver; asked with all: true */
  readonly lookup: LookupFunction;
  /** null: every name counts as answered, without addresses */
  readonly probe: NameProbe | null;
  /** probes at once: each holds a socket */
  readonly probesMax: number;
  /** how long an answer is used without a new look-up; limits.lookupFreshMs unless given */
  readonly freshMs?: number | undefined;
}

/** Worst first. */
const ranks = ['silent', 'new', 'good'] as const;
type Rank = (typeof ranks)[number];

const silenceCode = 'ETIMEOUT';

/** What is known of one name. */
interface Name {
  readonly name: string;
  addresses: readonly LookupAddress[];
  /** performance.now() */
  foundAt: number;
  failure: NodeJS.ErrnoException | null;
  failedUntil: number;
  /** the system's last look-up took longer than limits.lookupSlowMs, or still runs since then */
  isSlow: boolean;
  /** the system is looking it up */
  isAsked: boolean;
  pending: Pending | null;
}

interface Pending extends PendingLookup {
  hasBegun: boolean;
  readonly name: Name;
  readonly waiting: Found[];
  readonly timers: NodeJS.Timeout[];
  cancelProbe: (() => void) | null;
  /** its callers got the old answer */
  isOverdue: boolean;
  isEnded: boolean;
}

export class NameLookups {
  readonly #options: NameLookupsOptions;
  readonly #freshMs: number;
  /** In the order of their last use. */
  readonly #names = new Map<string, Name>();
  readonly #unprobed: Pending[] = [];
  readonly #queues: Record<Rank, Pending[]> = { silent: [], new: [], good: [] };
  #probing = 0;
  #asking = 0;

  constructor(options: NameLookupsOptions) {
    this.#options = options;
    this.#freshMs = options.freshMs ?? limits.lookupFreshMs;
  }

  /** Calls `found` once, never within this call. */
  find(host: string, found: Found): PendingLookup {
    const now = performance.now();
    const name = this.#nameOf(host);
    if (name.addresses.length > 0 && now < name.foundAt + this.#freshMs) return answered(name, null, found);
    if (now < name.failedUntil) {
      if (isUsable(name, now)) return answered(name, null, found);
      return answered(name, name.failure, found);
    }
    if (name.pending?.isOverdue === true && isUsable(name, now)) return answered(name, null, found);
    const pending = name.pending ?? createPending(name);
    pending.waiting.push(found);
    if (name.pending === null) this.#begin(pending, now);
    return pending;
  }

  /** Ends all probes. */
  close(): void {
    for (const { pending } of this.#names.values())
      if (pending !== null) this.#end(pending, new LookupNotBegun());
  }

  #begin(pending: Pending, now: number): void {
    const { name } = pending;
    const { probe } = this.#options;
    name.pending = pending;
    // A name that was silent the last time does not hold its calls for long; a look-up by the system goes on for the next one.
    const wasSilent = name.addresses.length === 0 && name.failure?.code === silenceCode;
    const givenMs = wasSilent ? limits.lookupAgainMs : limits.lookupMs;
    pending.timers.push(
      later(givenMs, () => this.#onLate(pending, givenMs)),
      ...(isUsable(name, now) ? [later(limits.lookupPatienceMs, () => answerOverdue(pending))] : []),
    );
    if (probe === null || probe.isLocal(name.name)) this.#enqueue(pending, name.isSlow ? 'silent' : 'good');
    else if (this.#probing < this.#options.probesMax) this.#probe(pending, probe);
    else this.#unprobed.push(pending);
    // The end of its probe would come too late: the name may be one that only an nsswitch module knows.
    if (wasSilent) this.#enqueue(pending, 'silent');
  }

  #probe(pending: Pending, probe: NameProbe): void {
    const { name } = pending;
    this.#probing += 1;
    pending.hasBegun = true;
    const cancel = probe.probe(name.name, (result) => {
      pending.cancelProbe = null;
      this.#onProbeEnded(probe);
      if (pending.isEnded) return;
      if (result.kind === 'silent') {
        this.#enqueue(pending, 'silent');
        return;
      }
      // It waits for a thread now; how long that takes says nothing about the name.
      pending.hasBegun = pending.isOverdue;
      const { addresses } = result;
      if (addresses.length > 0)
        pending.timers.push(later(name.isSlow ? 0 : limits.lookupSlowMs, () => this.#found(name, addresses)));
      this.#enqueue(pending, name.isSlow ? 'silent' : name.addresses.length > 0 ? 'good' : 'new');
    });
    pending.cancelProbe = () => {
      pending.cancelProbe = null;
      cancel();
      this.#onProbeEnded(probe);
    };
  }

  #onProbeEnded(probe: NameProbe): void {
    this.#probing -= 1;
    const next = this.#unprobed.shift();
    if (next !== undefined) this.#probe(next, probe);
  }

  #enqueue(pending: Pending, rank: Rank): void {
    // An earlier look-up of the name still runs; its answer will be this one's, too.
    if (pending.name.isAsked) pending.hasBegun = true;
    else this.#queues[rank].push(pending);
    this.#startNext();
  }

  #startNext(): void {
    for (const rank of [...ranks].reverse()) {
      const queue = this.#queues[rank];
      while (queue.length > 0 && this.#asking < limits.lookupThreads[rank])
        this.#ask(queue.shift() as Pending);
    }
  }

  #ask(pending: Pending): void {
    const { name } = pending;
    pending.hasBegun = true;
    name.isAsked = true;
    this.#asking += 1;
    const slow = later(limits.lookupSlowMs, () => {
      name.isSlow = true;
    });
    const startedAt = performance.now();
    // The hint is the one that Node gives: no IPv6 addresses for a machine without IPv6.
    this.#options.lookup(name.name, { all: true, hints: ADDRCONFIG }, (error, found) => {
      clearTimeout(slow);
      name.isAsked = false;
      name.isSlow = performance.now() - startedAt >= limits.lookupSlowMs;
      this.#asking -= 1;
      if (error !== null) this.#failed(name, error);
      else this.#found(name, Array.isArray(found) ? found : []);
      this.#startNext();
    });
  }

  #found(name: Name, addresses: readonly LookupAddress[]): void {
    Object.assign(name, { addresses, foundAt: performance.now(), failure: null, failedUntil: 0 });
    if (name.pending !== null) this.#end(name.pending, null);
  }

  #failed(name: Name, failure: NodeJS.ErrnoException): void {
    const now = performance.now();
    // The resolver knows that the name is gone; every other failure may be the resolver's own.
    if (failure.code === 'ENOTFOUND') name.addresses = [];
    name.failure = failure;
    name.failedUntil = now + (name.isSlow ? limits.lookupSilentMs : limits.lookupFailedMs);
    if (name.pending !== null) this.#end(name.pending, isUsable(name, now) ? null : failure);
  }

  #onLate(pending: Pending, givenMs: number): void {
    const { name } = pending;
    const now = performance.now();
    const failure = pending.hasBegun ? silence(givenMs) : new LookupNotBegun();
    if (pending.hasBegun) {
      name.failure = failure;
      name.failedUntil = now + limits.lookupSilentMs;
    }
    this.#end(pending, isUsable(name, now) ? null : failure);
  }

  /** `failure` null: with the addresses that the name has. */
  #end(pending: Pending, failure: Error | null): void {
    pending.isEnded = true;
    pending.name.pending = null;
    for (const timer of pending.timers) clearTimeout(timer);
    pending.cancelProbe?.();
    for (const queue of [this.#unprobed, ...Object.values(this.#queues)]) {
      const at = queue.indexOf(pending);
      if (at >= 0) queue.splice(at, 1);
    }
    tell(pending, failure);
  }

  /** Forgets the names that were not used for longest. */
  #nameOf(host: string): Name {
    const known = this.#names.get(host);
    const name = known ?? {
      name: host,
      addresses: [],
      foundAt: 0,
      failure: null,
      failedUntil: 0,
      isSlow: false,
      isAsked: false,
      pending: null,
    };
    this.#names.delete(host);
    if (known === undefined && this.#names.size >= limits.lookupNamesMax)
      for (const [other, { pending, isAsked }] of this.#names)
        if (pending === null && !isAsked) {
          this.#names.delete(other);
          break;
        }
    this.#names.set(host, name);
    return name;
  }
}

function createPending(name: Name): Pending {
  return {
    name,
    hasBegun: false,
    waiting: [],
    timers: [],
    cancelProbe: null,
    isOverdue: false,
    isEnded: false,
  };
}

/** Old addresses may still be used. */
function isUsable({ addresses, foundAt }: Name, now: number): boolean {
  return addresses.length > 0 && now < foundAt + limits.lookupOldMs;
}

function answered({ addresses }: Name, failure: NodeJS.ErrnoException | null, found: Found): PendingLookup {
  process.nextTick(() => found(failure, failure === null ? addresses : []));
  return { hasBegun: true };
}

function answerOverdue(pending: Pending): void {
  pending.isOverdue = true;
  tell(pending, null);
}

function tell(pending: Pending, failure: Error | null): void {
  const { name, waiting } = pending;
  // Also where a probe brought the answer: a call that has one is not queued any more.
  if (failure === null) pending.hasBegun = true;
  for (const found of waiting.splice(0)) found(failure, failure === null ? name.addresses : []);
}

function silence(ms: number): NodeJS.ErrnoException {
  return Object.assign(new Error(`no answer within ${ms} ms`), { code: silenceCode });
}

function later(ms: number, what: () => void): NodeJS.Timeout {
  const timer = setTimeout(what, ms);
  timer.unref();
  return timer;
}
