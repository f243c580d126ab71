// The calls of ports/leaving.ts on the socket: JSON, and after it the bytes of its Buffers, so that a frame
// has space for the largest body. They are rare, and only while dq leaves the file.

import type { LeavingJobs } from '../../../ports/leaving.ts';
import type { Reader, Writer } from './protocol.ts';

export interface LeavingCall {
  readonly method: keyof LeavingJobs;
  readonly args: readonly unknown[];
}

export const leavingReads = ['state', 'find', 'page'] as const satisfies readonly (keyof LeavingJobs)[];
export const leavingChanges = [
  'begin',
  'opens',
  'forget',
  'end',
  'closed',
] as const satisfies readonly (keyof LeavingJobs)[];

const bytesMember = 'bytes';

/** A Buffer of an object becomes { bytes: its place }, no other value is an object with such a member. */
export function writeAnswer(w: Writer, value: unknown): void {
  const buffers: Buffer[] = [];
  // In its object: JSON.stringify asks a Buffer for its own form before the Buffer itself is shown.
  const text = JSON.stringify(value ?? null, (_key, given: unknown) => {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return given;
    const members = Object.entries(given).map(([name, member]) =>
      Buffer.isBuffer(member) ? [name, { [bytesMember]: buffers.push(member) - 1 }] : [name, member],
    );
    return Object.fromEntries(members);
  });
  w.text(text).list(buffers, (to, buffer) => to.bytes(buffer));
}

export function readAnswer(r: Reader): unknown {
  const text = r.text();
  const buffers = r.list((from) => from.bytes());
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, bytesMember)) return value;
    return buffers[(value as Record<string, number>)[bytesMember] ?? -1];
  });
}
