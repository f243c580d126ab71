// Extends the library's Cluster client: tells whether a failed command may have run, reads the slots again
// when a node is lost, and knows the node of a key. Knows no script and no job.
// Invariant: a command that fails with UnsentError has not run, and never will.

import { Cluster, type ClusterNode, Command } from 'ioredis';
import { monotonicNow } from '../../../runtime/time.ts';
import { redisLimits } from '../limits.ts';
import { isRejection, UnsentError } from './failures.ts';
import { requireSetUp } from './set-up.ts';

export type OfCluster = NonNullable<ConstructorParameters<typeof Cluster<'legacy'>>[1]>;

export class ClusterClient extends Cluster {
  readonly #slots = new Map<string, number>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(nodes: ClusterNode[], options: OfCluster) {
    super(nodes, options);
    this.on('+node', requireSetUp);
    // Emitted at each attempt to reconnect too, so while the node is unavailable.
    this.on('node error', () => this.rereadSlots());
  }

  override sendCommand(...sending: Parameters<Cluster['sendCommand']>): unknown {
    markUnsent(sending[0], () => this.rereadSlots());
    return super.sendCommand(...sending);
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
 *  redirects or rejects has not run the command, which then counts as unsent until it is written again. */
function markUnsent(command: Command, onUnsent: () => void): void {
  let isOut = false;
  const { reject, toWritable } = command;
  command.reject = (error) => {
    if (isOut || isRejection(error)) return reject(error);
    onUnsent();
    reject(new UnsentError(error));
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
