// A model of the master: slots with their processes, restarts, a reload with two generations, and the
// messages that workers need from it. It is not under test, and never dies.
// Invariant: at most one dq-store works at a time, and incarnations rise.

import type { Dice } from '../../scripts/dice.ts';
import type { WorkerChannel } from '../../src/process/master-channel.ts';
import type { ToMaster, ToWorker } from '../../src/process/messages.ts';
import type { Composed, Init } from '../../src/process/worker-life.ts';
import type { Process } from './process.ts';
import type { Receivers } from './receivers.ts';
import { compose, instance, type RoleKind, type Server } from './roles.ts';
import type { Scene } from './scene.ts';

export interface Slot {
  readonly role: RoleKind;
  readonly index: number;
  readonly count: number;
  process: Process | null;
  /** null: it starts, or is dead */
  running: Composed | null;
  /** incarnation of its next process */
  next: number;
  starts: number;
  /** a newer generation replaces it */
  isLeaving: boolean;
  tell: (message: ToWorker) => void;
}

const drainMs = 5_000;
/** After this long a leaving process is killed. */
const leaveMsMax = 9_000;

export class Master {
  readonly #scene: Scene;
  readonly #receivers: Receivers;
  readonly #dice: Dice;
  readonly #servers = new Map<Process, Server>();
  #slots: Slot[] = [];
  #incarnation = 0;
  /** ms until the next dq-store starts; 0: the usual time */
  storeDownMs = 0;
  /** share of its messages that are lost */
  deafness = 0;

  constructor(scene: Scene, receivers: Receivers) {
    this.#scene = scene;
    this.#receivers = receivers;
    this.#dice = scene.loop.stream('master');
  }

  start(): void {
    const counts = {
      store: 1,
      server: 1 + this.#dice.below(2),
      timer: 1,
      notifier: 1 + this.#dice.below(2),
      upkeep: 1,
    };
    for (const [role, count] of Object.entries(counts))
      for (let index = 0; index < count; index += 1) this.#addSlot(role as RoleKind, index, count);
    for (const slot of this.#slots) this.#launch(slot, false);
  }

  /** Slots of this role whose process lives. */
  living(role: RoleKind): readonly (Slot & { readonly process: Process })[] {
    return this.#slots.filter(
      (slot): slot is Slot & { readonly process: Process } =>
        slot.role === role && slot.process?.isAlive === true,
    );
  }

  /** A dq-store has its file open. */
  get hasStore(): boolean {
    return this.living('store').some(({ running }) => running !== null);
  }

  /** Servers that clients reach now. */
  get servers(): readonly Server[] {
    const { at } = this.#scene.loop;
    return [...this.#servers.values()].filter(({ process }) => process.isAlive && process.pausedUntil <= at);
  }

  /** To every worker. */
  tellAll(message: ToWorker): void {
    for (const { process, tell } of this.#slots)
      this.#scene.loop.after(0, process, 'message of the master', () => tell(message));
  }

  /** Starts a second generation beside the first, then drains the first. dq-store stays. */
  reload(): void {
    const { loop } = this.#scene;
    const old = this.#slots.filter(({ role, isLeaving }) => role !== 'store' && !isLeaving);
    const fresh = old.map(({ role, index, count }) => this.#addSlot(role, index, count));
    for (const slot of fresh) this.#launch(slot, true);
    loop.after(500 + this.#dice.next() * 1_000, null, 'the old generation leaves', () => {
      for (const slot of old) this.#leave(slot);
      for (const slot of fresh) this.#takeOver(slot);
    });
  }

  /** One dq-store leaves; the next one opens its file afterwards. */
  replaceStore(): void {
    const [slot] = this.living('store');
    if (slot === undefined || slot.running === null || slot.isLeaving) return;
    slot.process.onDeath.push(() => this.#launch(this.#addSlot('store', 0, 1), false));
    this.#leave(slot);
  }

  #addSlot(role: RoleKind, index: number, count: number): Slot {
    this.#incarnation += 1;
    const rest = { process: null, running: null, starts: 0, isLeaving: false, tell: () => {} };
    const slot: Slot = { role, index, count, next: this.#incarnation, ...rest };
    this.#slots.push(slot);
    return slot;
  }

  #launch(slot: Slot, takesOver: boolean): void {
    const { loop } = this.#scene;
    const process = loop.birth(`${slot.role}-${slot.index}`, slot.next);
    this.#incarnation += 1;
    slot.next = this.#incarnation;
    slot.process = process;
    slot.starts += 1;
    process.onDeath.push(() => this.#died(slot, process));
    loop.after(1 + this.#dice.next() * 50, process, 'start', () => {
      this.#run(slot, process, takesOver).catch((error: unknown) => {
        loop.after(0, process, 'exit', () => loop.kill(process, `it cannot start: ${String(error)}`));
      });
    });
  }

  async #run(slot: Slot, process: Process, takesOver: boolean): Promise<void> {
    const listeners: ((message: ToWorker) => void)[] = [];
    slot.tell = (message) => {
      for (const listen of listeners) listen(message);
    };
    const send = (message: ToMaster) => this.#receive(slot, process, message);
    const channel: WorkerChannel = {
      send,
      sent: async (message) => send(message),
      onMessage: (listen) => void listeners.push(listen),
      deliver: slot.tell,
    };
    const composed = await compose({
      ...{ scene: this.#scene, receivers: this.#receivers, process, channel },
      init: this.#initOf(slot, process, takesOver),
      onServer: (server: Server) => void this.#servers.set(process, server),
    });
    await composed.start();
    slot.running = composed;
    this.#scene.loop.tell(`${process.title} works.`);
  }

  #initOf({ role, index, count, starts }: Slot, { incarnation }: Process, takesOver: boolean): Init {
    const { config } = this.#scene;
    return {
      ...{ kind: 'init', role, index, count, instance, incarnation, config, takesOver },
      ...{ restarts: starts - 1, socketPath: 'store.sock', adminToken: 'admin' },
    };
  }

  #died(slot: Slot, process: Process): void {
    const { loop } = this.#scene;
    this.#servers.delete(process);
    if (slot.role === 'notifier') this.#toUpkeep({ kind: 'owner_dead', incarnation: process.incarnation });
    if (slot.isLeaving) {
      this.#slots = this.#slots.filter((other) => other !== slot);
      return;
    }
    slot.running = null;
    let waitMs = 20 + this.#dice.next() * 1_500;
    if (slot.role === 'store') {
      waitMs += this.storeDownMs;
      this.storeDownMs = 0;
    }
    loop.after(waitMs, null, 'restart', () => {
      if (!slot.isLeaving) this.#launch(slot, false);
    });
  }

  #leave(slot: Slot): void {
    const { loop } = this.#scene;
    const { process, running } = slot;
    slot.isLeaving = true;
    if (process?.isAlive !== true) {
      this.#slots = this.#slots.filter((other) => other !== slot);
      return;
    }
    const exit = (why: string) => loop.after(0, process, 'exit', () => loop.kill(process, why));
    if (running === null) {
      exit('it leaves before it works');
      return;
    }
    this.#servers.delete(process);
    loop.tell(`${process.title} drains.`);
    loop.after(
      0,
      process,
      'drain',
      () => void running.drain(drainMs, false).then(() => exit('it has drained')),
    );
    loop.after(leaveMsMax, null, 'drain is late', () => loop.kill(process, 'its drain is late'));
  }

  /** As soon as it runs, whichever process of the slot that is. */
  #takeOver(slot: Slot): void {
    const { loop } = this.#scene;
    loop.after(200, null, 'take over', () => {
      const { process, running } = slot;
      if (slot.isLeaving || !this.#slots.includes(slot)) return;
      if (running === null) this.#takeOver(slot);
      else loop.after(0, process, 'take over', () => void running.takeOver());
    });
  }

  #receive(slot: Slot, process: Process, message: ToMaster): void {
    if (message.kind !== 'who_lives' || !process.isAlive) return;
    const notifiers = this.#slots.filter(({ role }) => role === 'notifier');
    const incarnations = notifiers.flatMap(({ process: its, next }) =>
      its?.isAlive === true ? [its.incarnation, next] : [next],
    );
    const tell = () => slot.tell({ kind: 'living', incarnations });
    this.#scene.loop.after(this.#messageMs(), process, 'message of the master', tell);
  }

  #toUpkeep(message: ToWorker): void {
    for (const { process, tell } of this.living('upkeep')) {
      if (this.deafness > 0 && this.#dice.chance(this.deafness)) continue;
      this.#scene.loop.after(this.#messageMs(), process, 'message of the master', () => tell(message));
    }
  }

  #messageMs(): number {
    return 0.2 + this.#dice.next() * 3;
  }
}
