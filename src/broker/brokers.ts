// Brokers publishes messages to the brokers of the configuration, over one connection each.

import type { Broker } from '../core/broker.ts';
import { BrokerLink } from './broker-link.ts';
import { Publication, type PublicationOptions } from './publication.ts';
import type { Dialing } from './wire.ts';

export interface BrokersOptions {
  readonly brokers: ReadonlyMap<string, Broker>;
  /** for connections to this port */
  readonly dialingTo: (port: number) => Dialing;
  /** of the connections, for the broker's administrator */
  readonly name: string;
}

export class Brokers {
  readonly #options: BrokersOptions;
  readonly #links = new Map<string, BrokerLink>();

  constructor(options: BrokersOptions) {
    this.#options = options;
  }

  /** Starts at once. Throws for a broker that the configuration lacks. */
  publish(options: PublicationOptions): Publication {
    const link = this.#linkTo(options.target.broker);
    const publication = new Publication(options);
    link.publish(publication);
    return publication;
  }

  /** Closes all connections. Ends no publication. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#links.values(), (link) => link.close()));
  }

  #linkTo(name: string): BrokerLink {
    const known = this.#links.get(name);
    if (known !== undefined) return known;
    const broker = this.#options.brokers.get(name);
    if (broker === undefined) throw new Error(unknownBroker(name));
    const link = new BrokerLink({
      broker,
      dialing: this.#options.dialingTo(broker.port),
      name: this.#options.name,
    });
    this.#links.set(name, link);
    return link;
  }
}

export const unknownBroker = (name: string) =>
  `brokers of the configuration has no "${name}"; add it, and reload`;
