// The calls of ports/leaving.ts on the socket: JSON, with bodies as base64. They are rare, and only while dq
// leaves the file.

import type { LeavingJobs } from '../../../ports/leaving.ts';

export interface LeavingCall {
  readonly method: keyof LeavingJobs;
  readonly args: readonly unknown[];
}

export const leavingReads = ['state', 'find', 'page'] as const satisfies readonly (keyof LeavingJobs)[];
export const leavingChanges = [
  'begin',
  'forget',
  'end',
  'closed',
] as const satisfies readonly (keyof LeavingJobs)[];

const bytesMember = 'base64';

/** A Buffer becomes { base64: … }, no other value is an object with such a member. */
export function packed(value: unknown): string {
  const text = JSON.stringify(value, function (this: Record<string, unknown>, key, given: unknown) {
    // JSON.stringify asks a Buffer for its own form first.
    const original = this[key];
    return Buffer.isBuffer(original) ? { [bytesMember]: original.toString('base64') } : given;
  });
  return text ?? 'null';
}

export function unpacked(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, bytesMember)) return value;
    return Buffer.from(String((value as Record<string, unknown>)[bytesMember]), 'base64');
  });
}
