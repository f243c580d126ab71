// The client of a Cluster, with what the library's own lacks: it says of a command that fails whether anybody can have carried it
// out, looks for the slots anew when a node is lost, and knows which node a key is on. Knows no script and no job.
// Invariant: what fails with UnsentError was carried out by nobody, and never will be.

import { Cluster, type ClusterNode, Command } from 'ioredis';
import { redisLimits } from '../limits.ts';
import { isRefusal, UnsentError } from './failures.ts';

export type OfCluster = NonNullable<ConstructorParameters<typeof Cluster<'legacy'>>[1]>;

export class ClusterClient extends Cluster {
  readonly #slots = new Map<string, number>();
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(nodes: ClusterNode[], options: OfCluster) {
    super(nodes, options);
    // Also at each attempt to connect to a node again, so as long as it is away.
    this.on('node error', () => this.lookAgain());
  }

  override sendCommand(...sending: Parameters<Cluster['sendCommand']>): unknown {
    tellUnsent(sending[0], () => this.lookAgain());
    return super.sendCommand(...sending);
  }

  /** Asks which node has which slots, unless that was asked just now. To be called whenever a node does not answer: it may have a
   *  successor, and nobody says so. The others redirect what comes to them, and what is sent to the dead one comes to none. */
  lookAgain(): void {
    if (this.status !== 'ready' || performance.now() - this.#lookedAt < redisLimits.redisSlotsOnFailureMs)
      return;
    this.#lookedAt = performance.now();
    this.refreshSlotsCache();
  }

  /** The master of the key's slot, as it is known; '' = it is not. */
  nodeOf(key: string): string {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = new Command('exists', [key]).getSlot() ?? 0;
      this.#slots.set(key, slot);
    }
    return this.slots[slot]?.[0] ?? '';
  }
}

/** The library fails what it cannot send now and what it has sent with the same sentences, and sometimes the same error. A node that
 *  refuses has not carried it out: what it is then sent to, or not, decides. */
function tellUnsent(command: Command, onUnsent: () => void): void {
  let isOut = false;
  const { reject, toWritable } = command;
  command.reject = (error) => {
    if (isOut || isRefusal(error)) return reject(error);
    onUnsent();
    reject(new UnsentError(error));
  };
  command.toWritable = (socket) => {
    isOut = true;
    const next = command.reject;
    command.reject = (error) => {
      if (isRefusal(error)) isOut = false;
      next(error);
    };
    return toWritable.call(command, socket);
  };
}
