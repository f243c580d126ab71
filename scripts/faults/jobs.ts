// Groups the events of a history by job and by fault.
import type { Event, EventOf, FaultKind, StoreKind } from './history.ts';
import { type Effects, effectsOf } from './promise.ts';

export interface Push {
  readonly event: EventOf<'push'>;
  /** null: the run ended before */
  readonly result: EventOf<'pushed' | 'rejected' | 'unknown'> | null;
}

export interface Cancel {
  readonly event: EventOf<'cancel'>;
  readonly result: EventOf<'cancelled' | 'rejected' | 'unknown'> | null;
}

export interface Call {
  readonly event: EventOf<'call'>;
  readonly answer: EventOf<'answer'> | null;
  readonly broken: EventOf<'broken'> | null;
}

export interface Job {
  readonly id: string;
  /** pushes and cancels in the order of their requests, which never overlap */
  readonly ops: readonly (Push | Cancel)[];
  readonly calls: readonly Call[];
  readonly dead: EventOf<'dead'> | null;
}

export interface Fault extends Effects {
  readonly number: number;
  readonly what: FaultKind;
  readonly target: string;
  readonly from: number;
  /** infinite when it did not end */
  readonly to: number;
  readonly isEffective: boolean;
}

function callsOf(events: readonly Event[]): readonly Call[] {
  const answers = new Map<string, EventOf<'answer'>>();
  const breaks = new Map<string, EventOf<'broken'>>();
  for (const event of events) {
    if (event.kind === 'answer') answers.set(event.call, event);
    else if (event.kind === 'broken') breaks.set(event.call, event);
  }
  return events
    .filter((event) => event.kind === 'call')
    .map((event) => ({
      event,
      answer: answers.get(event.call) ?? null,
      broken: breaks.get(event.call) ?? null,
    }));
}

/** An outcome job as the receivers saw it. */
export interface OutcomeJob extends Job {
  readonly follows: NonNullable<EventOf<'call'>['follows']>;
}

/** By webhook-id, each as if its first call had pushed it: a store pushes it with the end. */
export function outcomeJobsOf(events: readonly Event[]): readonly OutcomeJob[] {
  const dead = new Map(events.flatMap((event) => (event.kind === 'dead' ? [[event.id, event]] : [])));
  const jobs = new Map<string, OutcomeJob & { readonly calls: Call[] }>();
  const calls = callsOf(events);
  // Without the body of the ended job its webhook-id names it.
  const tags = new Map(calls.map(({ event }) => [event.webhookId, event.tag]));
  for (const call of calls) {
    const { at, wall, topic, id, tag, follows: named, sha, webhookId } = call.event;
    if (named === undefined) continue;
    const follows = { ...named, tag: tags.get(named.tag) ?? named.tag };
    const stamp = { at, wall, op: webhookId };
    const asked = { mode: 'keep', delayMs: 0, fate: 'done', maxAttempts: Number.POSITIVE_INFINITY } as const;
    const answer = { dueAt: wall, replaced: false, duplicate: false, inFlight: false };
    const push: Push = {
      event: { kind: 'push', ...stamp, topic, id, tag, sha, ...asked },
      result: { kind: 'pushed', ...stamp, ...answer },
    };
    const job = jobs.get(webhookId) ?? { id, follows, ops: [push], calls: [], dead: dead.get(id) ?? null };
    job.calls.push(call);
    jobs.set(webhookId, job);
  }
  return [...jobs.values()];
}

/** The jobs that the producer pushed. */
export function jobsOf(events: readonly Event[]): readonly Job[] {
  const results = new Map<string, Event>();
  for (const event of events) {
    if (
      event.kind === 'pushed' ||
      event.kind === 'cancelled' ||
      event.kind === 'rejected' ||
      event.kind === 'unknown'
    )
      results.set(event.op, event);
  }
  const jobs = new Map<
    string,
    { id: string; ops: (Push | Cancel)[]; calls: Call[]; dead: EventOf<'dead'> | null }
  >();
  const jobOf = (id: string) => {
    const job = jobs.get(id) ?? { id, ops: [], calls: [], dead: null };
    jobs.set(id, job);
    return job;
  };
  for (const event of events) {
    if (event.kind === 'push' || event.kind === 'cancel')
      jobOf(event.id).ops.push({ event, result: results.get(event.op) ?? null } as Push | Cancel);
  }
  for (const call of callsOf(events))
    if (call.event.follows === undefined) jobOf(call.event.id).calls.push(call);
  for (const event of events) {
    const job = event.kind === 'dead' ? jobs.get(event.id) : undefined;
    if (job !== undefined) job.dead = event as EventOf<'dead'>;
  }
  return [...jobs.values()];
}

export const isPush = (op: Push | Cancel): op is Push => op.event.kind === 'push';

export function faultsOf(events: readonly Event[], store: StoreKind): readonly Fault[] {
  const phases = events.filter((event) => event.kind === 'fault');
  return phases
    .filter(({ phase }) => phase === 'begun')
    .map(({ fault, what, target, at }) => {
      const phaseOf = (name: string) => phases.find((event) => event.fault === fault && event.phase === name);
      const effects = what === 'reload' ? effectsOf('reload', store) : effectsOf(target, store);
      return {
        ...effects,
        ...{ number: fault, what, target, from: at },
        to: phaseOf('ended')?.at ?? Number.POSITIVE_INFINITY,
        isEffective: phaseOf('effective') !== undefined,
      };
    });
}

/** Of the given effect, and active at some time from `from` to `to`. */
export function overlaps(faults: readonly Fault[], effect: keyof Effects, from: number, to: number): boolean {
  return faults.some((fault) => fault[effect] && fault.from <= to && fault.to >= from);
}
