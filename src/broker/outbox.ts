// An Outbox is one place of a broker on one connection: the publications that wait until the broker takes
// them, in the order of their arrival, and those that it has not confirmed. Outboxes are the places of a
// connection. Invariant: nothing is written while the broker does not take it: it would read it when the
// attempts have long failed.

import type { Target } from '../core/broker.ts';
import { brokerLimits } from './limits.ts';
import type { Publication } from './publication.ts';
import { BrokerError, fail } from './wire.ts';

export abstract class Outbox {
  readonly #waiting = new Set<Publication>();
  readonly #unconfirmed = new Set<Publication>();

  /** null: the broker takes messages. */
  protected abstract get waitsFor(): string | null;

  /** Writes it, after awaits(). Does not throw. */
  protected abstract send(publication: Publication): void;

  get isIdle(): boolean {
    return this.#waiting.size + this.#unconfirmed.size === 0;
  }

  publish(publication: Publication): void {
    const { waitsFor } = this;
    if (this.#waiting.size === 0 && waitsFor === null) {
      this.send(publication);
      return;
    }
    this.#waiting.add(publication);
    publication.waitIn(() => this.#waiting.delete(publication), waitsFor ?? 'its turn');
  }

  /** Sends what waits, as far as the broker takes it. */
  flush(): void {
    for (const publication of this.#waiting) {
      if (this.waitsFor !== null) return;
      this.#waiting.delete(publication);
      this.send(publication);
    }
  }

  /** Fails everything that waits or is unconfirmed. */
  end(error: BrokerError): void {
    for (const publication of [...this.#waiting, ...this.#unconfirmed]) fail(publication, error);
  }

  /** `confirmation`: what the publication waits for from now on; `forget`: called at its end */
  protected awaits(publication: Publication, confirmation: string, forget = (): void => {}): void {
    this.#unconfirmed.add(publication);
    publication.waitIn(() => {
      this.#unconfirmed.delete(publication);
      forget();
    }, confirmation);
  }
}

/** At most brokerLimits.channelsMax: an idle one makes way for a new one. */
export class Outboxes<Box extends Outbox & { close(): void }> {
  readonly #name: string;
  readonly #open: (target: Target, onClosed: () => void) => Box;
  readonly #boxes = new Map<string, Box>();

  /** `name`: of several of them. `open`: `onClosed` is called when the broker has closed it */
  constructor(name: string, open: (target: Target, onClosed: () => void) => Box) {
    this.#name = name;
    this.#open = open;
  }

  get isIdle(): boolean {
    return this.all().every(({ isIdle }) => isIdle);
  }

  all(): readonly Box[] {
    return [...this.#boxes.values()];
  }

  publish(key: string, publication: Publication): void {
    const box = this.#boxes.get(key) ?? this.#make(key, publication.target);
    const full = `more than ${brokerLimits.channelsMax} ${this.#name} of this broker are in use`;
    if (box === null) fail(publication, new BrokerError('connect', full));
    else box.publish(publication);
  }

  flush(): void {
    for (const box of this.#boxes.values()) box.flush();
  }

  end(error: BrokerError): void {
    const boxes = this.all();
    this.#boxes.clear();
    for (const box of boxes) box.end(error);
  }

  /** null: all are in use. */
  #make(key: string, target: Target): Box | null {
    if (this.#boxes.size >= brokerLimits.channelsMax && !this.#dropIdle()) return null;
    const box = this.#open(target, () => {
      if (this.#boxes.get(key) === box) this.#boxes.delete(key);
    });
    this.#boxes.set(key, box);
    return box;
  }

  #dropIdle(): boolean {
    for (const [key, box] of this.#boxes) {
      if (!box.isIdle) continue;
      this.#boxes.delete(key);
      box.close();
      return true;
    }
    return false;
  }
}
