// The numbers that both stores and the journal keep for words: a code is the position in its list of job.ts.
// Versions and other numbers of up to 53 bits are seven bytes, big endian.

export {
  alertStates as alertCodes,
  buryReasons as buryReasonCodes,
  endStates as endCodes,
  jobStates as stateCodes,
  priorities as priorityCodes,
} from './job.ts';

/** Reads a number of at most 2^53. */
export function readSafe(bytes: Buffer, at: number): number {
  return bytes.readUInt8(at) * 2 ** 48 + bytes.readUIntBE(at + 1, 6);
}

/** Writes such a number, and returns the offset after it. */
export function writeSafe(bytes: Buffer, at: number, number: number): number {
  const high = Math.floor(number / 2 ** 48);
  return bytes.writeUIntBE(number - high * 2 ** 48, bytes.writeUInt8(high, at), 6);
}
