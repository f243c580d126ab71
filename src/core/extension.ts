// Packs the options of one job as its extension block, which both stores and the journal keep beside the
// job: per option its type (1 byte), the length of its value (1) and the value, big endian. Types are stored:
// only add some.
// Invariant: an unknown type stays in the block and is ignored, so an option survives a version without it.

const leaseMsType = 1;

/** null: a job without options; it costs no byte. */
export function extensionOf({ leaseMs }: { readonly leaseMs?: number | undefined }): Buffer | null {
  if (leaseMs === undefined) return null;
  const block = Buffer.from([leaseMsType, 4, 0, 0, 0, 0]);
  block.writeUInt32BE(Math.ceil(leaseMs), 2);
  return block;
}

/** The options of a block as members of a job; an unreadable rest is ignored. */
export function optionsIn(extension: Uint8Array | null): { readonly leaseMs?: number } {
  if (extension === null) return {};
  const block = Buffer.from(extension.buffer, extension.byteOffset, extension.byteLength);
  for (let at = 0; at + 2 <= block.length; at += 2 + block.readUInt8(at + 1))
    if (block[at] === leaseMsType && block[at + 1] === 4 && at + 6 <= block.length)
      return { leaseMs: block.readUInt32BE(at + 2) };
  return {};
}
