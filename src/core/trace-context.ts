// Reads and writes the W3C trace context: the headers traceparent and tracestate. dq keeps what a push brings
// and sends each attempt as a child of it. Pure, but for the random ids of attempts.
// Source: https://www.w3.org/TR/trace-context/ (level 1; of later versions the fields of level 1 are read).
// Invariant: a context that is not valid is as if it were absent. It never rejects a push.

import { randomBytes } from '../runtime/time.ts';

export interface TraceContext {
  /** 32 lower-case hexadecimal digits, not all 0 */
  readonly traceId: string;
  /** of the producer: 16 lower-case hexadecimal digits, not all 0 */
  readonly spanId: string;
  /** 0 … 255; bit 0: sampled */
  readonly flags: number;
  /** list members as the producer wrote them; '' without one */
  readonly state: string;
}

const parentPattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const onlyZeros = /^0+$/;
/** bytes of the longest state that dq keeps: one value of the extension block */
const stateBytesMax = 255;
/** Members above this length go first when the state is too long (W3C, 3.3.1.5). */
const longMember = 128;
const memberPattern =
  /^([a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const membersMax = 32;

/** null: no valid context. Repeated headers come joined with commas. */
export function readTraceContext(
  parent: string | readonly string[] | undefined,
  state: string | readonly string[] | undefined,
): TraceContext | null {
  if (typeof parent !== 'string') return null;
  const [, version = '', traceId = '', spanId = '', flags = '', more] =
    parentPattern.exec(parent.trim()) ?? [];
  if (traceId === '' || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (onlyZeros.test(traceId) || onlyZeros.test(spanId)) return null;
  return {
    traceId,
    spanId,
    flags: Number.parseInt(flags, 16),
    state: readState([state ?? ''].flat().join(',')),
  };
}

/** A state with a wrong, repeated or surplus member is dropped whole. */
function readState(text: string): string {
  const members = text
    .split(',')
    .map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((member) => member !== '');
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf('='))));
  const isValid = members.length <= membersMax && members.every((member) => memberPattern.test(member));
  if (!isValid || keys.size < members.length) return '';
  const long = members.findLastIndex((member) => member.length > longMember);
  for (let last = long; members.join(',').length > stateBytesMax && last >= 0; ) {
    members.splice(last, 1);
    last = members.findLastIndex((member) => member.length > longMember);
  }
  while (members.join(',').length > stateBytesMax) members.pop();
  return members.join(',');
}

/** The header of one attempt: a child of the context, with a span id of its own. */
export function childOf({ traceId, flags }: TraceContext): string {
  return traceParent(traceId, newSpanId(), flags);
}

/** The header as the producer sent it, in version 00. */
export function parentOf({ traceId, spanId, flags }: TraceContext): string {
  return traceParent(traceId, spanId, flags);
}

const traceParent = (traceId: string, spanId: string, flags: number): string =>
  `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;

function newSpanId(): string {
  const id = randomBytes(8).toString('hex');
  return onlyZeros.test(id) ? newSpanId() : id;
}

const parentBytes = 25;

/** The parent as bytes of the extension block: trace id (16), span id (8), flags (1). */
export function writeParent({ traceId, spanId, flags }: TraceContext): Buffer {
  return Buffer.concat([Buffer.from(traceId + spanId, 'hex'), Buffer.of(flags)]);
}

/** null: of a version that knows more */
export function readParent(value: Buffer): Omit<TraceContext, 'state'> | null {
  if (value.length !== parentBytes) return null;
  const ids = value.toString('hex', 0, parentBytes - 1);
  return { traceId: ids.slice(0, 32), spanId: ids.slice(32), flags: value.readUInt8(parentBytes - 1) };
}
