// Wake-up hints by publish and subscribe, on a connection of their own: a subscribed one takes no other commands. Lossy on
// purpose. Invariant: whoever listens is told to look once after every time that hints may have been lost.

import type { Hint, Partition } from '../../../ports/job-store.ts';
import type { Log } from '../../../telemetry/log.ts';
import { redisLimits } from '../limits.ts';
import { prefixOf } from '../scripts/keys.ts';
import { beginToConnect, type Client, closeClient, createClient } from './connection.ts';

export class Hints {
  readonly #client: Client;
  readonly #channels: ReadonlyMap<string, Partition>;
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #log: Log;
  /** hints may have been lost, and nobody has been told yet */
  #missing = false;
  #subscribed: Promise<void> = Promise.resolve();
  #closing = false;
  #pulse: NodeJS.Timeout | undefined;

  constructor(url: string, title: string, partitions: readonly Partition[], log: Log) {
    this.#log = log;
    this.#channels = new Map(partitions.map((bucket) => [`${prefixOf(bucket)}:hint`, bucket]));
    this.#client = createClient(url, `${title} (hints)`, {
      onReady: () => {
        this.#subscribed = this.#subscribe();
      },
      onLost: () => {
        this.#missing = true;
      },
      // The connection of the calls tells of the same server.
      onError: (error) => log.debug('the connection for hints failed', { reason: error.message }),
      onEnd: () => {},
    });
    this.#client.on('message', (channel: string, message: string) => this.#hear(channel, message));
  }

  async start(): Promise<void> {
    try {
      await beginToConnect(this.#client);
      await this.#subscribed;
    } catch (error) {
      this.#log.debug('no hints yet: due jobs wait for the next look', { reason: String(error) });
    }
    if (this.#closing) return;
    // A server that stands still is noticed by a command that it does not answer; a subscribed connection sends none. To subscribe
    // again is such a command, and mends what nothing tells of: a Cluster client chooses a node for it that may just be down.
    this.#pulse = setInterval(() => {
      if (this.#client.status === 'ready') void this.#subscribe();
    }, redisLimits.redisHintPulseMs);
  }

  onHint(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(deadlineMs: number): Promise<void> {
    this.#closing = true;
    clearInterval(this.#pulse);
    this.#listeners.clear();
    await closeClient(this.#client, deadlineMs);
  }

  async #subscribe(): Promise<void> {
    try {
      await this.#client.subscribe(...this.#channels.keys());
      if (this.#missing) this.#tellAll();
      this.#missing = false;
    } catch (error) {
      if (!this.#closing && !this.#missing)
        this.#log.debug('hints cannot be subscribed to', { reason: String(error) });
      this.#missing = true;
    }
  }

  #tellAll(): void {
    for (const partition of this.#channels.values()) {
      this.#tell({ kind: 'due', partition, waitMs: 0 });
      this.#tell({ kind: 'ready', partition });
    }
  }

  #hear(channel: string, message: string): void {
    const partition = this.#channels.get(channel);
    if (partition === undefined) return;
    if (message === 'ready') this.#tell({ kind: 'ready', partition });
    else this.#tell({ kind: 'due', partition, waitMs: Number(message) });
  }

  #tell(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint);
  }
}
