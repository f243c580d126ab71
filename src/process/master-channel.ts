// A worker's end of the cluster channel. Losing it loses messages and nothing else: a worker without its master drains.

import type { ToMaster, ToWorker } from './messages.ts';
import type { MasterLink } from './role.ts';

export class MasterChannel implements MasterLink {
  readonly #listeners = new Set<(message: ToWorker) => void>();

  constructor() {
    process.on('message', (message) => this.deliver(message as ToWorker));
  }

  send(message: ToMaster): void {
    // The callback takes the error of a channel that closes meanwhile; without one it would be thrown as an event.
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  }

  /** As send, and resolves when the master's end has it or nobody will. */
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

  /** As if the master had sent it. */
  deliver(message: ToWorker): void {
    for (const listener of this.#listeners) listener(message);
  }
}
