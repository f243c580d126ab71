// Looks up the host names of callbacks. Owns the cached answers and the order of look-ups by the system's
// resolver.
// Invariant: names that do not resolve cannot take the look-ups that other names need.
//
// The system's resolver (getaddrinfo) decides, because it alone honours /etc/hosts, nsswitch modules and
// search domains. Each look-up needs a thread, for 10 s and more where a name server does not answer, and
// libuv runs eight at once (half of UV_THREADPOOL_SIZE). Three rules protect these threads:
// 1. A probe without a thread (name-probe.ts) goes first. All names are probed at once. Only the name of an
//    answered probe gets a full chance of a thread; a name whose probe is silent gets one of the few
//    threads of its rank.
// 2. Places are nested by rank: a silent or slow name starts only while fewer than two threads are in use,
//    a new name while fewer than four, a name in good standing while fewer than six. Two stay for other
//    users of the process, such as the connection to Redis.
// 3. Where the system's resolver has no free thread or is slow, addresses that the probe has found are
//    used, provided that the system would have asked for the same name first.
// A queued look-up keeps its place after its callers have left: its result is cached for the next call.
// Answers are kept for seconds. An old answer is used for minutes while newer look-ups hang; failures are
// kept for seconds.
//
// Rejected: getaddrinfo alone, because 30 hung names fill any number of threads and a new name cannot be
// told from them; c-ares alone, because names from mDNS, LDAP, systemd-resolved or search domains would no
// longer resolve.

import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { clearTimeout, monotonicNow, setTimeout, type Timer } from '../runtime/time.ts';
import { notifierLimits } from './limits.ts';
import type { NameProbe } from './name-probe.ts';

type Found = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void;

/** The look-up that a call waits for. */
export interface PendingLookup {
  /** false: no query was sent for it yet, or it waits for a thread */
  readonly hasStarted: boolean;
}

/** The look-up got no thread in time. Not a failure of the name. */
export class LookupNotStarted extends Error {
  constructor() {
    super('the look-up got no turn');
    this.name = 'LookupNotStarted';
  }
}

interface NameLookupsOptions {
  /** the system's resolver; called with all: true */
  readonly lookup: LookupFunction;
  /** null: every name counts as answered, without addresses */
  readonly probe: NameProbe | null;
  /** probes at once: each holds a socket */
  readonly probesMax: number;
  /** how long an answer is used without a new look-up; notifierLimits.lookupFreshMs unless given */
  readonly freshMs?: number | undefined;
}

/** Worst first. */
const ranks = ['silent', 'new', 'good'] as const;
type Rank = (typeof ranks)[number];

const silenceCode = 'ETIMEOUT';

/** Cached state of one host name. */
interface Name {
  readonly name: string;
  addresses: readonly LookupAddress[];
  /** monotonicNow() */
  foundAt: number;
  failure: NodeJS.ErrnoException | null;
  failedUntil: number;
  /** monotonicNow() of the last call that used it */
  usedAt: number;
  /** the system's last look-up took, or takes, longer than notifierLimits.lookupSlowMs */
  isSlow: boolean;
  /** a look-up by the system runs */
  isRunning: boolean;
  pending: Pending | null;
}

/** Exists until the name has an answer or a failure; its callers may leave before. */
interface Pending extends PendingLookup {
  hasStarted: boolean;
  readonly name: Name;
  readonly waiting: Caller[];
  /** of the waiting callers */
  readonly timers: Timer[];
  /** uses the addresses of the probe */
  probeTimer: Timer | null;
  cancelProbe: (() => void) | null;
  /** the queue that holds it: one at most */
  queue: Rank | null;
  /** its callers got the old answer */
  isOverdue: boolean;
  isEnded: boolean;
}

interface Caller {
  readonly found: Found;
  /** null while it waits */
  hasStarted: boolean | null;
}

export class NameLookups {
  readonly #options: NameLookupsOptions;
  readonly #freshMs: number;
  /** By host name, in the order of the last use. */
  readonly #names = new Map<string, Name>();
  readonly #unprobed = new Set<Pending>();
  readonly #queues: Record<Rank, Set<Pending>> = { silent: new Set(), new: new Set(), good: new Set() };
  #probing = 0;
  #running = 0;

  constructor(options: NameLookupsOptions) {
    this.#options = options;
    this.#freshMs = options.freshMs ?? notifierLimits.lookupFreshMs;
  }

  /** Calls `found` once, never within this call. */
  find(host: string, found: Found): PendingLookup {
    const now = monotonicNow();
    const name = this.#nameOf(host);
    name.usedAt = now;
    if (name.addresses.length > 0 && now < name.foundAt + this.#freshMs) return answered(name, null, found);
    if (now < name.failedUntil) {
      if (isUsable(name, now)) return answered(name, null, found);
      return answered(name, name.failure, found);
    }
    if (name.pending?.isOverdue === true && isUsable(name, now)) return answered(name, null, found);
    const pending = name.pending ?? createPending(name);
    name.pending = pending;
    const caller: Caller = { found, hasStarted: null };
    const isFirst = pending.waiting.length === 0;
    pending.waiting.push(caller);
    if (isFirst) this.#start(pending, now);
    return {
      get hasStarted() {
        return caller.hasStarted ?? pending.hasStarted;
      },
    };
  }

  /** Whether the look-up of the name waits for its turn, so that a call would wait, too. Counts as a use of
   *  the name. */
  isQueued(host: string): boolean {
    const name = this.#names.get(host);
    if (name === undefined || name.pending === null || name.pending.hasStarted) return false;
    const now = monotonicNow();
    if (isUsable(name, now) || now < name.failedUntil) return false;
    this.#nameOf(host).usedAt = now;
    return true;
  }

  /** Ends all look-ups. */
  close(): void {
    for (const { pending } of this.#names.values())
      if (pending !== null) this.#end(pending, new LookupNotStarted());
  }

  /** Starts a look-up: for the first caller, and for the first one after all callers have left. */
  #start(pending: Pending, now: number): void {
    const { name } = pending;
    const { probe } = this.#options;
    // Calls do not wait long for a name that was silent the last time; its look-up runs on for the next call.
    const wasSilent = name.addresses.length === 0 && name.failure?.code === silenceCode;
    const deadlineMs = wasSilent ? notifierLimits.lookupAgainMs : notifierLimits.lookupMs;
    clearTimers(pending);
    pending.hasStarted = name.isRunning || pending.cancelProbe !== null;
    pending.timers.push(
      later(deadlineMs, () => this.#onLate(pending, deadlineMs)),
      ...(isUsable(name, now) ? [later(notifierLimits.lookupPatienceMs, () => answerOverdue(pending))] : []),
    );
    // The system finds a local name without a name server, so its look-up never hangs.
    if (probe === null || probe.isLocal(name.name)) this.#enqueue(pending, 'good');
    else if (pending.cancelProbe === null) {
      if (this.#probing < this.#options.probesMax) this.#probe(pending, probe);
      else this.#unprobed.add(pending);
    }
    // Not only after its probe, which would be too late: perhaps only an nsswitch module knows the name.
    if (wasSilent && pending.queue === null) this.#enqueue(pending, 'silent');
    if (!pending.hasStarted) this.#awaitTurn(pending);
  }

  #probe(pending: Pending, probe: NameProbe): void {
    const { name } = pending;
    this.#probing += 1;
    pending.hasStarted = true;
    const cancel = probe.probe(name.name, (result) => {
      pending.cancelProbe = null;
      this.#onProbeEnded(probe);
      if (pending.isEnded) return;
      if (result.kind === 'silent') {
        this.#enqueue(pending, 'silent');
        return;
      }
      // Waiting for a thread is not a failure of the name.
      pending.hasStarted = false;
      const { addresses } = result;
      clearTimeout(pending.probeTimer ?? undefined);
      if (addresses.length > 0)
        pending.probeTimer = later(name.isSlow ? 0 : notifierLimits.lookupSlowMs, () =>
          this.#found(name, addresses),
        );
      this.#enqueue(pending, name.isSlow ? 'silent' : name.addresses.length > 0 ? 'good' : 'new');
      if (!pending.hasStarted) this.#awaitTurn(pending);
    });
    pending.cancelProbe = () => {
      pending.cancelProbe = null;
      cancel();
      this.#onProbeEnded(probe);
    };
  }

  #onProbeEnded(probe: NameProbe): void {
    this.#probing -= 1;
    const [next] = this.#unprobed;
    if (next === undefined) return;
    this.#unprobed.delete(next);
    this.#probe(next, probe);
  }

  /** Queues a look-up, which keeps its place in the queue where it was before. */
  #enqueue(pending: Pending, rank: Rank): void {
    // An earlier look-up of the name still runs; its answer is used.
    if (pending.name.isRunning) pending.hasStarted = true;
    else if (pending.queue !== rank) {
      this.#dequeue(pending);
      this.#queues[rank].add(pending);
      pending.queue = rank;
    }
    this.#startNext();
  }

  #dequeue(pending: Pending): void {
    if (pending.queue !== null) this.#queues[pending.queue].delete(pending);
    pending.queue = null;
  }

  #startNext(): void {
    const now = monotonicNow();
    for (const rank of [...ranks].reverse())
      for (const pending of this.#queues[rank]) {
        if (this.#running >= notifierLimits.lookupThreads[rank]) break;
        this.#dequeue(pending);
        if (isWanted(pending, now)) this.#lookUp(pending);
        else this.#end(pending, new LookupNotStarted());
      }
  }

  #lookUp(pending: Pending): void {
    const { name } = pending;
    pending.hasStarted = true;
    name.isRunning = true;
    this.#running += 1;
    let isSlow = false;
    const watch = afterSteps(notifierLimits.lookupSlowMs, () => {
      isSlow = true;
      name.isSlow = true;
    });
    // Without ADDRCONFIG, which Node sets for its own connections: see runtime/dial.ts.
    this.#options.lookup(name.name, { all: true }, (error, found) => {
      watch.cancel();
      name.isRunning = false;
      name.isSlow = isSlow;
      this.#running -= 1;
      if (error !== null) this.#failed(name, error);
      else this.#found(name, Array.isArray(found) ? found : []);
      this.#startNext();
    });
  }

  #found(name: Name, addresses: readonly LookupAddress[]): void {
    Object.assign(name, { addresses, foundAt: monotonicNow(), failure: null, failedUntil: 0 });
    if (name.pending !== null) this.#end(name.pending, null);
  }

  #failed(name: Name, failure: NodeJS.ErrnoException): void {
    const now = monotonicNow();
    // ENOTFOUND: the name does not exist. Other errors may be resolver failures.
    if (failure.code === 'ENOTFOUND') name.addresses = [];
    name.failure = failure;
    name.failedUntil = now + (name.isSlow ? notifierLimits.lookupSilentMs : notifierLimits.lookupFailedMs);
    if (name.pending !== null) this.#end(name.pending, isUsable(name, now) ? null : failure);
  }

  /** The callers leave; the look-up keeps its place. */
  #onLate(pending: Pending, deadlineMs: number): void {
    const { name } = pending;
    const now = monotonicNow();
    const failure = pending.hasStarted ? silence(deadlineMs) : new LookupNotStarted();
    if (pending.hasStarted) {
      name.failure = failure;
      name.failedUntil = now + notifierLimits.lookupSilentMs;
    }
    clearTimers(pending);
    pending.isOverdue = false;
    answerCallers(pending, isUsable(name, now) ? null : failure);
  }

  /** Calls leave after a while: the look-up keeps its place without them. */
  #awaitTurn(pending: Pending): void {
    const leave = () => {
      if (pending.hasStarted || isUsable(pending.name, monotonicNow())) return;
      clearTimers(pending);
      answerCallers(pending, new LookupNotStarted());
    };
    pending.timers.push(later(notifierLimits.lookupTurnMs, leave));
  }

  /** `failure` null: with the addresses that the name has. */
  #end(pending: Pending, failure: Error | null): void {
    pending.isEnded = true;
    pending.name.pending = null;
    clearTimers(pending);
    clearTimeout(pending.probeTimer ?? undefined);
    this.#unprobed.delete(pending);
    this.#dequeue(pending);
    pending.cancelProbe?.();
    answerCallers(pending, failure);
  }

  /** Forgets the least recently used name where there are too many. */
  #nameOf(host: string): Name {
    const known = this.#names.get(host);
    const name = known ?? {
      name: host,
      addresses: [],
      foundAt: 0,
      failure: null,
      failedUntil: 0,
      usedAt: 0,
      isSlow: false,
      isRunning: false,
      pending: null,
    };
    this.#names.delete(host);
    if (known === undefined && this.#names.size >= notifierLimits.lookupNamesMax)
      for (const [other, { pending, isRunning }] of this.#names) {
        if (isRunning || (pending !== null && pending.waiting.length > 0)) continue;
        if (pending !== null) this.#end(pending, new LookupNotStarted());
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
    hasStarted: false,
    waiting: [],
    timers: [],
    probeTimer: null,
    cancelProbe: null,
    queue: null,
    isOverdue: false,
    isEnded: false,
  };
}

/** Whether its old addresses may be used. */
function isUsable({ addresses, foundAt }: Name, now: number): boolean {
  return addresses.length > 0 && now < foundAt + notifierLimits.lookupOldMs;
}

function answered({ addresses }: Name, failure: NodeJS.ErrnoException | null, found: Found): PendingLookup {
  process.nextTick(() => found(failure, failure === null ? addresses : []));
  return { hasStarted: true };
}

function answerOverdue(pending: Pending): void {
  pending.isOverdue = true;
  answerCallers(pending, null);
}

function answerCallers({ name, waiting }: Pending, failure: Error | null): void {
  for (const caller of waiting.splice(0)) {
    // A call with an answer counts as started.
    caller.hasStarted = !(failure instanceof LookupNotStarted);
    caller.found(failure, failure === null ? name.addresses : []);
  }
}

function clearTimers({ timers }: Pending): void {
  for (const timer of timers.splice(0)) clearTimeout(timer);
}

/** Whether a call waits for it, or used the name recently and may use the result. */
function isWanted({ name, waiting }: Pending, now: number): boolean {
  return waiting.length > 0 || now < name.usedAt + notifierLimits.lookupOldMs;
}

function silence(ms: number): NodeJS.ErrnoException {
  return Object.assign(new Error(`no answer within ${ms} ms`), { code: silenceCode });
}

function later(ms: number, run: () => void): Timer {
  const timer = setTimeout(run, ms);
  timer.unref();
  return timer;
}

/** A stall of the event loop counts as one step of four, so it is not taken for a slow answer. */
function afterSteps(ms: number, run: () => void): { cancel(): void } {
  const steps = 4;
  let step = 0;
  let timer = later(ms / steps, next);
  function next(): void {
    step += 1;
    if (step === steps) run();
    else timer = later(ms / steps, next);
  }
  return { cancel: () => clearTimeout(timer) };
}
