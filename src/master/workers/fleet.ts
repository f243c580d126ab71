// Every generation that has processes: the one in force, the one that a reload tries, those that leave. Owns their order:
// who leaves when, which port is asked for, when dq-store and dq-upkeep are handed on. Decides nothing about deaths.
// Invariants: of dq-store and of dq-upkeep one process at a time does what only one may do; a generation that leaves starts
// nobody any more; the next one is begun only when none leaves, so there are never more than twice the processes.

import { limits } from '../../core/limits.ts';
import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';
import type { Generation } from './generation.ts';
import type { WorkerProcess } from './worker-process.ts';
import type { WorkerSlot } from './worker-slot.ts';

type Why = 'stop' | 'reload';

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

  /** of a reload that has not succeeded yet */
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

  /** The one that has this place; one that has ended is remembered by nobody. */
  of(slot: WorkerSlot): Generation | undefined {
    return this.all().find((generation) => generation.slots.includes(slot));
  }

  /** Servers share one listening socket only while they ask for the same port, 0 included: one that joins others that listen
   *  asks as they did; the first after all were gone asks for the port that was bound. */
  portFor(generation: Generation): number {
    const listening = this.all()
      .filter(({ host, askedPort }) => host === generation.host && askedPort === generation.askedPort)
      .flatMap((sharing) => sharing.workers('server'))
      .some(({ state }) => state !== 'draining');
    if (!listening) generation.askedPort = generation.boundPort ?? generation.askedPort;
    return generation.askedPort;
  }

  // ── a reload

  begin(next: Generation): void {
    this.#next = next;
  }

  /** The next one is in force; answers the one that was. */
  commit(): Generation {
    const old = this.#current;
    if (this.#next === null) throw new Error('there is no generation to put in force');
    this.#current = this.#next;
    this.#next = null;
    this.#leave(old);
    this.handOn();
    return old;
  }

  /** Back to what is in force; answers the one that has failed. */
  abandon(): Generation {
    const failed = this.#next;
    if (failed === null) throw new Error('there is no generation to give up');
    this.#next = null;
    this.#leave(failed);
    return failed;
  }

  #leave(generation: Generation): void {
    generation.release();
    // One without processes (none could be forked) is gone already: no exit would ever tell that it is.
    if (generation.workers().length > 0) this.#leaving.add(generation);
  }

  // ── what only one process may do

  /** Whether a worker of this place waits until it is told to. A notifier on trial does: beside the old ones it would call
   *  beyond a topic's limits, and a reload that fails would have to wait for its callbacks. */
  takesOver(slot: WorkerSlot): boolean {
    const isOnTrial = this.of(slot) === this.#next;
    if (slot.role === 'notifier') return isOnTrial;
    if (slot.role !== 'store' && slot.role !== 'upkeep') return false;
    return isOnTrial || this.#hasElders(slot.role);
  }

  /** Called when a generation comes into force, and whenever something has ended: who waits for the last older process of its
   *  role to be gone goes on. */
  handOn(): void {
    for (const worker of this.#current.workers('notifier')) worker.takeOver();
    for (const role of ['store', 'upkeep'] as const) {
      if (this.#hasElders(role)) continue;
      for (const worker of this.#current.workers(role)) worker.takeOver();
    }
  }

  /** In older generations that leave; one that a reload gave up has never been in place. */
  #hasElders(role: RoleName): boolean {
    return this.leaving.some(
      (generation) => generation.number < this.#current.number && generation.workers(role).length > 0,
    );
  }

  // ── the end

  /** Who needs whom: servers, timers and notifiers need upkeep (for their counters) and the store; upkeep needs the store.
   *  Notifiers begin at once with the servers. In a stop their end is waited for: callbacks have callbacksMs from the signal on,
   *  and reserved jobs that nobody calls any more are handed back at once. A reload lets them finish beside the next ones. */
  async drain(generations: readonly Generation[], callbacksMs: number, why: Why): Promise<void> {
    const workers = (...wanted: readonly RoleName[]) =>
      generations.flatMap((generation) => {
        generation.release(...wanted);
        return generation.workers(...wanted);
      });
    const servers = workers('server');
    for (const worker of servers)
      worker.drain(
        why === 'reload' ? masterLimits.serverDrainMs : Math.min(callbacksMs, masterLimits.serverDrainMs),
        why,
      );
    const timers = workers('timer');
    const notifiers = workers('notifier');
    for (const worker of [...timers, ...notifiers]) worker.drain(callbacksMs, why);
    await ended([...servers, ...timers, ...(why === 'stop' ? notifiers : [])]);
    for (const [role, deadlineMs] of [
      ['upkeep', why === 'reload' ? limits.mailMs : masterLimits.upkeepDrainMs],
      ['store', masterLimits.storeDrainMs],
    ] as const) {
      // A stop has begun meanwhile: these are still needed, and it tells them when.
      if (why === 'reload' && this.#stopping) return;
      const last = workers(role);
      for (const worker of last) worker.drain(deadlineMs, why);
      await ended(last);
    }
  }

  /** Resolves when nobody is left. */
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

  // ── waiting

  /** Something has changed that somebody may wait for. */
  changed(): void {
    for (const generation of this.#leaving)
      if (generation.workers().length === 0) this.#leaving.delete(generation);
    for (const look of [...this.#waiting]) look();
  }

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
