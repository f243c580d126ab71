// The keep-alive connections of one notifier: one pool per origin, a second set for topics whose certificates are not
// verified. Owns how connections are kept, never what is sent on them or how an answer is judged.
// No limit of connections: a call that waited for one in here would spend its deadline unseen (32 of 64 calls were seen to
// time out unsent). The notifier's slots bound them.

import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent, type Dispatcher } from 'undici';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { limits } from '../core/limits.ts';
import { createConnector, type Dial } from './connector.ts';
import { NameLookups } from './name-lookups.ts';
import { createNameProbe, type NameProbe } from './name-probe.ts';

/** A handler that is told which socket is being dialled for it. */
export interface Caller extends Dispatcher.DispatchHandler {
  onDial(dial: Dial): void;
}

/** For tests. */
export interface PoolSeams {
  /** instead of the system's resolver; without a probe unless one is given */
  readonly lookup?: LookupFunction;
  readonly probe?: NameProbe;
  /** instead of limits.lookupFreshMs */
  readonly lookupFreshMs?: number;
}

export interface PoolsOptions {
  readonly egress: EgressPolicy;
  /** calls that may run at once */
  readonly slots: number;
  readonly seams?: PoolSeams;
}

export class Pools {
  readonly #lookups: NameLookups;
  readonly #verified: Agent;
  readonly #unverified: Agent;
  /** undici dials inside dispatch, so a socket that appears meanwhile belongs to this caller. */
  #dispatching: Caller | null = null;

  constructor({ egress, slots, seams = {} }: PoolsOptions) {
    const lookup = seams.lookup ?? (systemLookup as LookupFunction);
    const probe = seams.probe ?? (seams.lookup === undefined ? createNameProbe() : null);
    this.#lookups = new NameLookups({ lookup, probe, probesMax: slots, freshMs: seams.lookupFreshMs });
    this.#verified = this.#createAgent(egress, true);
    this.#unverified = this.#createAgent(egress, false);
  }

  /** Every failure goes to the caller's onResponseError; nothing is thrown. */
  dispatch(request: Dispatcher.DispatchOptions, verifyTls: boolean, caller: Caller): void {
    this.#dispatching = caller;
    (verifyTls ? this.#verified : this.#unverified).dispatch(request, caller);
    this.#dispatching = null;
  }

  /** Cuts what is still open. */
  async close(): Promise<void> {
    this.#lookups.close();
    await Promise.all([this.#verified.destroy(), this.#unverified.destroy()]);
  }

  #createAgent(egress: EgressPolicy, verifyTls: boolean): Agent {
    return new Agent({
      connect: createConnector({
        egress,
        lookups: this.#lookups,
        verifyTls,
        onDial: (dial) => this.#dispatching?.onDial(dial),
      }),
      allowH2: false,
      // A second request behind a running one would share its fate.
      pipelining: 1,
      keepAliveTimeout: limits.callbackKeepAliveMs,
      keepAliveMaxTimeout: limits.callbackKeepAliveMsMax,
      // The call has one deadline over everything; these two start anew with each phase or chunk and are seconds coarse.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }
}
