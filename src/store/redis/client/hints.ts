// Receives wake-up hints by publish and subscribe, on a connection of its own: a subscribed one takes no
// other commands. Hints are lossy. Invariants: after each period in which hints may be lost, every listener
// gets one hint per partition. While no answer proves that the subscription works, every listener gets one
// each limits.redisPollMs, so that the loops need to poll only every pollCeiling; not on a Cluster, where
// every bucket costs a poll.

import { limits } from '../../../core/limits.ts';
import type { Hint, Partition } from '../../../ports/job-store.ts';
import type { ConnectTcp } from '../../../runtime/dial.ts';
import { clearInterval, clearTimeout, setInterval, setTimeout, type Timer } from '../../../runtime/time.ts';
import type { Log } from '../../../telemetry/log.ts';
import { redisLimits } from '../limits.ts';
import { prefixOf } from '../scripts/keys.ts';
import {
  beginToConnect,
  type Client,
  type ConnectionEvents,
  closeClient,
  createClient,
  isCluster,
} from './connection.ts';

/** `isPoll`: nothing was received; the hint stands for one that may be lost. */
type OnHint = (hint: Hint, isPoll: boolean) => void;

interface HintsOptions {
  readonly url: string;
  /** process title */
  readonly title: string;
  readonly partitions: readonly Partition[];
  readonly log: Log;
  /** There were hints before it, which its listeners missed. */
  readonly isLate: boolean;
  /** in place of the network of this machine */
  readonly connectTcp?: ConnectTcp | undefined;
}

export class Hints {
  readonly #client: Client;
  readonly #channels: ReadonlyMap<string, Partition>;
  readonly #listeners = new Set<OnHint>();
  readonly #log: Log;
  /** hints may be lost since the last subscription */
  #mayBeLost: boolean;
  #subscribed: Promise<void> = Promise.resolve();
  #closing = false;
  #resubscribing: Timer | undefined;
  /** runs while the subscription is unproven */
  #polling: Timer | undefined;

  constructor({ url, title, partitions, log, isLate, connectTcp }: HintsOptions) {
    this.#log = log;
    this.#mayBeLost = isLate;
    this.#channels = new Map(partitions.map((bucket) => [`${prefixOf(bucket)}:hint`, bucket]));
    const events: ConnectionEvents = {
      onReady: () => {
        this.#subscribed = this.#subscribe();
      },
      onLost: () => {
        this.#mayBeLost = true;
        this.#poll();
      },
      // The connection of the calls logs the failures of the same server.
      onError: (error) => log.debug('redis hints: the connection failed', { reason: error.message }),
      onEnd: () => {},
    };
    this.#client = createClient(url, `${title}-hints`, events, { connectTcp });
    this.#client.on('message', (channel: string, message: string) => this.#receive(channel, message));
  }

  async start(): Promise<void> {
    this.#poll();
    try {
      await beginToConnect(this.#client);
      await this.#subscribed;
    } catch (error) {
      this.#log.debug('redis hints: cannot connect; due jobs wait for the next poll', {
        reason: String(error),
      });
    }
    if (this.#closing) return;
    // A subscribed connection sends no command, so a frozen server would go unnoticed. Subscribing again is a
    // command, and also repairs a Cluster client whose chosen node was down, which emits no event.
    this.#resubscribing = setInterval(() => {
      if (this.#client.status === 'ready') void this.#subscribe();
    }, redisLimits.resubscribeMs);
  }

  onHint(listener: OnHint): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(deadlineMs: number): Promise<void> {
    this.#closing = true;
    clearInterval(this.#resubscribing);
    this.#endPolling();
    this.#listeners.clear();
    await closeClient(this.#client, deadlineMs);
  }

  async #subscribe(): Promise<void> {
    const overdue = setTimeout(() => this.#poll(), redisLimits.subscribedMs);
    try {
      await this.#client.subscribe(...this.#channels.keys());
      if (this.#mayBeLost) this.#hintAll(false);
      this.#mayBeLost = false;
      this.#endPolling();
    } catch (error) {
      if (!this.#closing && !this.#mayBeLost)
        this.#log.debug('redis hints: cannot subscribe', { reason: String(error) });
      this.#mayBeLost = true;
      this.#poll();
    } finally {
      clearTimeout(overdue);
    }
  }

  /** Until the next answer to a subscription. */
  #poll(): void {
    if (this.#closing || isCluster(this.#client)) return;
    this.#polling ??= setInterval(() => this.#hintAll(true), limits.redisPollMs).unref();
  }

  #endPolling(): void {
    clearInterval(this.#polling);
    this.#polling = undefined;
  }

  #hintAll(isPoll: boolean): void {
    for (const partition of this.#channels.values()) {
      this.#emit({ kind: 'due', partition, waitMs: 0 }, isPoll);
      this.#emit({ kind: 'ready', partition }, isPoll);
    }
  }

  #receive(channel: string, message: string): void {
    const partition = this.#channels.get(channel);
    if (partition === undefined) return;
    if (message === 'ready') this.#emit({ kind: 'ready', partition });
    else this.#emit({ kind: 'due', partition, waitMs: Number(message) });
  }

  #emit(hint: Hint, isPoll = false): void {
    for (const listener of this.#listeners) listener(hint, isPoll);
  }
}
