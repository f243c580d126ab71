// The event loop of a simulated world: virtual time, the processes and the order of their events.
// Invariant: code of a process runs only within an event of this process, and all its microtasks run before
// the next event. So one variable names the running process. A killed process never runs again: only an
// event could resume it, and its events are dropped. A process that dies in the middle of its turn
// finishes the turn, but nothing that it sends leaves.

import { Dice } from '../../scripts/dice.ts';
import { useTimeSource } from '../../src/runtime/time.ts';
import { EventQueue, type SimEvent } from './event-queue.ts';
import { Process } from './process.ts';
import { frozenSourceOf, replaceTimers, timeSourceOf } from './time-source.ts';
import { Trace } from './trace.ts';

/** Events of one moment in one process: timers first, then messages, then immediates, as in libuv. */
export const phases = { timer: 0, message: 1, immediate: 2 } as const;
export type Phase = (typeof phases)[keyof typeof phases];

export interface LoopOptions {
  readonly seed: number;
  /** sentences that the trace keeps; default none */
  readonly kept?: number;
}

/** Epoch ms of the start of every world. */
const wallAtStart = 1_800_000_000_000;

export class Loop {
  readonly trace: Trace;
  /** virtual ms since the start of the world */
  at = 0;
  /** wall clock minus virtual time; a fault steps it */
  wallOffset = wallAtStart;
  /** the process whose code runs; null: the world's own */
  current: Process | null = null;
  /** all that ever lived, by incarnation */
  readonly processes = new Map<number, Process>();
  events = 0;
  /** what code of a process threw into its event loop: a bug, of dq or of the world */
  readonly thrown: unknown[] = [];
  readonly #seed: number;
  readonly #ownDice: Dice;
  readonly #queue = new EventQueue();
  #scheduled = 0;
  #giveTimersBack: () => void = () => {};

  constructor({ seed, kept = 0 }: LoopOptions) {
    this.#seed = seed;
    this.#ownDice = new Dice(seed);
    this.trace = new Trace(kept);
  }

  /** Chance of the running process, or of the world outside all of them. */
  get dice(): Dice {
    return this.current?.dice ?? this.#ownDice;
  }

  /** Chance of one part of a world: without that part, the others draw the same numbers. */
  stream(name: string): Dice {
    let mixed = 0x811c9dc5 ^ this.#seed;
    for (let i = 0; i < name.length; i += 1) mixed = Math.imul(mixed ^ name.charCodeAt(i), 0x01000193);
    return new Dice(mixed >>> 0);
  }

  /** Wall clock, epoch ms, whole: STRICT tables take no fractions. */
  get wall(): number {
    return Math.floor(this.wallOffset + this.at);
  }

  /** Adds a sentence to the story. */
  tell(sentence: string): void {
    this.trace.sentence(this.at, sentence);
  }

  birth(name: string, incarnation: number): Process {
    const dice = this.stream(`process ${incarnation}`);
    const process = new Process({ name, incarnation, dice, bornAt: this.at, wallAtBirth: this.wall });
    this.processes.set(incarnation, process);
    return process;
  }

  /** `at`: virtual ms; a past moment is now. */
  schedule(
    process: Process | null,
    at: number,
    label: string,
    run: () => void,
    phase: Phase = phases.message,
  ): SimEvent {
    this.#scheduled += 1;
    const moment = Math.max(at, this.at);
    const tie = this.#tieOf(moment, process, phase);
    const event = { at: moment, tie, order: this.#scheduled, process, label, run, isCancelled: false };
    this.#queue.add(event);
    return event;
  }

  after(ms: number, process: Process | null, label: string, run: () => void): SimEvent {
    return this.schedule(process, this.at + ms, label, run);
  }

  /** Runs the next event; false: the next one is later than `until`. */
  step(until: number): boolean {
    const event = this.#queue.first;
    if (event === undefined || event.at > until) return false;
    this.#queue.removeFirst();
    const { process, label } = event;
    if (event.isCancelled || process?.isAlive === false) return true;
    if (process !== null && process.pausedUntil > event.at) {
      event.at = process.pausedUntil;
      event.tie = this.#tieOf(event.at, process, (event.tie & 3) as Phase);
      this.#queue.add(event);
      return true;
    }
    this.at = event.at;
    this.events += 1;
    this.trace.number(event.at);
    this.trace.text(label);
    if (process !== null) this.trace.number(process.incarnation);
    this.#run(process, event.run);
    return true;
  }

  /** The immediates of one turn, each with its microtasks. */
  turnSoon(process: Process): void {
    const at = this.at + 0.005 + process.dice.next() * 0.1;
    const turn = () => {
      const waiting = process.immediates;
      process.immediates = [];
      for (const immediate of waiting) {
        if (immediate.isCancelled || !process.isAlive) continue;
        this.#catch(immediate.run);
        drainMicrotasks();
      }
    };
    this.schedule(process, at, 'turn', turn, phases.immediate);
  }

  kill(process: Process, why: string): void {
    if (!process.isAlive) return;
    process.isAlive = false;
    process.diedAt = this.at;
    this.tell(`${process.title} ends: ${why}`);
    for (const tell of process.onDeath) tell();
  }

  /** From now on code of dq asks this loop for time and chance. */
  install(): void {
    const source = timeSourceOf(this);
    useTimeSource(source);
    this.#giveTimersBack = replaceTimers(source);
  }

  /** Code that resumes after the end of the world, because real I/O ends then, waits for ever. */
  close(): void {
    this.#giveTimersBack();
    useTimeSource(frozenSourceOf(this));
  }

  #run(process: Process | null, run: () => void): void {
    this.current = process;
    this.#catch(run);
    drainMicrotasks();
    this.current = null;
    if (process !== null && process.sendsLeft <= 0) this.kill(process, 'killed in the middle of its turn');
  }

  #catch(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.thrown.push(error);
    }
  }

  /** Shuffles the processes of each moment; events of one process keep their order. */
  #tieOf(at: number, process: Process | null, phase: Phase): number {
    const place = Math.floor(at * 16) ^ Math.imul((process?.incarnation ?? 0) + 1, 0x9e3779b9) ^ this.#seed;
    return ((Math.imul(place, 0x85ebca6b) >>> 0) & 0xffffff) * 4 + phase;
  }
}

/** Runs process.nextTick() and promise callbacks, as Node does after each callback from C++. Node does not
 *  document it. One real setImmediate for each event would cost 2 µs more. */
function drainMicrotasks(): void {
  (process as unknown as { _tickCallback(): void })._tickCallback();
}
