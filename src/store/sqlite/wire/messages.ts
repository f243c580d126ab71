// Encodes and decodes the payloads of frequent calls: one codec per thing that travels. Checks shapes (a
// closed list, a finite number), never meaning.
// Frequent objects are one literal: fields added after a spread made reservedCodec.read 14 times as slow
// (V8 11).

import type {
  AttemptRecord,
  JobKey,
  JobSnapshot,
  Lease,
  ReservedJob,
  VersionedKey,
} from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import {
  deadReasonCodes,
  endCodes,
  packFirstAttempt,
  priorityCodes,
  stateCodes,
} from '../../../core/stored-codes.ts';
import type {
  AckItem,
  BuryItem,
  CancelOutcome,
  EditItem,
  EditOutcome,
  EndingLease,
  ExtendItem,
  ExtendOutcome,
  FinishOutcome,
  Outcome,
  PushJob,
  PushMode,
  PushOutcome,
  RequeueOutcome,
  RescheduleItem,
  RescheduleOutcome,
  Reserved,
  ReserveRequest,
  RetryItem,
  RunOutcome,
  TopicCapacity,
  When,
} from '../../../ports/job-store.ts';
import { isFailure, type StoreFailure } from '../../../ports/store-error.ts';
import type { MethodsOf, VerbsWith } from '../../../ports/store-verbs.ts';
import { endBatches, pushBatches } from '../../batches.ts';
import type { AckedLease } from '../engine/finish.ts';
import type { CapacityDelta } from './capacity-delta.ts';
import { ProtocolError, type Reader, type Writer } from './protocol.ts';

/** `R`: the decoded form, where it differs */
export interface Codec<T, R = T> {
  write(w: Writer, value: T): void;
  read(r: Reader): R;
}

const modes: readonly PushMode[] = ['replace', 'keep', 'reject'];

function codeIn<T>(list: readonly T[], value: T): number {
  const code = list.indexOf(value);
  if (code < 0) throw new TypeError(`${String(value)} is not one of ${list.join(', ')}`);
  return code;
}

function oneOf<T>(list: readonly T[], code: number): T {
  const value = list[code];
  if (value === undefined) throw new ProtocolError(`unknown code ${code}`);
  return value;
}

// Failures

const failureKinds = ['not_stored', 'unknown'] as const;

export const failureCodec: Codec<StoreFailure> = {
  write(w, { kind, code, why }) {
    w.u8(codeIn(failureKinds, kind))
      .text(code)
      .text(why ?? null);
  },
  read(r) {
    const failure = readRefusal(r);
    const why = r.textOrNull();
    return why === null ? failure : { ...failure, why };
  },
};

/** In place of a greeting. Every protocol number begins a failure like this. */
export function readRefusal(r: Reader): StoreFailure {
  return { kind: oneOf(failureKinds, r.u8()), code: r.text() };
}

/** In place of an outcome's code: a failure follows. */
const failedItem = 255;

// Keys and times

export const keyCodec: Codec<JobKey> = {
  write(w, key) {
    w.text(key.topic).text(key.id);
  },
  read(r) {
    return { topic: r.text(), id: r.text() };
  },
};

/** -1: without a version. */
export const versionedKeyCodec: Codec<VersionedKey> = {
  write(w, key) {
    keyCodec.write(w, key);
    w.f64(key.version ?? -1);
  },
  read(r) {
    const key = keyCodec.read(r);
    const version = r.f64();
    return version < 0 ? key : { ...key, version };
  },
};

export const whenCodec: Codec<When> = {
  write(w, when) {
    if ('at' in when) w.u8(1).number(when.at);
    else w.u8(0).number(when.delayMs);
  },
  read(r) {
    const isInstant = r.u8() === 1;
    const ms = r.number();
    return isInstant ? { at: ms } : { delayMs: ms };
  },
};

// Push

/** added to the code of the mode */
const moreFollows = 8;
type PushMore = Pick<PushJob, 'windowMs' | 'acceptedAt' | 'failures'>;

export const pushJobCodec: Codec<PushJob> = {
  write(w, job) {
    const { windowMs, acceptedAt, failures } = job;
    const extension = job.extension ?? null;
    const hasMore =
      extension !== null || windowMs !== undefined || acceptedAt !== undefined || failures !== undefined;
    w.text(job.topic).text(job.id);
    w.u8(codeIn(modes, job.mode) + (hasMore ? moreFollows : 0)).u8(codeIn(priorityCodes, job.priority));
    whenCodec.write(w, job.when);
    w.text(job.contentType).bytes(job.body);
    if (hasMore) w.json({ windowMs, acceptedAt, failures, extension: extension?.toString('base64') });
  },
  read(r) {
    const topic = r.text();
    const id = r.text();
    const code = r.u8();
    const mode = oneOf(modes, code % moreFollows);
    const priority = oneOf(priorityCodes, r.u8());
    const when = whenCodec.read(r);
    const job = { topic, id, mode, priority, when, contentType: r.textOrNull(), body: r.bytes() };
    if (code < moreFollows) return job;
    const { extension, ...more } = r.json() as PushMore & TextOfExtension;
    return { ...job, ...more, ...readExtension(extension) };
  },
};

const pushKinds = ['stored', 'kept', 'job_exists', 'ended'] as const;
const lastStates = ['dead', ...endCodes] as const;

export const pushOutcomeCodec: Codec<PushOutcome> = {
  write(w, outcome) {
    if (isFailure(outcome)) {
      failureCodec.write(w.u8(failedItem), outcome);
      return;
    }
    w.u8(codeIn(pushKinds, outcome.kind)).f64(outcome.version).f64(outcome.dueAt);
    if (outcome.kind === 'ended') w.u8(codeIn(lastStates, outcome.state)).f64(outcome.endedAt);
    else w.u8(codeIn(stateCodes, outcome.state));
    if (outcome.kind === 'stored') w.u8((outcome.replaced ? 1 : 0) | (outcome.inFlight ? 2 : 0));
  },
  read(r) {
    const code = r.u8();
    if (code === failedItem) return failureCodec.read(r);
    const kind = oneOf(pushKinds, code);
    const version = r.f64();
    const dueAt = r.f64();
    if (kind === 'ended') return { kind, version, dueAt, state: oneOf(lastStates, r.u8()), endedAt: r.f64() };
    const state = oneOf(stateCodes, r.u8());
    if (kind !== 'stored') return { kind, version, dueAt, state };
    const flags = r.u8();
    const fresh = state === 'delayed' ? 'delayed' : 'ready';
    return {
      kind,
      version,
      dueAt,
      state: fresh,
      replaced: (flags & 1) !== 0,
      inFlight: (flags & 2) !== 0,
    };
  },
};

export const cancelOutcomeCodec: Codec<CancelOutcome> = {
  write(w, outcome) {
    if (outcome.kind === 'absent') w.u8(0);
    else if (outcome.kind === 'cancelled') w.u8(outcome.inFlight ? 2 : 1);
    else if (outcome.kind === 'other_version') w.u8(3);
    else failureCodec.write(w.u8(failedItem), outcome);
  },
  read(r) {
    const code = r.u8();
    if (code === failedItem) return failureCodec.read(r);
    return oneOf(
      [
        { kind: 'absent' },
        { kind: 'cancelled', inFlight: false },
        { kind: 'cancelled', inFlight: true },
        { kind: 'other_version' },
      ] as const,
      code,
    );
  },
};

// Operator moves

export const rescheduleItemCodec: Codec<RescheduleItem> = {
  write(w, item) {
    versionedKeyCodec.write(w, item);
    whenCodec.write(w, item.when);
  },
  read(r) {
    return { ...versionedKeyCodec.read(r), when: whenCodec.read(r) };
  },
};

export const editItemCodec: Codec<EditItem> = {
  write(w, { body, when, extension, ...rest }) {
    w.json({ ...rest, extension: extension?.toString('base64') }).bytes(body);
    w.list(when === null ? [] : [when], whenCodec.write);
  },
  read(r) {
    type Rest = Omit<EditItem, 'body' | 'when' | 'extension'> & TextOfExtension;
    const { extension, ...rest } = r.json() as Rest;
    const item = { extension: null, ...rest, ...readExtension(extension), body: r.bytes() };
    return { ...item, when: r.list(whenCodec.read)[0] ?? null };
  },
};

// Leases and finishing writes

export const leaseCodec = {
  write(w: Writer, lease: Lease): Writer {
    return w.text(lease.topic).text(lease.id).f64(lease.version).f64(lease.token);
  },
  read(r: Reader): Lease {
    return { topic: r.text(), id: r.text(), version: r.f64(), token: r.f64() };
  },
};

export const endingLeaseCodec = {
  write(w: Writer, lease: EndingLease): Writer {
    return leaseCodec
      .write(w, lease)
      .u8((lease.ifExpired === true ? 1 : 0) + (lease.isPulled === true ? 2 : 0));
  },
  read(r: Reader): EndingLease {
    const lease = leaseCodec.read(r);
    const flags = r.u8();
    return { ...lease, ifExpired: flags % 2 === 1, isPulled: flags >= 2 };
  },
};

const outcomeCodec: Codec<Outcome> = {
  write(w, { job, short }) {
    pushJobCodec.write(w, job);
    w.bytes(short);
  },
  read(r) {
    const job = pushJobCodec.read(r);
    return { job, short: r.bytes() };
  },
};

const attemptForms = ['none', 'packed', 'json'] as const;
/** added to the code of the form */
const pulled = 4;
const hasOutcome = 8;

/** An only attempt travels as it is stored, which saves the owner's time. */
export const ackItemCodec: Codec<AckItem, AckedLease> = {
  write(w, item) {
    leaseCodec.write(w, item);
    const { attempt, outcome } = item;
    const form = attempt === null ? 'none' : attempt.attempt > 1 ? 'json' : 'packed';
    const more = (item.isPulled === true ? pulled : 0) + (outcome === undefined ? 0 : hasOutcome);
    w.u8(codeIn(attemptForms, form) + more);
    if (attempt !== null) w.text(form === 'json' ? JSON.stringify(attempt) : packFirstAttempt(attempt));
    if (outcome !== undefined) outcomeCodec.write(w, outcome);
  },
  read(r) {
    // A literal: spreads make slow objects.
    const [topic, id, version, token, code] = [r.text(), r.text(), r.f64(), r.f64(), r.u8()];
    const form = oneOf(attemptForms, code % pulled);
    const attempt = form === 'none' ? null : form === 'packed' ? r.text() : (r.json() as AttemptRecord);
    const outcome = code >= hasOutcome ? outcomeCodec.read(r) : undefined;
    return { topic, id, version, token, attempt, isPulled: code % hasOutcome >= pulled, outcome };
  },
};

export const retryItemCodec: Codec<RetryItem> = {
  write(w, item) {
    endingLeaseCodec.write(w, item).number(item.delayMs).json(item.attempt);
    // Empty: the options of the job stay.
    w.bytes(item.extension ?? Buffer.alloc(0));
  },
  read(r) {
    const lease = endingLeaseCodec.read(r);
    const delayMs = r.number();
    const attempt = r.json() as AttemptRecord | null;
    const extension = r.bytes();
    return { ...lease, delayMs, attempt, ...(extension.length === 0 ? {} : { extension }) };
  },
};

export const buryItemCodec: Codec<BuryItem> = {
  write(w, item) {
    const { reason, attempt, outcome } = item;
    endingLeaseCodec.write(w, item).u8(codeIn(deadReasonCodes, reason)).json(attempt);
    w.list(outcome === undefined ? [] : [outcome], outcomeCodec.write);
  },
  read(r) {
    return {
      ...endingLeaseCodec.read(r),
      reason: oneOf(deadReasonCodes, r.u8()),
      attempt: r.json() as AttemptRecord,
      outcome: r.list(outcomeCodec.read)[0],
    };
  },
};

/** `done`: the kind of an outcome that ended the lease as asked */
export const finishCodec = <Done extends string>(done: Done): Codec<FinishOutcome<Done>> => ({
  write(w, outcome) {
    if ('code' in outcome) failureCodec.write(w.u8(failedItem), outcome);
    else w.u8(outcome.kind === 'lease_lost' ? 1 : 0);
  },
  read(r) {
    const code = r.u8();
    if (code === failedItem) return failureCodec.read(r);
    return code === 0 ? { kind: done } : { kind: 'lease_lost' };
  },
});

export const extendItemCodec: Codec<ExtendItem> = {
  write(w, item) {
    leaseCodec.write(w, item).number(item.leaseMs);
  },
  read(r) {
    return { ...leaseCodec.read(r), leaseMs: r.number() };
  },
};

const endOfExtend = finishCodec('extended');

export const extendedCodec: Codec<ExtendOutcome> = {
  write(w, outcome) {
    if (outcome.kind === 'extended') w.u8(0).f64(outcome.until);
    else endOfExtend.write(w, outcome);
  },
  read(r) {
    const outcome = endOfExtend.read(r);
    return outcome.kind === 'extended' ? { kind: 'extended', until: r.f64() } : outcome;
  },
};

// Reserve

/** A request on the wire: capacities as changes. */
export type ReserveFrame = Omit<ReserveRequest, 'topics'> & { readonly delta: CapacityDelta };

export const reserveRequestCodec = {
  write(w: Writer, request: Omit<ReserveRequest, 'topics'>, delta: CapacityDelta) {
    // One more than a reserve takes, so that `more` tells whether capacity or jobs ran out.
    const writeCapacity = ({ room, leaseMs }: TopicCapacity) =>
      w.u32(Math.min(room, limits.reserveMax + 1)).f64(leaseMs);
    w.u32(request.owner.instance).f64(request.owner.incarnation).u32(request.max);
    writeCapacity(request.others);
    w.f64(delta.base).f64(delta.number);
    w.list(delta.capacities, (_, [topic, capacity]) => {
      w.text(topic).u8(capacity === null ? 0 : 1);
      if (capacity !== null) writeCapacity(capacity);
    });
  },
  read(r: Reader): ReserveFrame {
    const readCapacity = (): TopicCapacity => ({ room: r.u32(), leaseMs: r.number() });
    const owner = { instance: r.u32(), incarnation: r.number() };
    const max = r.u32();
    const others = readCapacity();
    const [base, number] = [r.number(), r.number()];
    const capacities = r.list(() => [r.text(), r.u8() === 0 ? null : readCapacity()] as const);
    return { owner, max, others, delta: { base, number, capacities } };
  },
};

/** `null`: the owner does not know the base of the delta; nothing was reserved. */
export const reservedCodec: Codec<Reserved | null> = {
  write(w, reserved) {
    if (reserved === null) {
      w.u8(2);
      return;
    }
    w.u8(reserved.more ? 1 : 0).list(reserved.jobs, (_, job) => {
      leaseCodec.write(w, job);
      w.f64(job.origin).f64(job.dueAt).f64(job.acceptedAt).u32(job.failures).u32(job.strikes);
      w.f64(job.leaseMs).text(job.contentType).bytes(job.body);
    });
    w.f64(reserved.now ?? -1).list(reserved.atLeaseLimit ?? [], (_, topic) => w.text(topic));
    // Apart from the jobs: few have any.
    const hasOptions = reserved.jobs.some(({ extension }) => extension !== undefined);
    w.list(hasOptions ? reserved.jobs : [], (_, { extension }) =>
      w.text(extension?.toString('base64') ?? null),
    );
  },
  read(r) {
    const code = r.u8();
    if (code === 2) return null;
    const jobs = r.list((): ReservedJob => {
      // Members in the order of the frame.
      return {
        topic: r.text(),
        id: r.text(),
        version: r.f64(),
        token: r.f64(),
        origin: r.f64(),
        dueAt: r.f64(),
        acceptedAt: r.f64(),
        failures: r.u32(),
        strikes: r.u32(),
        leaseMs: r.f64(),
        contentType: r.textOrNull(),
        // A copy: a view would keep the whole frame in memory during the callback.
        body: Buffer.from(r.bytes()),
      };
    });
    const now = r.f64();
    const limited = r.list(() => r.text());
    const extensions = r.list(() => r.textOrNull() ?? undefined);
    return {
      jobs:
        extensions.length === 0 ? jobs : jobs.map((job, n) => ({ ...job, ...readExtension(extensions[n]) })),
      more: code === 1,
      now: now < 0 ? null : now,
      ...(limited.length > 0 ? { atLeaseLimit: limited } : {}),
    };
  },
};

// Snapshots

export const snapshotCodec: Codec<JobSnapshot> = {
  write(w, job) {
    const { body, extension, ...rest } = job;
    w.json({ ...rest, extension: extension?.toString('base64') }).bytes(body);
  },
  read(r) {
    const { extension, ...rest } = r.json() as Omit<JobSnapshot, 'body' | 'extension'> & TextOfExtension;
    return { ...rest, body: Buffer.from(r.bytes()), ...readExtension(extension) };
  },
};

interface TextOfExtension {
  /** base64; absent without options */
  readonly extension?: string;
}

function readExtension(text: string | undefined): { readonly extension?: Buffer } {
  return text === undefined ? {} : { extension: Buffer.from(text, 'base64') };
}

// Verbs with items

const jsonCodec = <T>(): Codec<T> => ({
  write: (w, value) => void w.json(value),
  read: (r) => r.json() as T,
});

/** A frame holds a list of items, its answer as many outcomes. */
export interface ItemFrames<I, O, R = I> {
  readonly item: Codec<I, R>;
  readonly outcome: Codec<O>;
  /** the items of one frame each */
  readonly batches: (items: readonly I[]) => readonly (readonly I[])[];
}

const moves = <I>(items: readonly I[]) => inBatches(items, limits.pushBatchMax);
const finishes = <I>(items: readonly I[]) => inBatches(items, limits.finishBatchMax);
const framesOf = <I, O, R>(frames: ItemFrames<I, O, R>): ItemFrames<I, O, R> => frames;

/** Hot verbs of one request per frame; the others have items. */
type RequestMethod = 'get' | 'promote' | 'reserve';
type ItemMethod = Exclude<MethodsOf<'jobs', VerbsWith<{ kind: 'hot' }>>, RequestMethod>;

export const itemFrames = {
  push: framesOf({ item: pushJobCodec, outcome: pushOutcomeCodec, batches: pushBatches }),
  cancel: framesOf({ item: versionedKeyCodec, outcome: cancelOutcomeCodec, batches: moves }),
  run: framesOf({ item: versionedKeyCodec, outcome: jsonCodec<RunOutcome>(), batches: moves }),
  reschedule: framesOf({
    item: rescheduleItemCodec,
    outcome: jsonCodec<RescheduleOutcome>(),
    batches: moves,
  }),
  requeue: framesOf({ item: versionedKeyCodec, outcome: jsonCodec<RequeueOutcome>(), batches: moves }),
  edit: framesOf({ item: editItemCodec, outcome: jsonCodec<EditOutcome>(), batches: pushBatches }),
  ack: framesOf({ item: ackItemCodec, outcome: finishCodec('acked'), batches: endBatches }),
  retry: framesOf({ item: retryItemCodec, outcome: finishCodec('retried'), batches: finishes }),
  bury: framesOf({ item: buryItemCodec, outcome: finishCodec('buried'), batches: endBatches }),
  release: framesOf({ item: endingLeaseCodec, outcome: finishCodec('released'), batches: finishes }),
  extend: framesOf({ item: extendItemCodec, outcome: extendedCodec, batches: finishes }),
} satisfies Readonly<Record<ItemMethod, object>>;
