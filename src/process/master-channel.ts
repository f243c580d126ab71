// Sends and receives messages at the worker's end of the cluster channel. Its loss costs messages only: a
// worker without a master drains.

import type { ToMaster, ToWorker } from './messages.ts';
import type { MasterLink } from './role.ts';

/** The channel of a worker: to its master, or what stands for one. */
export type WorkerChannel = Pick<MasterChannel, keyof MasterChannel>;

export class MasterChannel implements MasterLink {
  readonly #listeners = new Set<(message: ToWorker) => void>();

  constructor() {
    process.on('message', (message) => this.deliver(message as ToWorker));
  }

  send(message: ToMaster): void {
    // Without a callback, an error of a closing channel would be thrown as an event.
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  }

  /** As send; resolves when the message is sent, or the channel is closed. */
  sent(message: ToMaster): Promise<void> {
    return new Promise((resolve) => {
      if (process.connected && process.send !== undefined)
        process.send(message, undefined, undefined, () => resolve());
      else resolve();
    });
  }

  onMessage(listener: (message: ToWorker) => void): void {
    this.#listeners.add(listener);
  }

  /** Delivers a message as if the master had sent it. */
  deliver(message: ToWorker): void {
    for (const listener of this.#listeners) listener(message);
  }
}
