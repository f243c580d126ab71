// BrokerLink owns the connection of one notifier to one broker: opens it for the first publication, shares
// it, and opens it again for the first publication after a loss.
// Invariant: at most one connection is opened at a time, and publications that wait for it fail with it. So
// an unavailable broker costs one dial per round of attempts.

import type { Broker } from '../core/broker.ts';
import type { Publication } from './publication.ts';
import { BrokerError, type Dialing, fail, type OpenWire, type Wire } from './wire.ts';

export interface BrokerLinkOptions {
  readonly broker: Broker;
  readonly dialing: Dialing;
  /** of the connection, for the broker's administrator */
  readonly name: string;
}

/** Loads the code of the protocol and opens a connection. */
export const openWire: OpenWire = async (broker, ...rest) => (await openers[broker.type]())(broker, ...rest);

const openers: Readonly<Record<Broker['type'], () => Promise<OpenWire>>> = {
  // Loaded with the first publication: most daemons have no broker.
  amqp091: async () => (await import('./amqp091-wire.ts')).openAmqp091,
  amqp10: async () => (await import('./amqp10-wire.ts')).openAmqp10,
  stomp: async () => (await import('./stomp-wire.ts')).openStomp,
};

export class BrokerLink {
  readonly #options: BrokerLinkOptions;
  #wire: Wire | null = null;
  #opening: Promise<void> | null = null;
  readonly #waiting = new Set<Publication>();
  #isClosed = false;

  constructor(options: BrokerLinkOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return this.#waiting.size === 0 && this.#wire?.isIdle !== false;
  }

  publish(publication: Publication): void {
    if (this.#wire !== null) {
      this.#wire.publish(publication);
      return;
    }
    this.#waiting.add(publication);
    publication.waitIn(() => this.#waiting.delete(publication), 'a connection to the broker');
    this.#opening ??= this.#open();
  }

  /** Ends no publication: those that run are interrupted before. Does not wait for a dial: it closes its
   *  connection itself when it ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const wire = this.#wire;
    this.#wire = null;
    await wire?.close();
  }

  /** Never rejects. */
  async #open(): Promise<void> {
    const { broker, dialing, name } = this.#options;
    try {
      let isLost = false;
      let opened: Wire | null = null;
      const wire = await openWire(broker, dialing, name, () => {
        isLost = true;
        if (this.#wire === opened) this.#wire = null;
      });
      opened = wire;
      if (isLost) throw new BrokerError('reset', 'the broker closed the connection at once');
      this.#opening = null;
      if (this.#isClosed) return await wire.close();
      this.#wire = wire;
      for (const publication of this.#taken()) wire.publish(publication);
    } catch (error) {
      this.#opening = null;
      const reason =
        error instanceof BrokerError ? error : new BrokerError('connect', String(error), { cause: error });
      for (const publication of this.#taken()) fail(publication, reason);
    }
  }

  #taken(): readonly Publication[] {
    const taken = [...this.#waiting];
    this.#waiting.clear();
    return taken;
  }
}
