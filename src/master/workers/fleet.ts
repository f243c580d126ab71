// Keeps all generations that have processes: the one in force, the one that a reload tries, those that leave.
// Owns the order in which workers drain, and the handover of dq-store and dq-upkeep. Invariants: one dq-store
// and one dq-upkeep work at a time; a leaving generation starts no worker; a new generation begins only when
// none leaves, so there are at most twice the processes.

import { limits } from '../../core/limits.ts';
import type { DrainCause, RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';
import type { Generation } from './generation.ts';
import type { WorkerProcess } from './worker-process.ts';
import type { WorkerSlot } from './worker-slot.ts';

export class Fleet {
  #current: Generation;
  #next: Generation | null = null;
  readonly #leaving = new Set<Generation>();
  readonly #waiting = new Set<() => void>();
  #stopping = false;

  constructor(first: Generation) {
    this.#current = first;
  }

  /** in force */
  get current(): Generation {
    return this.#current;
  }

  /** of a reload that has not succeeded yet; null = none */
  get next(): Generation | null {
    return this.#next;
  }

  get leaving(): readonly Generation[] {
    return [...this.#leaving];
  }

  /** Oldest first. */
  all(): readonly Generation[] {
    return [...this.#leaving, this.#current, ...(this.#next === null ? [] : [this.#next])].sort(
      (a, b) => a.number - b.number,
    );
  }

  workers(...wanted: readonly RoleName[]): WorkerProcess[] {
    return this.all().flatMap((generation) => generation.workers(...wanted));
  }

  /** The generation of this slot; undefined = it has ended. */
  of(slot: WorkerSlot): Generation | undefined {
    return this.all().find((generation) => generation.slots.includes(slot));
  }

  // Reload

  begin(next: Generation): void {
    this.#next = next;
  }

  /** Puts the next generation in force; returns the previous one. */
  commit(): Generation {
    const old = this.#current;
    if (this.#next === null) throw new Error('no next generation');
    this.#current = this.#next;
    this.#next = null;
    this.#leave(old);
    this.handOver();
    return old;
  }

  /** Gives up the next generation and returns it. */
  abandon(): Generation {
    const failed = this.#next;
    if (failed === null) throw new Error('no next generation');
    this.#next = null;
    this.#leave(failed);
    return failed;
  }

  #leave(generation: Generation): void {
    generation.release();
    // Without processes (no fork succeeded) no exit would remove it.
    if (generation.workers().length > 0) this.#leaving.add(generation);
  }

  // Handover

  /** Whether a worker of this slot waits for `take_over`. A notifier on trial does: beside the old notifiers
   *  it would exceed the limits of topics, and a failed reload would have to wait for its callbacks. */
  takesOver(slot: WorkerSlot): boolean {
    const isOnTrial = this.of(slot) === this.#next;
    if (slot.role === 'notifier') return isOnTrial;
    if (slot.role !== 'store' && slot.role !== 'upkeep') return false;
    return isOnTrial || this.#hasOlder(slot.role);
  }

  /** Sends `take_over` to the workers in force whose older process has exited. Called at each exit and each
   *  change-over. */
  handOver(): void {
    for (const worker of this.#current.workers('notifier')) worker.takeOver();
    for (const role of ['store', 'upkeep'] as const) {
      if (this.#hasOlder(role)) continue;
      for (const worker of this.#current.workers(role)) worker.takeOver();
    }
  }

  /** In older generations that leave; a generation that a reload gave up never took over. */
  #hasOlder(role: RoleName): boolean {
    return this.leaving.some(
      (generation) => generation.number < this.#current.number && generation.workers(role).length > 0,
    );
  }

  // Drain

  /** Drains servers with the console, timers and notifiers, then dq-upkeep (it receives their counters),
   *  then dq-store (all others need it). A stop waits for the notifiers: callbacks have callbacksMs from the
   *  signal on, and jobs without a call are released at once. A reload does not wait: they finish beside the
   *  next ones. */
  async drain(generations: readonly Generation[], callbacksMs: number, why: DrainCause): Promise<void> {
    const workers = (...wanted: readonly RoleName[]) =>
      generations.flatMap((generation) => {
        generation.release(...wanted);
        return generation.workers(...wanted);
      });
    const servers = workers('server', 'console');
    for (const worker of servers) {
      const mostMs = worker.role === 'console' ? masterLimits.consoleDrainMs : masterLimits.serverDrainMs;
      worker.drain(why === 'reload' ? masterLimits.serverDrainMs : Math.min(callbacksMs, mostMs), why);
    }
    const timers = workers('timer');
    const notifiers = workers('notifier');
    for (const worker of [...timers, ...notifiers]) worker.drain(callbacksMs, why);
    await ended([...servers, ...timers, ...(why === 'stop' ? notifiers : [])]);
    for (const [role, deadlineMs] of [
      ['upkeep', why === 'reload' ? limits.mailMs : masterLimits.upkeepDrainMs],
      ['store', masterLimits.storeDrainMs],
    ] as const) {
      // A stop has begun meanwhile: it drains these two in its own order.
      if (why === 'reload' && this.#stopping) return;
      const last = workers(role);
      for (const worker of last) worker.drain(deadlineMs, why);
      await ended(last);
    }
  }

  /** Resolves when every worker has exited. */
  async stop(callbacksMs: number): Promise<void> {
    this.#stopping = true;
    this.changed();
    await this.drain(this.all(), callbacksMs, 'stop');
  }

  get isStopping(): boolean {
    return this.#stopping;
  }

  killAll(): void {
    for (const generation of this.all()) {
      generation.release();
      for (const worker of generation.workers()) worker.kill();
    }
  }

  // Waiting

  /** Checks the conditions of until() again. */
  changed(): void {
    for (const generation of this.#leaving)
      if (generation.workers().length === 0) this.#leaving.delete(generation);
    for (const look of [...this.#waiting]) look();
  }

  /** Resolves when the condition holds; it is checked at each changed(). */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!condition()) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
  }
}

async function ended(workers: readonly WorkerProcess[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.ended));
}
