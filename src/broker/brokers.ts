// Brokers publishes messages to the brokers of the configuration, over one connection each; with STOMP over
// one for each destination, because an error of one message ends its connection.

import type { Broker, Target } from '../core/broker.ts';
import { brokerLimits } from './limits.ts';
import { Publication, type PublicationOptions } from './publication.ts';
import { BrokerError, type Dialing, fail, type OpenWire, type Wire } from './wire.ts';

interface BrokersOptions {
  readonly brokers: ReadonlyMap<string, Broker>;
  /** for connections to this port */
  readonly dialingTo: (port: number) => Dialing;
  /** of the connections, for the broker's administrator */
  readonly name: string;
}

export class Brokers {
  readonly #options: BrokersOptions;
  /** by broker, and by destination with STOMP */
  readonly #links = new Map<string, BrokerLink>();

  constructor(options: BrokersOptions) {
    this.#options = options;
  }

  /** Starts at once. Throws for a broker that the configuration lacks. */
  publish(options: PublicationOptions): Publication {
    const link = this.#linkTo(options.target);
    const publication = new Publication(options);
    link.publish(publication);
    return publication;
  }

  /** Closes all connections. Ends no publication. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#links.values(), (link) => link.close()));
  }

  #linkTo({ broker: name, to }: Target): BrokerLink {
    const broker = this.#options.brokers.get(name);
    if (broker === undefined) throw new Error(unknownBroker(name));
    const key = broker.type === 'stomp' ? `${name}/${to}` : name;
    const known = this.#links.get(key);
    if (known !== undefined) return known;
    this.#closeUnused();
    const link = new BrokerLink({
      broker,
      dialing: this.#options.dialingTo(broker.port),
      name: this.#options.name,
    });
    this.#links.set(key, link);
    return link;
  }

  /** Closes the links without a publication before there are too many. */
  #closeUnused(): void {
    if (this.#links.size < brokerLimits.channelsMax) return;
    for (const [key, link] of this.#links) {
      if (!link.isIdle) continue;
      this.#links.delete(key);
      void link.close();
    }
  }
}

export const unknownBroker = (name: string) =>
  `brokers of the configuration has no "${name}"; add it, and reload`;

interface BrokerLinkOptions {
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

/** The connection of one notifier to one broker: opened for the first publication, shared, and opened again
 *  for the first publication after a loss. At most one is opened at a time, and publications that wait for it
 *  fail with it. So an unavailable broker costs one dial per round of attempts. */
class BrokerLink {
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
