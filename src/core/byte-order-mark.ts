// The byte order mark of UTF-8, with which programs on Windows begin a file. JSON does not allow it. Where dq
// reads the text, it skips the mark. It never removes the mark from the body of a job: the receiver gets the
// pushed bytes, so the push is rejected with the name of the mark.

export function hasByteOrderMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

export function withoutByteOrderMark(bytes: Buffer): Buffer {
  return hasByteOrderMark(bytes) ? bytes.subarray(3) : bytes;
}
