// Keeps the connections of one notifier: one pool per origin, a second set for topics whose certificates are
// not verified, and one pool for the trial of the console. Sends nothing itself and judges no reply.
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
import { type Dispatcher, Pool } from 'undici';
import type { EgressPolicy } from '../core/egress-policy.ts';
import type { Topic } from '../core/topic/topic.ts';
import { createConnector, type Dial } from './connector.ts';
import { notifierLimits } from './limits.ts';
import { NameLookups } from './name-lookups.ts';
import { createNameProbe, type NameProbe } from './name-probe.ts';
import type { TrialPass } from './trial-pass.ts';

/** A handler that receives the socket that is dialled for it. */
export interface Caller extends Dispatcher.DispatchHandler {
  onDial(dial: Dial): void;
}

/** For tests. */
export interface PoolSeams {
  /** instead of the system's resolver; without a probe unless `probe` is given */
  readonly lookup?: LookupFunction;
  readonly probe?: NameProbe;
  /** instead of notifierLimits.lookupFreshMs */
  readonly lookupFreshMs?: number;
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
  /** By check and origin. */
  readonly #pools = new Map<string, AgedPool>();
  /** Pools that are too old, with running requests. */
  readonly #closing = new Set<Pool>();
  readonly #sweep: NodeJS.Timeout;
  /** undici dials inside dispatch, so a socket that appears in it belongs to this caller. */
  #dispatching: Caller | null = null;

  constructor({ egress, trial, slots, seams = {} }: PoolsOptions) {
    const lookup = seams.lookup ?? (systemLookup as LookupFunction);
    const probe = seams.probe ?? (seams.lookup === undefined ? createNameProbe() : null);
    this.#lookups = new NameLookups({ lookup, probe, probesMax: slots, freshMs: seams.lookupFreshMs });
    this.#trial = trial;
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
    this.#dispatching = caller;
    this.#poolFor(String(request.origin), check).dispatch(request, caller);
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
    clearInterval(this.#sweep);
    this.#lookups.close();
    const pools = [...this.#closing, ...Array.from(this.#pools.values(), ({ pool }) => pool)];
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  #poolFor(origin: string, check: Check): Pool {
    const key = `${check} ${origin}`;
    const now = performance.now();
    const known = this.#pools.get(key);
    if (known !== undefined && now < known.usedUntil) return known.pool;
    if (known !== undefined) this.#closeAfterUse(key, known.pool);
    const pool = this.#createPool(origin, this.#connectors[check]);
    const closeUnused = () => {
      const { connected, size } = pool.stats;
      if (connected + size === 0 && this.#pools.get(key)?.pool === pool) this.#closeAfterUse(key, pool);
    };
    pool.on('disconnect', closeUnused).on('connectionError', closeUnused);
    // At random: pools that started together would all dial again at the same time.
    const usedUntil = now + this.#ageMsMax * (1 - Math.random() / 4);
    this.#pools.set(key, { pool, usedUntil });
    return pool;
  }

  #closeOld(): void {
    const now = performance.now();
    for (const [key, { pool, usedUntil }] of this.#pools)
      if (now >= usedUntil) this.#closeAfterUse(key, pool);
  }

  #closeAfterUse(key: string, pool: Pool): void {
    this.#pools.delete(key);
    this.#closing.add(pool);
    // It rejects only where close() has destroyed the pool meanwhile.
    const closed = () => void this.#closing.delete(pool);
    pool.close().then(closed, closed);
  }

  #createPool(origin: string, connect: Connect): Pool {
    return new Pool(origin, {
      connect,
      allowH2: false,
      // A second request behind a running one would share its fate.
      pipelining: 1,
      keepAliveTimeout: notifierLimits.callbackKeepAliveMs,
      keepAliveMaxTimeout: notifierLimits.callbackKeepAliveMsMax,
      // The call has one deadline over everything. These timeouts restart with each phase or chunk, and are
      // coarse.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }
}
