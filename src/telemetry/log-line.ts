// Formats one log line: one JSON object that is one line for every terminal and tool.
// Invariant: never throws and bounds its output, because a log line must not fail a delivery.

import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { printable, printableJson } from '../runtime/printable-text.ts';
import { telemetryLimits } from './limits.ts';

/** A line with its line feed. `head`: the first members as text: copying an object costs as much as writing
 *  it. */
export function formatLine(members: Readonly<Record<string, unknown>>, head = ''): string {
  const line = head === '' ? null : plainLine(members, head);
  if (line !== null) return line;
  const text = printableJson(stringify(members));
  if (head === '') return `${text}\n`;
  return text === '{}' ? `{${head}}\n` : `{${head},${text.slice(1)}\n`;
}

/** The line of scalar values and short ASCII texts without escapes, in half the time of JSON.stringify; null:
 *  there is another value. */
function plainLine(members: Readonly<Record<string, unknown>>, head: string): string | null {
  let text = head;
  for (const name in members) {
    const value = members[name];
    if (value === undefined) continue;
    if (!isVerbatim(name)) return null;
    if (typeof value === 'string') {
      if (!isVerbatim(value)) return null;
      text += `,"${name}":"${value}"`;
    } else {
      if (!isScalar(value) || (typeof value === 'number' && !Number.isFinite(value))) return null;
      text += `,"${name}":${value}`;
    }
  }
  return text.length > telemetryLimits.logLineMax ? null : `{${text}}\n`;
}

/** Whether JSON writes the text without an escape, and no rule of this file changes it. */
function isVerbatim(text: string): boolean {
  if (text.length > limits.logValueMax) return false;
  for (let n = 0; n < text.length; n += 1) {
    const code = text.charCodeAt(n);
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false;
  }
  return true;
}

/** The `head` of at least one member. */
export function headOf(members: Readonly<Record<string, unknown>>): string {
  return printableJson(stringify(members)).slice(1, -1);
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
  return printable([at, title, message, ...words].join(' '));
}

function stringify(members: Readonly<Record<string, unknown>>): string {
  try {
    // The replacer triples the cost; a line of short texts and numbers needs none.
    const text = JSON.stringify(members, isPlain(members) ? undefined : forLog);
    if (text.length <= telemetryLimits.logLineMax) return text;
  } catch {
    // A circular value, or a toJSON that throws: log the plain values.
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
  if (value instanceof Error) return cut(messageOf(value));
  const held = (this as Record<string, unknown>)[key];
  return held instanceof Uint8Array ? `<${held.byteLength} bytes>` : value;
}

function cut(text: string): string {
  if (text.length <= limits.logValueMax) return text;
  const kept = text.slice(0, limits.logValueMax);
  return `${kept}…(${text.length - kept.length} more)`;
}
