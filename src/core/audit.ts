// An entry of the audit log: one change by a call, and the difference that it made. Pure but for the random
// digits. No entry holds a secret, a password or the value of a header: texts of topics pass difference().

import { randomBytes } from '../runtime/time.ts';
import { limits } from './limits.ts';

/** null = absent */
export interface AuditChange {
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

export interface AuditDetail {
  /** fields whose value differs */
  readonly changes?: readonly AuditChange[];
  /** what the caller selected or gave */
  readonly filter?: Readonly<Record<string, unknown>>;
  /** jobs that the call changed */
  readonly count?: number;
}

export interface AuditEntry {
  /** unique; orders entries by their time */
  readonly id: string;
  /** epoch ms, by the clock of the process that answered */
  readonly at: number;
  /** name of the token, link or session; `this machine`, `dq CLI` */
  readonly actor: string;
  /** IP address of the caller, or of the proxy before dq */
  readonly address: string;
  /** operationId of the route */
  readonly action: string;
  /** null: concerns no single topic */
  readonly topic: string | null;
  /** null: concerns no single job */
  readonly jobId: string | null;
  readonly detail: AuditDetail | null;
  /** HTTP status of the answer */
  readonly status: number;
  /** of the error; null: the call succeeded */
  readonly code: string | null;
}

/** Which entries a list shows; undefined = all. Times in epoch ms, `until` exclusive. */
export interface AuditFilter {
  readonly topic?: string | undefined;
  readonly jobId?: string | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

export const auditIdPattern = /^[0-9a-f]{24}$/;

/** The first id of this millisecond: ids of entries compare as their times. */
export function firstAuditId(at: number): string {
  const ms = Math.min(Math.max(0, Math.floor(at)), 2 ** 48 - 1);
  return ms.toString(16).padStart(12, '0');
}

export function makeAuditId(at: number): string {
  return firstAuditId(at) + randomBytes(6).toString('hex');
}

type Json = Readonly<Record<string, unknown>>;
/** Members that every change sets, and the digest of a secret. */
const unshown: ReadonlySet<string> = new Set(['createdAt', 'updatedAt', 'revision', 'secretDigest']);
const hidden = '***';

/** The members that differ, one line per header, whose values are hidden. Null = no object. */
export function difference(before: Json | null, after: Json | null): readonly AuditChange[] {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  const changes: AuditChange[] = [];
  for (const field of names) {
    if (unshown.has(field)) continue;
    const [old, next] = [before?.[field], after?.[field]];
    if (JSON.stringify(old) === JSON.stringify(next)) continue;
    if (field === 'headers') changes.push(...headerChanges(old, next));
    else changes.push({ field, before: shown(field, old), after: shown(field, next) });
  }
  return changes;
}

function headerChanges(before: unknown, after: unknown): readonly AuditChange[] {
  const [old, next] = [Object(before) as Json, Object(after) as Json];
  return [...new Set([...Object.keys(old), ...Object.keys(next)])]
    .filter((name) => old[name] !== next[name])
    .map((name) => ({
      field: `headers.${name}`,
      before: Object.hasOwn(old, name) ? hidden : null,
      after: Object.hasOwn(next, name) ? hidden : null,
    }));
}

function shown(field: string, value: unknown): unknown {
  if (value === undefined || value === null) return null;
  // In whole, at most 2,048 characters: its end can be all that differs.
  if (field === 'callbackUrl') return withoutPassword(String(value));
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > limits.auditTextMax ? cut(text) : value;
}

/** Hides an invalid URL: it may hold a password. */
function withoutPassword(text: string): string {
  try {
    const url = new URL(text);
    if (url.password === '') return text;
    url.password = hidden;
    return url.href;
  } catch {
    return hidden;
  }
}

function cut(text: string): string {
  return text.length > limits.auditTextMax ? `${text.slice(0, limits.auditTextMax)}…` : text;
}

/** The members of a filter as short texts; null = there are none. */
export function shownFilter(filter: Json): Json | null {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  if (given.length === 0) return null;
  return Object.fromEntries(given.map(([name, value]) => [name, shown(name, value)]));
}
