// Extends the library's Cluster client: tells whether a failed command may have run, reads the slots again
// when a node is lost, and knows the node of a key. Knows no script and no job.
// Invariant: a command that fails with UnsentError has not run, and never will.

import { Cluster, type ClusterNode, Command, type Redis } from 'ioredis';
import { monotonicNow } from '../../../runtime/time.ts';
import { redisLimits } from '../limits.ts';
import { tlsFor } from './dialing-connector.ts';
import { isRejection, UnsentError } from './failures.ts';
import { placeOf, type Route } from './hops.ts';
import { requireSetUp } from './set-up.ts';

/** of the library, for a connection that is lost or was never there */
const closedText = 'Connection is closed.';

const placeOfNode = ({ options: { host = '', port = 0 } }: Redis): string => placeOf({ host, port });

export type OfCluster = NonNullable<ConstructorParameters<typeof Cluster<'legacy'>>[1]>;

export class ClusterClient extends Cluster {
  readonly #route: Route;
  readonly #slots = new Map<string, number>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(nodes: ClusterNode[], options: OfCluster, route: Route) {
    super(nodes, options);
    this.#route = route;
    this.on('+node', (node: Redis) => {
      requireSetUp(node);
      const { host = '', tls } = node.options;
      // The library connects its subscriber itself, with the options of a node.
      if (tls !== undefined) node.options.tls = tlsFor(host, tls);
      node.on('ready', () => route.reached(placeOfNode(node)));
    });
    this.on('-node', (node: Redis) => route.reached(placeOfNode(node)));
    // Emitted at each attempt to reconnect too, so while the node is unavailable.
    this.on('node error', (error: Error, place: string) => {
      this.#noteFailure(error, place);
      this.rereadSlots();
    });
  }

  override sendCommand(...sending: Parameters<Cluster['sendCommand']>): unknown {
    const [command] = sending;
    markUnsent(command, (error) => {
      this.rereadSlots();
      const slot = command.getSlot();
      const place = slot === null ? undefined : this.slots[slot]?.[0];
      return (place === undefined ? undefined : this.#route.failureAt(place)) ?? error;
    });
    return super.sendCommand(...sending);
  }

  /** The connector has noted the failures of dials. The library adds failures without a cause. */
  #noteFailure(error: Error, place: string): void {
    const at = place.lastIndexOf(':');
    const hop = { role: 'node', host: place.slice(0, at), port: Number(place.slice(at + 1)) } as const;
    if (this.#route.failureAt(place) === undefined || error.message !== closedText)
      this.#route.failed(hop, error, 'set-up');
  }

  /** Reads which node has which slots, at most once per slotsOnFailureMs. Called whenever a node does
   *  not answer: a replica may have taken its slots, and only commands that reach another node are
   *  redirected. */
  rereadSlots(): void {
    if (this.status !== 'ready' || monotonicNow() - this.#readAt < redisLimits.slotsOnFailureMs) return;
    this.#readAt = monotonicNow();
    this.refreshSlotsCache();
  }

  /** The master of the key's slot in the last read slot table; '' = unknown. */
  nodeOf(key: string): string {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = new Command('exists', [key]).getSlot() ?? 0;
      this.#slots.set(key, slot);
    }
    return this.slots[slot]?.[0] ?? '';
  }
}

/** Turns the failure of a command that was never written to a socket into UnsentError. The library uses the
 *  same texts, sometimes the same error, for commands it could not send and commands it has sent. A node that
 *  redirects or rejects has not run the command, which then counts as unsent until it is written again.
 *  `onUnsent` returns the error that says most about the node. */
function markUnsent(command: Command, onUnsent: (error: Error) => Error): void {
  let isOut = false;
  const { reject, toWritable } = command;
  command.reject = (error) => {
    if (isOut || isRejection(error)) return reject(error);
    reject(new UnsentError(onUnsent(error)));
  };
  command.toWritable = (socket) => {
    isOut = true;
    const next = command.reject;
    command.reject = (error) => {
      if (isRejection(error)) isOut = false;
      next(error);
    };
    return toWritable.call(command, socket);
  };
}
