// Brokers publishes messages to the brokers of the configuration, over one connection each; with STOMP over
// one for each destination, because an error of one message ends its connection.

import type { Broker, Target } from '../core/broker.ts';
import { BrokerLink } from './broker-link.ts';
import { brokerLimits } from './limits.ts';
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

  /** Before there are too many: closes the links without a publication. */
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
