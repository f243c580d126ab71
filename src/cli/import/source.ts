// What a reader of another system gives to the import: jobs page by page, and topics where that system
// registers them. A reader never writes to its source, except in remove().

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { mistakeIn } from '../../core/json-span.ts';

export interface SourceJob {
  /** names in the source */
  readonly topic: string;
  readonly id: string;
  /** epoch ms; null: due now */
  readonly dueAt: number | null;
  /** lost: the source has the job and would never call it */
  readonly place: 'due' | 'delayed' | 'lost';
  /** epoch ms */
  readonly acceptedAt: number | null;
  readonly failures: number;
  /** its own lease; null: that of its topic */
  readonly leaseMs: number | null;
  readonly body: JobBody;
  /** of the stored value: another one is another push of the same id */
  readonly digest: string;
  /** the record in the source, for remove() */
  readonly record: Buffer;
}

export interface JobBody {
  readonly contentType: string;
  readonly bytes: Buffer;
}

export type Found =
  | { readonly kind: 'job'; readonly job: SourceJob }
  | { readonly kind: 'unreadable'; readonly name: string; readonly reason: string }
  /** due in the source, but its content is gone: deleted there */
  | { readonly kind: 'deleted' };

export interface SourceTopic {
  readonly name: string;
  /** for POST /v1/topics, without the name */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly isOffline: boolean;
  /** what a person should know about this topic */
  readonly notes: readonly string[];
}

export interface Source {
  /** `127.0.0.1:6379, 127.0.0.1:6380`: the same text names the same source */
  readonly places: string;
  /** absent: that system registers none */
  topics?(): Promise<readonly SourceTopic[]>;
  jobs(): AsyncIterable<readonly Found[]>;
  /** Removes the jobs that are unchanged there; returns how many were. Absent: the source is only read. */
  readonly remove?: (jobs: readonly SourceJob[]) => Promise<number>;
  /** for people, in YAML; '' or absent: none */
  settings?(): Promise<string>;
  close(): Promise<void>;
}

export function digestOf(value: Buffer): string {
  return createHash('sha256').update(value).digest('base64url').slice(0, 16);
}

/** Text of a source without content types: JSON where it is JSON. */
export function bodyOfText(bytes: Buffer): JobBody {
  return jsonBody(bytes) ?? { contentType: 'text/plain; charset=utf-8', bytes };
}

/** null: not JSON. Without the blanks around it, which an item of a batch cannot have. */
export function jsonBody(bytes: Buffer): JobBody | null {
  if (mistakeIn(bytes) !== null) return null;
  return { contentType: 'application/json', bytes: Buffer.from(bytes.toString('latin1').trim(), 'latin1') };
}

/** `topic:id`, split at the first colon; null without one. */
export function splitKey(key: string): { readonly topic: string; readonly id: string } | null {
  const at = key.indexOf(':');
  return at < 0 ? null : { topic: key.slice(0, at), id: key.slice(at + 1) };
}

/** A job without what few sources have: its time of acceptance, failed attempts, a lease of its own. */
export function jobFound(
  job: Pick<SourceJob, 'topic' | 'id' | 'dueAt' | 'place' | 'body' | 'record'> & Partial<SourceJob>,
): Found {
  const absent = { acceptedAt: null, failures: 0, leaseMs: null, digest: digestOf(job.record) };
  return { kind: 'job', job: { ...absent, ...job } };
}

export function unreadable(name: Buffer | string, reason: string): Found {
  return { kind: 'unreadable', name: name.toString(), reason };
}

/** null: bytes that are not UTF-8, which dq accepts neither as an id nor in a batch. */
export function textOf(bytes: Uint8Array): string | null {
  return isUtf8(bytes) ? Buffer.from(bytes).toString() : null;
}
