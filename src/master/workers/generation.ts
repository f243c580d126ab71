// All workers of one configuration: their slots, and the order in which they start. A reload is a second generation beside
// the first; who of several is in force, and how they leave, is the fleet's.

import type { Config } from '../../config/options.ts';
import type { RoleName } from '../../process/messages.ts';
import type { WorkerProcess } from './worker-process.ts';
import type { SlotHost } from './worker-slot.ts';
import { WorkerSlot } from './worker-slot.ts';

export const roles: readonly RoleName[] = ['store', 'upkeep', 'timer', 'notifier', 'server'];

export class Generation {
  /** 1 for the start, one more for each reload */
  readonly number: number;
  readonly config: Config;
  readonly slots: readonly WorkerSlot[];
  /** what its servers ask the master for; those that ask alike share one listening socket */
  askedPort: number;
  /** what they got; null before the first listens */
  boundPort: number | null;

  /** `before`: the one that it is to follow. */
  constructor(config: Config, host: SlotHost, drawIncarnation: () => number, before: Generation | null) {
    this.number = (before?.number ?? 0) + 1;
    this.config = config;
    const counts: readonly (readonly [RoleName, number])[] = [
      ['store', 1],
      ['upkeep', 1],
      ['timer', config['timer.workers']],
      ['notifier', config['notifier.workers']],
      ['server', config['server.workers']],
    ];
    this.slots = counts.flatMap(([role, count]) =>
      Array.from(
        { length: count },
        (_, index) => new WorkerSlot({ role, index, count }, host, drawIncarnation),
      ),
    );
    const port = config['server.port'];
    const sharesPort =
      before !== null &&
      before.host === this.host &&
      (port === before.config['server.port'] || port === before.boundPort);
    this.askedPort = sharesPort ? before.askedPort : port;
    this.boundPort = sharesPort ? before.boundPort : null;
  }

  get host(): string {
    return this.config['server.host'];
  }

  of(...wanted: readonly RoleName[]): WorkerSlot[] {
    return this.slots.filter((slot) => wanted.includes(slot.role));
  }

  workers(...wanted: readonly RoleName[]): WorkerProcess[] {
    const slots = wanted.length === 0 ? this.slots : this.of(...wanted);
    return slots.flatMap((slot) => slot.worker ?? []);
  }

  /** Whether all of them, or the first of each role, do their work, or would if an older process had left it to them. */
  isReady(which: 'all' | 'first' = 'all'): boolean {
    return this.slots.every(
      (slot) => slot.worker?.state === 'ready' || (which === 'first' && slot.index > 0),
    );
  }

  /** Nobody is left in front of any of them. */
  isInPlace(): boolean {
    return this.workers().every((worker) => worker.isInPlace);
  }

  /** dq-store alone; the others find nothing to talk to before it listens. */
  startStore(): void {
    for (const slot of this.of('store')) slot.fill();
  }

  startOthers(): void {
    for (const slot of this.of('upkeep', 'timer', 'notifier', 'server')) slot.fill();
  }

  /** One of each role, beside an older generation. */
  startFirst(): void {
    for (const slot of this.slots) if (slot.index === 0) slot.fill();
  }

  startRest(): void {
    for (const slot of this.slots) if (slot.index > 0) slot.fill();
  }

  /** None of them is started again. */
  release(...which: readonly RoleName[]): void {
    for (const slot of which.length === 0 ? this.slots : this.of(...which)) slot.release();
  }
}
