// json-span.ts finds the first and last byte of values in JSON text, so that dq can pass on a part of it
// unchanged. Accepts exactly what JSON.parse accepts. Builds no values and does not recurse: depth costs a
// byte per level and no stack. Reads every byte once. Callers check that the text is valid UTF-8 (`isUtf8`).
// Positions are byte offsets. A mistake is returned as `~position`, always negative: valid text costs no
// allocation.

export interface Span {
  /** of its first byte */
  readonly from: number;
  /** behind its last byte */
  readonly to: number;
}

export interface MemberSpan {
  /** with its quotes */
  readonly name: Span;
  readonly value: Span;
}

/** Byte offset of the mistake. */
interface Mistake {
  readonly mistakeAt: number;
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openList = 0x5b;
const backslash = 0x5c;
const closeList = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

/** Shared by all calls: they are synchronous and never overlap. A deeper text gets a stack of its own. */
const fewLevels = new Uint8Array(256);

/** The first byte at or after `at` that is not white space. */
export function skipBlank(text: Uint8Array, at: number): number {
  for (let n = at; ; n++) {
    const byte = text[n];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return n;
  }
}

/** Byte offset of the first mistake of a text that should be one JSON value; null: it is one. */
export function mistakeIn(text: Uint8Array): number | null {
  const to = skipValue(text, skipBlank(text, 0));
  if (to < 0) return ~to;
  const end = skipBlank(text, to);
  return end < text.length ? end : null;
}

/** A value whose scan paused at `at`: the containers that are open there. */
interface OpenValue {
  at: number;
  closers: Uint8Array;
  depth: number;
}

/** Behind every text. */
const never = 0x3fffffff;
/** what skipValue returns for a pause: no value ends at 0 */
const paused = 0;

/** The end of the value that begins at `from` (no white space before it), or ~position of a mistake in it.
 *  With `open`: `paused` at the first value at or after `until`; the next call goes on from `open.at`. */
function skipValue(text: Uint8Array, from: number, until = never, open: OpenValue | null = null): number {
  let closers = open === null ? fewLevels : open.closers;
  let depth = 0;
  if (open !== null) {
    depth = open.depth;
    open.depth = 0;
  }
  let at = from;
  for (;;) {
    if (at >= until && open !== null) {
      open.at = at;
      open.closers = closers;
      open.depth = depth;
      return paused;
    }
    const first = text[at];
    if (first === openObject || first === openList) {
      const closer = first === openObject ? closeObject : closeList;
      at = skipBlank(text, at + 1);
      if (text[at] !== closer) {
        if (depth === closers.length) closers = grown(closers);
        closers[depth++] = closer;
        if (closer === closeObject) at = skipName(text, at);
        if (at < 0) return at;
        continue;
      }
      at += 1;
    } else {
      at = skipScalar(text, at);
      if (at < 0) return at;
    }
    // A value ended; its containers may end too.
    for (;;) {
      if (depth === 0) return at;
      const closer = closers[depth - 1];
      at = skipBlank(text, at);
      if (text[at] === closer) {
        depth -= 1;
        at += 1;
        continue;
      }
      if (text[at] !== comma) return ~at;
      at = skipBlank(text, at + 1);
      if (closer === closeObject) at = skipName(text, at);
      if (at < 0) return at;
      break;
    }
  }
}

function grown(closers: Uint8Array): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(closers.length * 4);
  larger.set(closers);
  return larger;
}

/** The end of `"name" :` and the white space after it. */
function skipName(text: Uint8Array, at: number): number {
  if (text[at] !== quote) return ~at;
  const end = skipString(text, at);
  if (end < 0) return end;
  const next = skipBlank(text, end);
  return text[next] === colon ? skipBlank(text, next + 1) : ~next;
}

function skipScalar(text: Uint8Array, at: number): number {
  switch (text[at]) {
    case quote:
      return skipString(text, at);
    case 0x74:
      return skipWord(text, at, 'true');
    case 0x66:
      return skipWord(text, at, 'false');
    case 0x6e:
      return skipWord(text, at, 'null');
    default:
      return skipNumber(text, at);
  }
}

function skipWord(text: Uint8Array, at: number, word: string): number {
  for (let n = 1; n < word.length; n++) if (text[at + n] !== word.charCodeAt(n)) return ~(at + n);
  return at + word.length;
}

function skipString(text: Uint8Array, at: number): number {
  for (let n = at + 1; ; n++) {
    const byte = text[n];
    if (byte === quote) return n + 1;
    if (byte === backslash) {
      n = skipEscape(text, n + 1);
      if (n < 0) return n;
    } else if (byte === undefined || byte < 0x20) return ~n;
  }
}

/** The last byte of the escape whose letter is at `at`. */
function skipEscape(text: Uint8Array, at: number): number {
  switch (text[at]) {
    case quote:
    case backslash:
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return at;
    case 0x75: // u
      for (let n = at + 1; n <= at + 4; n++) if (!isHex(text[n])) return ~n;
      return at + 4;
    default:
      return ~at;
  }
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}

function skipNumber(text: Uint8Array, from: number): number {
  let at = text[from] === 0x2d ? from + 1 : from;
  // A digit after a leading zero fails in the next step.
  at = text[at] === 0x30 ? at + 1 : skipDigits(text, at);
  if (at >= 0 && text[at] === 0x2e) at = skipDigits(text, at + 1);
  if (at >= 0 && (text[at] === 0x65 || text[at] === 0x45)) {
    const sign = text[at + 1];
    at = skipDigits(text, sign === 0x2b || sign === 0x2d ? at + 2 : at + 1);
  }
  return at;
}

/** Returns the end of the digits, of which there must be at least one. */
function skipDigits(text: Uint8Array, from: number): number {
  let at = from;
  while (isDigit(text[at])) at += 1;
  return at > from ? at : ~at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** The elements of a text that is one JSON list, with white space around it; null for any other value. Stops
 *  after element `max` + 1: a text of 16 MiB can hold eight million. */
export function elementsOf(text: Uint8Array, max: number): readonly Span[] | Mistake | null {
  const steps = elementSteps(text, max, never);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Finds the elements in steps of about `stepBytes`. A string is never split. */
export function* elementSteps(
  text: Uint8Array,
  max: number,
  stepBytes: number,
): Generator<void, readonly Span[] | Mistake | null> {
  const open: OpenValue = { at: 0, closers: new Uint8Array(fewLevels.length), depth: 0 };
  const elements: Span[] = [];
  let until = stepBytes;
  const start = skipBlank(text, 0);
  const isList = text[start] === openList;
  let at = isList ? skipBlank(text, start + 1) : start;
  if (isList && text[at] === closeList) return mistakeOf(ending(text, at + 1)) ?? elements;
  for (;;) {
    let to = skipValue(text, at, until, open);
    while (to === paused) {
      yield;
      until = open.at + stepBytes;
      to = skipValue(text, open.at, until, open);
    }
    if (to < 0) return { mistakeAt: ~to };
    if (!isList) return mistakeOf(ending(text, to));
    if (elements.push({ from: at, to }) > max) return elements;
    at = skipBlank(text, to);
    if (text[at] === closeList) return mistakeOf(ending(text, at + 1)) ?? elements;
    if (text[at] !== comma) return { mistakeAt: at };
    at = skipBlank(text, at + 1);
  }
}

/** The members of a text that is one JSON object, in order and with repeated names; null for any other
 *  value. Stops after member `max` + 1. */
export function membersOf(text: Uint8Array, max: number): readonly MemberSpan[] | Mistake | null {
  const start = skipBlank(text, 0);
  if (text[start] !== openObject) {
    const end = skipValue(text, start);
    return mistakeOf(end < 0 ? end : ending(text, end));
  }
  const members: MemberSpan[] = [];
  let at = skipBlank(text, start + 1);
  if (text[at] === closeObject) return mistakeOf(ending(text, at + 1)) ?? members;
  for (;;) {
    if (text[at] !== quote) return { mistakeAt: at };
    const nameEnd = skipString(text, at);
    if (nameEnd < 0) return { mistakeAt: ~nameEnd };
    const between = skipBlank(text, nameEnd);
    if (text[between] !== colon) return { mistakeAt: between };
    const from = skipBlank(text, between + 1);
    const to = skipValue(text, from);
    if (to < 0) return { mistakeAt: ~to };
    if (members.push({ name: { from: at, to: nameEnd }, value: { from, to } }) > max) return members;
    at = skipBlank(text, to);
    if (text[at] === closeObject) return mistakeOf(ending(text, at + 1)) ?? members;
    if (text[at] !== comma) return { mistakeAt: at };
    at = skipBlank(text, at + 1);
  }
}

/** The end of a text that has only white space left, or ~position of the first other byte. */
function ending(text: Uint8Array, at: number): number {
  const end = skipBlank(text, at);
  return end >= text.length ? end : ~end;
}

function mistakeOf(answer: number): Mistake | null {
  return answer < 0 ? { mistakeAt: ~answer } : null;
}
