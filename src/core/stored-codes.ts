// The numbers that both stores and the journal keep for words: a code is the index in its list. They are
// stored, so lists only grow at their end. Versions and other numbers of up to 53 bits are seven bytes, big
// endian.

import type { BuryReason, EndState, JobState, Priority } from './job.ts';

export const stateCodes: readonly JobState[] = ['delayed', 'ready', 'reserved', 'dead'];
export const priorityCodes: readonly Priority[] = ['high', 'normal', 'low'];
export const buryReasonCodes: readonly BuryReason[] = [
  'attempts_exhausted',
  'gone',
  'no_retry',
  'poison',
  'nacked',
  'expired',
];
export const endCodes: readonly EndState[] = ['done', 'cancelled', 'purged', 'expired'];
export const alertCodes = ['owed', 'claimed', 'sent', 'nobody'] as const;

/** Reads a number of at most 2^53. */
export function readSafe(bytes: Buffer, at: number): number {
  return bytes.readUInt8(at) * 2 ** 48 + bytes.readUIntBE(at + 1, 6);
}

/** Writes such a number, and returns the offset after it. */
export function writeSafe(bytes: Buffer, at: number, number: number): number {
  const high = Math.floor(number / 2 ** 48);
  return bytes.writeUIntBE(number - high * 2 ** 48, bytes.writeUInt8(high, at), 6);
}
