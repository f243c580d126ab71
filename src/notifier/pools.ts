// Keeps the connections of one notifier: one pool per origin, a second set for topics whose certificates are
// not verified, and one pool for the trial of the console. Sends nothing itself and judges no reply. Of plain
// HTTP, usual requests have their own connections beside undici's (plain-connections.ts).
// The notifier's slots bound the connections. A limit here would let calls spend their deadline in a queue
// (with one, 32 of 64 calls timed out unsent).
//
// A pool is used for a limited time, so that busy connections follow a changed DNS record and pass the
// egress policy again. A pool that is too old takes no further request; its running requests finish, then
// its connections close.
// Rejected: undici's clientTtl. While an old connection has a running request, each dispatch would add a
// listener.

import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type Client, type Dispatcher, errors, Pool } from 'undici';
import type { EgressPolicy } from '../core/egress-policy.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { Caller } from './caller.ts';
import { createConnector, type Dial } from './connector.ts';
import { notifierLimits } from './limits.ts';
import { NameLookups } from './name-lookups.ts';
import { createNameProbe, type NameProbe } from './name-probe.ts';
import { PlainConnections } from './plain-connections.ts';
import type { TrialPass } from './trial-pass.ts';

/** For tests. */
export interface PoolSeams {
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

export interface PoolsOptions {
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
  /** performance.now() from which on the pool takes no request */
  readonly usedUntil: number;
}

type Connect = ReturnType<typeof createConnector>;
/** How a connection is checked: `trial` replaces the egress policy. */
export type Check = 'verified' | 'unverified' | 'trial';

export class Pools {
  readonly #lookups: NameLookups;
  readonly #trial: TrialPass;
  readonly #connectors: Readonly<Record<Check, Connect>>;
  readonly #ageMsMax: number;
  readonly #isPlain: boolean;
  /** By check and origin. */
  readonly #pools = new Map<string, AgedPool>();
  /** Pools that are too old, with running requests. */
  readonly #closing = new Set<AgedPool>();
  readonly #sweep: NodeJS.Timeout;
  #isClosed = false;
  /** undici dials inside dispatch, so a socket that appears in it belongs to this caller. */
  #dispatching: Caller | null = null;

  constructor({ egress, trial, slots, seams = {} }: PoolsOptions) {
    const lookup = seams.lookup ?? (systemLookup as LookupFunction);
    const probe = seams.probe ?? (seams.lookup === undefined ? createNameProbe() : null);
    this.#lookups = new NameLookups({ lookup, probe, probesMax: slots, freshMs: seams.lookupFreshMs });
    this.#trial = trial;
    this.#isPlain = seams.plain ?? true;
    this.#ageMsMax = seams.connectionAgeMsMax ?? notifierLimits.connectionAgeMsMax;
    const onDial = (dial: Dial) => this.#dispatching?.onDial(dial);
    const common = { egress, lookups: this.#lookups, onDial };
    this.#connectors = {
      verified: createConnector({ ...common, verifyTls: true }),
      unverified: createConnector({ ...common, verifyTls: false }),
      trial: createConnector({ ...common, egress: trial.egress, verifyTls: true }),
    };
    // For pools without requests; dispatch replaces pools in use.
    this.#sweep = setInterval(() => this.#closeOld(), this.#ageMsMax);
    this.#sweep.unref();
  }

  /** Does not throw: every failure goes to the caller's onResponseError. */
  dispatch(request: Dispatcher.DispatchOptions, check: Check, caller: Caller): void {
    if (this.#isClosed) {
      caller.onResponseError(null as never, new errors.ClientDestroyedError());
      return;
    }
    this.#dispatching = caller;
    const { plain, pool } = this.#poolFor(String(request.origin), check);
    if (plain?.dispatch(request, caller) !== true) pool.dispatch(request, caller);
    this.#dispatching = null;
  }

  /** How connections for this topic to its origin are checked now. */
  checkFor(topic: Pick<Topic, 'topic' | 'dangerouslySkipTlsVerify'>, origin: string): Check {
    if (this.#trial.admits(topic.topic, origin)) return 'trial';
    return topic.dangerouslySkipTlsVerify ? 'unverified' : 'verified';
  }

  /** For connections that are not made here. */
  get lookups(): NameLookups {
    return this.#lookups;
  }

  /** Whether the look-up of this host name waits for its turn. */
  isLookupQueued(hostname: string): boolean {
    return this.#lookups.isQueued(hostname);
  }

  /** Destroys all connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweep);
    this.#lookups.close();
    const all = [...this.#closing, ...this.#pools.values()];
    await Promise.all(all.flatMap(({ pool, plain }) => [pool.destroy(), plain?.destroy()]));
  }

  #poolFor(origin: string, check: Check): AgedPool {
    const key = `${check} ${origin}`;
    const now = performance.now();
    const known = this.#pools.get(key);
    if (known !== undefined && now < known.usedUntil) return known;
    if (known !== undefined) this.#closeAfterUse(key, known);
    const connect = this.#connectors[check];
    const pool = new Pool(origin, { ...clientOptions, connect });
    const closeUnused = () => {
      const { connected, size } = pool.stats;
      const isUsed = connected + size + (plain?.size ?? 0) > 0;
      if (!isUsed && this.#pools.get(key) === aged) this.#closeAfterUse(key, aged);
    };
    const plain =
      this.#isPlain && origin.startsWith('http:')
        ? new PlainConnections({ origin, connect, client: clientOptions, onUnused: closeUnused })
        : null;
    pool.on('disconnect', closeUnused).on('connectionError', closeUnused);
    // At random: pools that started together would all dial again at the same time.
    const usedUntil = now + this.#ageMsMax * (1 - Math.random() / 4);
    const aged = { pool, plain, usedUntil };
    this.#pools.set(key, aged);
    return aged;
  }

  #closeOld(): void {
    const now = performance.now();
    for (const [key, aged] of this.#pools) if (now >= aged.usedUntil) this.#closeAfterUse(key, aged);
  }

  #closeAfterUse(key: string, aged: AgedPool): void {
    this.#pools.delete(key);
    this.#closing.add(aged);
    const closed = () => void this.#closing.delete(aged);
    // The pool rejects only where close() has destroyed it meanwhile.
    Promise.all([aged.pool.close(), aged.plain?.close()]).then(closed, closed);
  }
}

const clientOptions: Client.Options = {
  allowH2: false,
  // A second request behind a running one would share its fate.
  pipelining: 1,
  keepAliveTimeout: notifierLimits.callbackKeepAliveMs,
  keepAliveMaxTimeout: notifierLimits.callbackKeepAliveMsMax,
  // The call has one deadline over everything. These timeouts restart with each phase or chunk, and are
  // coarse.
  headersTimeout: 0,
  bodyTimeout: 0,
};
