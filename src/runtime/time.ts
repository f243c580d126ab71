// time.ts is the only file that asks the machine for time, timers and random bytes. All other code of src,
// but the page of the console, imports them from here, so a simulation replaces all of them. Biome rejects
// the globals elsewhere.
// Invariant: outside tests the source never changes, so V8 inlines it: a call costs what the global costs
// (77 to 85 ns for performance.now() with both, ± 5).

import { randomFillSync, randomBytes as systemBytes, randomInt as systemInt } from 'node:crypto';
import { setTimeout as systemSleep, setImmediate as systemTurn } from 'node:timers/promises';

/** What dq uses of Node's timers, which fit. */
export interface Timer {
  ref(): Timer;
  unref(): Timer;
  hasRef(): boolean;
  /** Starts again with its first wait. */
  refresh(): Timer;
}

export interface Immediate {
  ref(): Immediate;
  unref(): Immediate;
}

export interface SleepOptions {
  readonly signal?: AbortSignal | undefined;
  readonly ref?: boolean;
}

/** The parameter lets a promise's `resolve` be one. */
export type Run = (value?: undefined) => void;

export interface TimeSource {
  /** monotonic, ms; starts with the process, stops while the machine is suspended */
  now(): number;
  /** wall clock when the monotonic clock was 0, epoch ms */
  origin(): number;
  /** wall clock, epoch ms, whole */
  wall(): number;
  setTimeout(run: Run, ms: number): Timer;
  clearTimeout(timer: Timer): void;
  setInterval(run: Run, ms: number): Timer;
  setImmediate(run: Run): Immediate;
  clearImmediate(immediate: Immediate): void;
  sleep(ms: number, options?: SleepOptions): Promise<void>;
  /** Resolves in the next turn of the event loop. */
  turn(): Promise<void>;
  timeoutSignal(ms: number): AbortSignal;
  /** 0 ≤ x < 1 */
  random(): number;
  fill(bytes: Uint8Array): void;
  bytes(count: number): Buffer;
  /** min ≤ n < max */
  int(min: number, max: number): number;
  /** Owner of the values of processLocal(): one object in a process of dq, one per simulated process. */
  scope(): object;
}

const scope = {};

/** The machine's. */
export const systemSource: TimeSource = {
  now: () => performance.now(),
  origin: () => performance.timeOrigin,
  wall: () => Date.now(),
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
  setInterval: (run, ms) => setInterval(run, ms),
  setImmediate: (run) => setImmediate(run),
  clearImmediate: (immediate) => clearImmediate(immediate as NodeJS.Immediate),
  sleep: (ms, options) => systemSleep(ms, undefined, options as Parameters<typeof systemSleep>[2]),
  turn: () => systemTurn(),
  timeoutSignal: (ms) => AbortSignal.timeout(ms),
  random: () => Math.random(),
  fill: (bytes) => void randomFillSync(bytes),
  bytes: (count) => systemBytes(count),
  int: (min, max) => systemInt(min, max),
  scope: () => scope,
};

let source = systemSource;

/** For a simulation. null: the machine's. */
export function useTimeSource(other: TimeSource | null): void {
  source = other ?? systemSource;
}

/** Monotonic, ms: for lengths of time. */
export const monotonicNow = (): number => source.now();
/** Wall clock, epoch ms, whole. */
export const wallNow = (): number => source.wall();
/** Wall clock when the monotonic clock was 0, epoch ms. */
export const timeOrigin = (): number => source.origin();

const startTimeout = (run: Run, ms: number): Timer => source.setTimeout(run, ms);
const startInterval = (run: Run, ms: number): Timer => source.setInterval(run, ms);
const startImmediate = (run: Run): Immediate => source.setImmediate(run);
const clearTimer = (timer: Timer | null | undefined): void => {
  if (timer !== null && timer !== undefined) source.clearTimeout(timer);
};
const cancelImmediate = (immediate: Immediate | null | undefined): void => {
  if (immediate !== null && immediate !== undefined) source.clearImmediate(immediate);
};

// By the names of the globals, which an import shadows.
export {
  cancelImmediate as clearImmediate,
  clearTimer as clearInterval,
  clearTimer as clearTimeout,
  startImmediate as setImmediate,
  startInterval as setInterval,
  startTimeout as setTimeout,
};

/** Rejects with the reason of `signal` when it is aborted. */
export const sleep = (ms: number, options?: SleepOptions): Promise<void> => source.sleep(ms, options);
/** Resolves in the next turn of the event loop. */
export const turn = (): Promise<void> => source.turn();
/** As AbortSignal.timeout: aborted after `ms`. */
export const timeoutSignal = (ms: number): AbortSignal => source.timeoutSignal(ms);

/** 0 ≤ x < 1; not for secrets */
export const random = (): number => source.random();
export const randomBytes = (count: number): Buffer => source.bytes(count);
export const randomFill = (bytes: Uint8Array): void => source.fill(bytes);
/** min ≤ n < max */
export const randomInt = (min: number, max: number): number => source.int(min, max);

/** State that a module keeps once per process. Simulated processes in one real process each have their own.
 *
 *  @param make - makes the first value */
export function processLocal<T>(make: () => T): () => T {
  const values = new WeakMap<object, { readonly value: T }>();
  let last: object | null = null;
  let lastValue: T;
  return () => {
    const owner = source.scope();
    if (owner === last) return lastValue;
    let known = values.get(owner);
    if (known === undefined) {
      known = { value: make() };
      values.set(owner, known);
    }
    last = owner;
    lastValue = known.value;
    return lastValue;
  };
}
