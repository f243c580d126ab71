// All workers of one configuration: their slots, the order in which they start and the order in which they leave. A reload
// is a second generation beside the first.

import type { Config } from '../config/options.ts';
import { limits } from '../core/limits.ts';
import type { RoleName } from '../process/messages.ts';
import type { WorkerProcess } from './worker-process.ts';
import type { SlotHost } from './worker-slot.ts';
import { WorkerSlot } from './worker-slot.ts';

export class Generation {
  readonly config: Config;
  readonly slots: readonly WorkerSlot[];

  constructor(config: Config, host: SlotHost, drawIncarnation: () => number) {
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
  }

  of(...roles: readonly RoleName[]): WorkerSlot[] {
    return this.slots.filter((slot) => roles.includes(slot.role));
  }

  workers(...roles: readonly RoleName[]): WorkerProcess[] {
    const slots = roles.length === 0 ? this.slots : this.of(...roles);
    return slots.flatMap((slot) => slot.worker ?? []);
  }

  isReady(role: RoleName): boolean {
    return this.of(role).every((slot) => slot.worker?.state === 'ready');
  }

  /** dq-store alone; the others find nothing to talk to before it listens. */
  startStore(): void {
    for (const slot of this.of('store')) slot.fill();
  }

  startOthers(): void {
    for (const slot of this.of('upkeep', 'timer', 'notifier', 'server')) slot.fill();
  }

  /** Who needs whom: servers, timers and notifiers need upkeep (for their counters) and the store; upkeep needs the store.
   *  Notifiers begin at once with the servers and do not wait for their end: callbacks have shutdownTimeout from the
   *  signal on, and reserved jobs that nobody calls any more are handed back at once. */
  async drain(callbacksMs: number, why: 'stop' | 'reload'): Promise<void> {
    const roles = ['server', 'timer', 'notifier'] as const;
    for (const slot of this.of(...roles)) slot.release();
    for (const worker of this.workers('server'))
      worker.drain(Math.min(callbacksMs, limits.serverDrainMs), why);
    for (const worker of this.workers('timer', 'notifier')) worker.drain(callbacksMs, why);
    await ended(this.workers(...roles));
    await this.#leave('upkeep', limits.upkeepDrainMs, why);
    await this.#leave('store', limits.storeDrainMs, why);
  }

  killAll(): void {
    for (const slot of this.slots) slot.release();
    for (const worker of this.workers()) worker.kill();
  }

  async #leave(role: RoleName, deadlineMs: number, why: 'stop' | 'reload'): Promise<void> {
    for (const slot of this.of(role)) slot.release();
    for (const worker of this.workers(role)) worker.drain(deadlineMs, why);
    await ended(this.workers(role));
  }
}

async function ended(workers: readonly WorkerProcess[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.ended));
}
