// Versions and other numbers of up to 53 bits as seven bytes, big endian.

/** At most 2^53. */
export function readSafe(bytes: Buffer, at: number): number {
  return bytes.readUInt8(at) * 2 ** 48 + bytes.readUIntBE(at + 1, 6);
}

/** Returns the offset after it. */
export function writeSafe(bytes: Buffer, at: number, number: number): number {
  const high = Math.floor(number / 2 ** 48);
  return bytes.writeUIntBE(number - high * 2 ** 48, bytes.writeUInt8(high, at), 6);
}
