// The keep-alive connections of one notifier: one pool per origin, a second set for topics whose certificates are not
// verified. Owns how connections are kept, never what is sent on them or how an answer is judged.
// No limit of connections: a call that waited for one in here would spend its deadline unseen (32 of 64 calls were seen to
// time out unsent). The notifier's slots bound them.

import type { LookupFunction, Socket } from 'node:net';
import { Agent, type Dispatcher } from 'undici';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { limits } from '../core/limits.ts';
import { createConnector } from './connector.ts';

/** A handler that is told which socket is being dialled for it. */
export interface Caller extends Dispatcher.DispatchHandler {
  onDial(socket: Socket): void;
}

export interface PoolsOptions {
  readonly egress: EgressPolicy;
  /** instead of the system's resolver, for tests */
  readonly lookup?: LookupFunction | undefined;
}

export class Pools {
  readonly #verified: Agent;
  readonly #unverified: Agent;
  /** undici dials inside dispatch, so a socket that appears meanwhile belongs to this caller. */
  #dispatching: Caller | null = null;

  constructor(options: PoolsOptions) {
    this.#verified = this.#createAgent(options, true);
    this.#unverified = this.#createAgent(options, false);
  }

  /** Every failure goes to the caller's onResponseError; nothing is thrown. */
  dispatch(request: Dispatcher.DispatchOptions, verifyTls: boolean, caller: Caller): void {
    this.#dispatching = caller;
    (verifyTls ? this.#verified : this.#unverified).dispatch(request, caller);
    this.#dispatching = null;
  }

  /** Cuts what is still open. */
  async close(): Promise<void> {
    await Promise.all([this.#verified.destroy(), this.#unverified.destroy()]);
  }

  #createAgent(options: PoolsOptions, verifyTls: boolean): Agent {
    return new Agent({
      connect: createConnector({
        egress: options.egress,
        lookup: options.lookup,
        verifyTls,
        onDial: (socket) => this.#dispatching?.onDial(socket),
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
