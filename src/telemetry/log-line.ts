// One line of a log: one JSON object that stays one line on every terminal and in every tool, whatever the values hold.
// Never throws, and bounds what it is given: a log line is the last thing that may fail a delivery.

import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';

/** What JSON leaves as it is and a terminal obeys or a reader splits at: DEL and C1 (a terminal's commands), line and
 *  paragraph separators, marks that turn the direction of text. */
const unsafe = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** With its line feed. `head`: members that come first, written beforehand: to copy an object into another one costs as much as
 *  writing it. */
export function formatLine(members: Readonly<Record<string, unknown>>, head = ''): string {
  const text = escapeUnsafe(stringify(members));
  if (head === '') return `${text}\n`;
  return text === '{}' ? `{${head}}\n` : `{${head},${text.slice(1)}\n`;
}

/** Of at least one member. */
export function headOf(members: Readonly<Record<string, unknown>>): string {
  return escapeUnsafe(stringify(members)).slice(1, -1);
}

/** A notice for people: `2030-01-31T09:00:00.000Z dq-master ready url=http://127.0.0.1:6789`. */
export function formatReadable(
  at: string,
  title: string,
  message: string,
  fields: Readonly<Record<string, unknown>> = {},
): string {
  const words = Object.entries(fields).map(([name, value]) => {
    const text = typeof value === 'string' ? cut(value) : (JSON.stringify(value, forLog) ?? '');
    return `${name}=${/^[^\s"\u0000-\u001f]+$/.test(text) || typeof value !== 'string' ? text : JSON.stringify(text)}`;
  });
  return escapeUnsafe([at, title, withoutControls(message), ...words].join(' '));
}

/** For text that is printed as it is: one line, no terminal commands. */
export function withoutControls(text: string): string {
  return escapeUnsafe(text.replaceAll(/[\u0000-\u001f]/g, (char) => JSON.stringify(char).slice(1, -1)));
}

function stringify(members: Readonly<Record<string, unknown>>): string {
  try {
    // The replacer costs three times the rest; a line of short texts and numbers needs none.
    const text = JSON.stringify(members, isPlain(members) ? undefined : forLog);
    if (text.length <= limits.logLineMax) return text;
  } catch {
    // Circular, or a toJSON that throws: what is plain in the line is still worth having.
  }
  const plain = Object.entries(members).filter(([, value]) => typeof value !== 'object' || value === null);
  return JSON.stringify({ ...Object.fromEntries(plain), cut: true }, forLog);
}

function isPlain(members: Readonly<Record<string, unknown>>): boolean {
  for (const name in members) {
    const value = members[name];
    if (typeof value === 'string' ? value.length > limits.logValueMax : !isScalar(value)) return false;
  }
  return true;
}

function isScalar(value: unknown): boolean {
  return value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean';
}

/** A replacer, so `this` is the object that holds the value, as it was before its toJSON. */
function forLog(this: unknown, key: string, value: unknown): unknown {
  if (typeof value === 'string') return cut(value);
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Error) return cut(reasonOf(value));
  const held = (this as Record<string, unknown>)[key];
  return held instanceof Uint8Array ? `<${held.byteLength} bytes>` : value;
}

function cut(text: string): string {
  if (text.length <= limits.logValueMax) return text;
  const kept = text.slice(0, limits.logValueMax);
  return `${kept}…(${text.length - kept.length} more)`;
}

function escapeUnsafe(text: string): string {
  return text.replace(unsafe, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
