// Keeps the connections of one notifier: one pool per origin, a second set for topics whose certificates are
// not verified, and one pool for the trial of the console. Sends nothing itself and judges no reply. Of plain
// HTTP, usual requests have their own connections beside undici's (plain-connections.ts).
// The notifier's slots bound the connections. A limit here would let calls spend their deadline in a queue
// (with one, 32 of 64 calls timed out unsent).
//
// A pool is used for a limited time, so that busy connections follow a changed DNS record and pass the
// egress policy again. A pool that is too old takes no further request; its running requests finish, then
// its connections close.
//
// A receiver that once sent bytes without a request can send the next ones during a later request, where they
// would be the reply to another job, of any topic with that origin. Its pool is replaced by one that uses
// each connection once, for the rest of the pool's time. The limit: requests that were under way when the
// first such bytes arrived, and the first ones of each pool.
//
// Rejected: undici's clientTtl. While an old connection has a running request, each dispatch would add a
// listener.

import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type Client, type Dispatcher, errors, Pool } from 'undici';
import { type EgressPolicy, trial, trialOrigin } from '../core/egress-policy.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { MasterLink } from '../process/role.ts';
import { clearInterval, monotonicNow, random, setInterval, type Timer } from '../runtime/time.ts';
import { CallbackClient, dispatchWatched } from './callback-client.ts';
import { type Caller, createConnector, type Dial } from './connector.ts';
import { notifierLimits } from './limits.ts';
import { NameLookups } from './name-lookups.ts';
import { createNameProbe, type NameProbe } from './name-probe.ts';
import { PlainConnections } from './plain-connections.ts';

/** Replaces what reaches the network, for tests. */
export interface PoolSeams {
  /** sends each request, instead of the connections of the pools */
  readonly dispatch?: (request: Dispatcher.DispatchOptions, caller: Caller) => void;
  /** instead of the system's resolver; without a probe unless `probe` is given */
  readonly lookup?: LookupFunction;
  readonly probe?: NameProbe;
  /** instead of notifierLimits.lookupFreshMs */
  readonly lookupFreshMs?: number;
  /** false: undici sends all requests */
  readonly plain?: boolean;
  /** instead of notifierLimits.connectionAgeMsMax */
  readonly connectionAgeMsMax?: number;
}

interface PoolsOptions {
  readonly egress: EgressPolicy;
  readonly trial: TrialPass;
  /** calls that may run at once */
  readonly slots: number;
  readonly seams?: PoolSeams;
}

interface AgedPool {
  readonly pool: Pool;
  /** null: for TLS */
  readonly plain: PlainConnections | null;
  /** monotonicNow() from which on the pool takes no request */
  readonly usedUntil: number;
  /** A connection takes one request. */
  readonly isSingleUse: boolean;
}

type Connect = ReturnType<typeof createConnector>;
/** How a connection is checked: `trial` replaces the egress policy. */
export type Check = 'verified' | 'unverified' | 'trial';

export class Pools {
  /** also for connections that are not made here */
  readonly lookups: NameLookups;
  readonly #trial: TrialPass;
  readonly #connectors: Readonly<Record<Check, Connect>>;
  readonly #ageMsMax: number;
  readonly #isPlain: boolean;
  readonly #send: PoolSeams['dispatch'];
  /** By check and origin. */
  readonly #pools = new Map<string, AgedPool>();
  /** Pools that are too old, with running requests. */
  readonly #closing = new Set<AgedPool>();
  readonly #sweep: Timer;
  #isClosed = false;
  /** undici dials inside dispatch, so a socket that appears in it belongs to this caller. */
  #dispatching: Caller | null = null;

  constructor({ egress, trial, slots, seams = {} }: PoolsOptions) {
    const lookup = seams.lookup ?? (systemLookup as LookupFunction);
    const probe = seams.probe ?? (seams.lookup === undefined ? createNameProbe() : null);
    this.lookups = new NameLookups({ lookup, probe, probesMax: slots, freshMs: seams.lookupFreshMs });
    this.#trial = trial;
    this.#isPlain = seams.plain ?? true;
    this.#send = seams.dispatch;
    this.#ageMsMax = seams.connectionAgeMsMax ?? notifierLimits.connectionAgeMsMax;
    const onDial = (dial: Dial) => this.#dispatching?.onDial(dial);
    const common = { egress, lookups: this.lookups, onDial };
    this.#connectors = {
      verified: createConnector({ ...common, verifyTls: true }),
      unverified: createConnector({ ...common, verifyTls: false }),
      trial: createConnector({ ...common, egress: trial.egress, verifyTls: true }),
    };
    // For pools without requests; dispatch replaces pools in use.
    this.#sweep = setInterval(() => this.#closeOld(), this.#ageMsMax);
    this.#sweep.unref();
  }

  /** Does not throw: every failure goes to the caller's onResponseError. `isAlone`: over a connection that no
   *  other call uses. */
  dispatch(given: Dispatcher.DispatchOptions, check: Check, caller: Caller, isAlone = false): void {
    if (this.#isClosed) {
      caller.onResponseError(null as never, new errors.ClientDestroyedError());
      return;
    }
    if (this.#send !== undefined) {
      this.#send(given, caller);
      return;
    }
    const origin = String(given.origin);
    const aged = isAlone
      ? this.#makePool(origin, check, { usedUntil: 0, isSingleUse: true })
      : this.#poolFor(origin, check);
    const { plain, pool, isSingleUse } = aged;
    const request = isSingleUse ? { ...given, reset: true } : given;
    this.#dispatching = caller;
    if (plain?.dispatch(request, caller) !== true) dispatchWatched(pool, request, caller);
    this.#dispatching = null;
    if (isAlone) this.#closeAfterUse(aged);
  }

  /** How connections for this topic to its origin are checked now. */
  checkFor(topic: Pick<Topic, 'topic' | 'dangerouslySkipTlsVerify'>, origin: string): Check {
    if (this.#trial.admits(topic.topic, origin)) return 'trial';
    return topic.dangerouslySkipTlsVerify ? 'unverified' : 'verified';
  }

  /** Destroys all connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweep);
    this.lookups.close();
    const all = [...this.#closing, ...this.#pools.values()];
    await Promise.all(all.flatMap(({ pool, plain }) => [pool.destroy(), plain?.destroy()]));
  }

  #poolFor(origin: string, check: Check): AgedPool {
    const key = `${check} ${origin}`;
    const now = monotonicNow();
    const known = this.#pools.get(key);
    if (known !== undefined && now < known.usedUntil) return known;
    if (known !== undefined) this.#closeAfterUse(known);
    // At random: pools that started together would all dial again at the same time.
    const usedUntil = now + this.#ageMsMax * (1 - random() / 4);
    const aged = this.#makePool(origin, check, { usedUntil, isSingleUse: false });
    this.#pools.set(key, aged);
    return aged;
  }

  #makePool(
    origin: string,
    check: Check,
    use: { readonly usedUntil: number; readonly isSingleUse: boolean },
  ): AgedPool {
    const key = `${check} ${origin}`;
    const connect = this.#connectors[check];
    const options = { ...clientOptions, connect };
    const pool = new Pool(origin, {
      ...clientOptions,
      factory: (to) => new CallbackClient(to, options),
    });
    const closeUnused = () => {
      const { connected, size } = pool.stats;
      const isUsed = connected + size + (plain?.size ?? 0) > 0;
      // Or a receiver with surplus bytes would get a new pool, with kept connections.
      if (isUsed || use.isSingleUse || this.#pools.get(key) !== aged) return;
      this.#pools.delete(key);
      this.#closeAfterUse(aged);
    };
    const onSurplus = () => {
      const current = this.#pools.get(key);
      if (current === undefined || current.isSingleUse) return;
      const { usedUntil } = current;
      this.#pools.set(key, this.#makePool(origin, check, { usedUntil, isSingleUse: true }));
      this.#closeAfterUse(current);
    };
    const plain =
      this.#isPlain && origin.startsWith('http:')
        ? new PlainConnections({ origin, connect, client: clientOptions, onUnused: closeUnused, onSurplus })
        : null;
    pool.on('disconnect', (_origin, _clients, error) => {
      if (isSurplus(error)) onSurplus();
      closeUnused();
    });
    pool.on('connectionError', closeUnused);
    const aged: AgedPool = { pool, plain, ...use };
    return aged;
  }

  #closeOld(): void {
    const now = monotonicNow();
    for (const [key, aged] of this.#pools) {
      if (now < aged.usedUntil) continue;
      this.#pools.delete(key);
      this.#closeAfterUse(aged);
    }
  }

  /** It takes no further request. */
  #closeAfterUse(aged: AgedPool): void {
    this.#closing.add(aged);
    const closed = () => void this.#closing.delete(aged);
    // The pool rejects only where close() has destroyed it meanwhile.
    Promise.all([aged.pool.close(), aged.plain?.close()]).then(closed, closed);
  }
}

/** undici ends a connection so when bytes arrive that it takes for no reply to a request. */
function isSurplus(error: Error | undefined): boolean {
  if (error?.name === 'HTTPParserError') return !error.message.includes('EOF');
  return error?.message === 'bad response';
}

const clientOptions = {
  allowH2: false,
  // A second request behind a running one would share its fate.
  pipelining: 1,
  keepAliveTimeout: notifierLimits.callbackKeepAliveMs,
  keepAliveMaxTimeout: notifierLimits.callbackKeepAliveMsMax,
  // The call has one deadline over everything. These timeouts restart with each phase or chunk, and are
  // coarse.
  headersTimeout: 0,
  bodyTimeout: 0,
  maxHeaderSize: notifierLimits.replyHeadBytesMax,
} satisfies Client.Options;

/** The one exception of the egress policy: while the console runs a trial, callbacks of its topic may reach
 *  its receiver, whatever the policy says about the loopback address. It names one address, one port and one
 *  topic, and ends with the trial. */
export class TrialPass {
  /** null: no trial runs on this instance */
  #port: number | null = null;

  constructor(link: Pick<MasterLink, 'onMessage'>) {
    link.onMessage((message) => {
      if (message.kind === 'trial') this.#port = message.port;
    });
  }

  /** Whether a call of this topic goes to the receiver of the running trial. */
  admits(topic: string, origin: string): boolean {
    return this.#port !== null && topic === trial.topic && origin === trialOrigin(this.#port);
  }

  /** For the connections of such calls. */
  readonly egress: Pick<EgressPolicy, 'refuses'> = {
    refuses: (address, port) =>
      address === trial.address && port === this.#port ? null : 'the trial has ended',
  };
}
