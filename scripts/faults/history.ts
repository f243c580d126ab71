// The history of a run: one JSON line per event, appended by the driver, the producer and the receivers to
// the same file. Each event is one write to a file opened for appending, so lines never mix, and a killed
// process leaves whole lines.
import { openSync, readFileSync, writeSync } from 'node:fs';

export type StoreKind = 'sqlite' | 'redis' | 'shards' | 'sentinel' | 'cluster';
export type Fsync = 'always' | 'everysec' | 'no';

/** What the receiver does with a job. `flaky`: fails the first attempt. The others end as dead letters:
 *  `gone` by status 410, `stopped` by dq-no-retry, `exhausted` after its last attempt. */
export type Fate = 'done' | 'flaky' | 'gone' | 'stopped' | 'exhausted';

export interface Run {
  readonly kind: 'run';
  readonly seed: number;
  readonly store: StoreKind;
  readonly journal: boolean;
  readonly fsync: Fsync;
  /** of the topics */
  readonly timeoutMs: number;
  readonly backoffMs: readonly number[];
  /** fewer delivered jobs make the run vacuous */
  readonly deliveredMin: number;
  /** the topic whose job follows each end, by topic */
  readonly outcomes: Readonly<Record<string, string>>;
}

interface Push {
  readonly kind: 'push';
  readonly op: string;
  readonly topic: string;
  readonly id: string;
  /** of this push alone; in the body, so a call names its push */
  readonly tag: string;
  readonly mode: 'replace' | 'keep';
  readonly delayMs: number;
  readonly fate: Fate;
  readonly maxAttempts: number;
  readonly sha: string;
}

interface Cancel {
  readonly kind: 'cancel';
  readonly op: string;
  readonly id: string;
}

/** A 2xx answer to a push. */
interface Pushed {
  readonly kind: 'pushed';
  readonly op: string;
  /** epoch ms */
  readonly dueAt: number;
  readonly replaced: boolean;
  readonly duplicate: boolean;
  readonly inFlight: boolean;
}

/** An answer to a cancel; `absent`: 404 */
interface Cancelled {
  readonly kind: 'cancelled';
  readonly op: string;
  readonly absent: boolean;
  readonly inFlight: boolean;
}

/** Surely not applied: a refused connection, 4xx, 503 with another code than `unknown`. */
interface Rejected {
  readonly kind: 'rejected';
  readonly op: string;
  /** 0: the connection was refused */
  readonly status: number;
  readonly why: string;
}

interface Unknown {
  readonly kind: 'unknown';
  readonly op: string;
  readonly why: string;
}

/** Written by a receiver when the whole request has arrived. */
interface Call {
  readonly kind: 'call';
  readonly call: string;
  readonly topic: string;
  readonly id: string;
  /** of an outcome job: its webhook-id */
  readonly tag: string;
  /** of an outcome job: the end that has pushed it */
  readonly follows?: { readonly tag: string; readonly isDead: boolean };
  readonly attempt: number;
  readonly webhookId: string;
  /** epoch ms, of this attempt */
  readonly dueAt: number;
  readonly sha: string;
}

/** Written before the receiver answers. */
interface Answer {
  readonly kind: 'answer';
  readonly call: string;
  readonly status: number;
  /** tells dq to make no further attempt */
  readonly final: boolean;
}

/** The connection of a call broke before its answer was sent. */
interface Broken {
  readonly kind: 'broken';
  readonly call: string;
}

/** `empty`: a server loses everything while it runs. `rollback`: it returns with an older snapshot. */
export type FaultKind = 'kill' | 'freeze' | 'reload' | 'empty' | 'rollback';

/** `begun`, then `effective` when the fault was seen to have happened, then `ended` when the target works
 *  again. A fault without `effective` did not happen. */
interface Fault {
  readonly kind: 'fault';
  readonly fault: number;
  readonly what: FaultKind;
  readonly target: string;
  readonly phase: 'begun' | 'effective' | 'ended';
  readonly seen: string;
}

/** A dead letter at the end of the run. */
interface Dead {
  readonly kind: 'dead';
  readonly id: string;
  readonly reason: string;
}

/** Jobs in the store, dead letters left out, when the driver stopped waiting. */
interface Drained {
  readonly kind: 'drained';
  readonly left: number;
}

/** A problem that `dq fsck` found at the end. */
interface Fsck {
  readonly kind: 'fsck';
  readonly problem: string;
}

/** Resident bytes of the processes of dq by role. */
interface Memory {
  readonly kind: 'memory';
  readonly bytes: Readonly<Record<string, number>>;
}

export type EventBody =
  | Run
  | Push
  | Cancel
  | Pushed
  | Cancelled
  | Rejected
  | Unknown
  | Call
  | Answer
  | Broken
  | Fault
  | Dead
  | Drained
  | Fsck
  | Memory;

export interface Stamp {
  /** ms of the monotonic clock, which all processes of a machine share: orders the events */
  readonly at: number;
  /** epoch ms, to compare with due times */
  readonly wall: number;
}

export type Event = EventBody & Stamp;
export type EventOf<K extends Event['kind']> = Extract<Event, { readonly kind: K }>;

export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

export class History {
  readonly path: string;
  readonly #file: number;

  constructor(path: string) {
    this.path = path;
    this.#file = openSync(path, 'a', 0o600);
  }

  add(event: EventBody): void {
    const line = JSON.stringify({ at: monotonicMs(), wall: Date.now(), ...event });
    writeSync(this.#file, `${line}\n`);
  }

  /** All events so far, in the order of their times. */
  read(): readonly Event[] {
    return parseHistory(readFileSync(this.path, 'utf8'));
  }
}

/** Throws on a line that is not whole. */
export function parseHistory(text: string): readonly Event[] {
  const events = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Event);
  return events.sort((a, b) => a.at - b.at);
}
