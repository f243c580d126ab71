// Packs the options of one job as its extension block, which both stores and the journal keep beside the
// job: per option its type (1 byte), the length of its value (1) and the value, big endian. Types are stored:
// only add some.
// Invariant: an unknown type stays in the block and is ignored, so an option survives a version without it.

import { readSafe, writeSafe } from './stored-codes.ts';
import type { Backoff } from './topic/backoff.ts';
import type { Topic } from './topic/topic.ts';
import { readParent, type TraceContext, writeParent } from './trace-context.ts';

/** What a push gives a single job in place of the settings of its topic. Retries and new versions keep it. */
export interface JobOptions {
  /** lease for pullOwner, 1 … limits.pullLeaseMsMax, whatever it requests */
  readonly leaseMs?: number | undefined;
  /** 1 … limits.attemptsMax */
  readonly maxAttempts?: number | undefined;
  readonly backoff?: Backoff | undefined;
  /** epoch ms by the storage clock: no attempt starts later. A job that an operator made due after its
   *  deadline has none any more. */
  readonly deadline?: number | undefined;
  /** of the producer */
  readonly trace?: TraceContext | undefined;
  /** how often the job was snoozed since its push or its last requeue; absent: never */
  readonly again?: number | undefined;
  /** Of an edited job: the origin from which `webhook-id` derives. The edit gave the job a new origin,
   *  because all versions of one origin have one body. */
  readonly webhookOrigin?: number | undefined;
}

/** The origin from which `webhook-id` derives. */
export const webhookOriginOf = ({
  origin,
  extension,
}: {
  readonly origin: number;
  readonly extension?: Uint8Array | null | undefined;
}): number => optionsIn(extension).webhookOrigin ?? origin;

/** The topic with the job's own settings in place of the topic's. */
export function withOptions<T extends Pick<Topic, 'maxAttempts' | 'backoff'>>(
  topic: T,
  { maxAttempts, backoff }: JobOptions,
): T {
  if (maxAttempts === undefined && backoff === undefined) return topic;
  return { ...topic, maxAttempts: maxAttempts ?? topic.maxAttempts, backoff: backoff ?? topic.backoff };
}

/** The last moment at which an attempt may start, epoch ms by the storage clock; Infinity: none is. `version`
 *  and `origin` differ once an operator has moved the job; where they are unknown, a due time after the
 *  deadline says so. */
export function deadlineOf(
  { deadline = Number.POSITIVE_INFINITY }: JobOptions,
  { dueAt, version, origin }: { readonly dueAt: number; readonly version?: number; readonly origin?: number },
): number {
  const isMoved = version === undefined || version !== origin;
  return isMoved && dueAt > deadline ? Number.POSITIVE_INFINITY : deadline;
}

const types = {
  leaseMs: 1,
  maxAttempts: 2,
  backoff: 3,
  deadline: 4,
  traceParent: 5,
  traceState: 6,
  again: 7,
  webhookOrigin: 8,
} as const;

/** null: a job without options; it costs no byte. */
export function extensionOf(options: JobOptions): Buffer | null {
  const { leaseMs, maxAttempts, backoff, deadline, trace, again, webhookOrigin } = options;
  const parts: Buffer[] = [];
  const add = (type: number, value: Buffer) => parts.push(Buffer.from([type, value.length]), value);
  if (leaseMs !== undefined) add(types.leaseMs, whole(Math.ceil(leaseMs), 4));
  if (maxAttempts !== undefined) add(types.maxAttempts, whole(maxAttempts, 1));
  if (backoff !== undefined) add(types.backoff, writeBackoff(backoff));
  if (deadline !== undefined) add(types.deadline, whole(deadline, 6));
  if (trace !== undefined) add(types.traceParent, writeParent(trace));
  if (trace !== undefined && trace.state !== '') add(types.traceState, Buffer.from(trace.state, 'latin1'));
  if (again !== undefined) add(types.again, whole(again, 4));
  if (webhookOrigin !== undefined) add(types.webhookOrigin, bytesOfNumber(webhookOrigin));
  return parts.length === 0 ? null : Buffer.concat(parts);
}

/** The block with these options in place of its own ones. Options that they do not name stay. */
export function replaceOptions(
  extension: Uint8Array | null | undefined,
  options: Omit<JobOptions, 'trace'>,
): Buffer | null {
  const replaced = new Set<number>(
    (Object.keys(options) as (keyof typeof options)[]).map((name) => types[name]),
  );
  const kept = [...partsOf(extension)].filter(({ type }) => !replaced.has(type)).map(({ bytes }) => bytes);
  const block = Buffer.concat([...kept, extensionOf(options) ?? Buffer.alloc(0)]);
  return block.length === 0 ? null : block;
}

/** The block with this number of snoozes; every other option stays. */
export const withAgain = (extension: Buffer | undefined, again: number): Buffer =>
  replaceOptions(extension, { again }) as Buffer;

/** The block that an edit gives, with the number of snoozes of the stored block; null: no option is left. */
export const withAgainOf = (stored: Uint8Array | null, given: Uint8Array | null): Buffer | null =>
  replaceOptions(given, { again: optionsIn(stored).again });

/** The block as the push or the edit brought it, without the number of snoozes; null: no option is left. */
export const pushedExtension = (extension: Uint8Array | null): Buffer | null =>
  replaceOptions(extension, { again: undefined });

const none: JobOptions = {};

/** An unreadable rest is ignored. */
function* partsOf(extension: Uint8Array | null | undefined) {
  if (extension === null || extension === undefined) return;
  const block = Buffer.from(extension.buffer, extension.byteOffset, extension.byteLength);
  let end = 0;
  for (let at = 0; at + 2 <= block.length; at = end) {
    end = at + 2 + block.readUInt8(at + 1);
    if (end > block.length) return;
    yield { type: block.readUInt8(at), value: block.subarray(at + 2, end), bytes: block.subarray(at, end) };
  }
}

export function optionsIn(extension: Uint8Array | null | undefined): JobOptions {
  if (extension === null || extension === undefined) return none;
  const options: { -readonly [name in keyof JobOptions]: JobOptions[name] } = {};
  let state = '';
  for (const { type, value } of partsOf(extension)) {
    if (type === types.leaseMs && value.length === 4) options.leaseMs = value.readUInt32BE();
    else if (type === types.maxAttempts && value.length === 1) options.maxAttempts = value.readUInt8();
    else if (type === types.backoff) {
      const backoff = readBackoff(value);
      if (backoff !== null) options.backoff = backoff;
    } else if (type === types.deadline && value.length === 6) options.deadline = value.readUIntBE(0, 6);
    else if (type === types.traceParent) {
      const parent = readParent(value);
      if (parent !== null) options.trace = { ...parent, state: '' };
    } else if (type === types.again && value.length === 4) options.again = value.readUInt32BE();
    else if (type === types.traceState) state = value.toString('latin1');
    else if (type === types.webhookOrigin && value.length === 7) options.webhookOrigin = readSafe(value, 0);
  }
  if (options.trace !== undefined && state !== '') options.trace = { ...options.trace, state };
  return options;
}

function whole(value: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
}

function bytesOfNumber(number: number): Buffer {
  const buffer = Buffer.alloc(7);
  writeSafe(buffer, 0, number);
  return buffer;
}

const backoffs = { odd: 0, ladder: 1, exponential: 2 } as const;

/** Its type (1 byte), then its waits in ms (4 each); exponential: base (4), factor (8), cap (4). */
function writeBackoff(backoff: Backoff): Buffer {
  const type = Buffer.of(backoffs[backoff.type]);
  switch (backoff.type) {
    case 'odd':
      return type;
    case 'ladder':
      return Buffer.concat([type, ...backoff.stepsMs.map((ms) => whole(ms, 4))]);
    case 'exponential': {
      const factor = Buffer.alloc(8);
      factor.writeDoubleBE(backoff.factor);
      return Buffer.concat([type, whole(backoff.baseMs, 4), factor, whole(backoff.capMs, 4)]);
    }
  }
}

/** null: of a version that knows more */
function readBackoff(value: Buffer): Backoff | null {
  const waits = value.subarray(1);
  if (value[0] === backoffs.odd && waits.length === 0) return { type: 'odd' };
  if (value[0] === backoffs.ladder && waits.length > 0 && waits.length % 4 === 0)
    return {
      type: 'ladder',
      stepsMs: Array.from({ length: waits.length / 4 }, (_, n) => waits.readUInt32BE(4 * n)),
    };
  if (value[0] === backoffs.exponential && waits.length === 16)
    return {
      type: 'exponential',
      baseMs: waits.readUInt32BE(),
      factor: waits.readDoubleBE(4),
      capMs: waits.readUInt32BE(12),
    };
  return null;
}
