// Constants of the spool.

export const spoolLimits = {
  /** A segment; a larger record gets one of its own size. Filled with zeros in advance, so that fdatasync
   *  writes no metadata: 2,150 groups/s instead of 1,700 when a file is appended to. */
  segmentBytes: 8 * 1024 * 1024,
  /** Records of one write and fdatasync. */
  groupBytes: 1024 * 1024,
  /** A record without `synced` waits so long for the next fdatasync: what a power cut may repeat. */
  syncMs: 1_000,
  /** At most one line about changes that are not recorded in this time. */
  droppedMs: 1_000,
  /** A process that ends waits so long for its last mark of them. */
  lastMarkMs: 3_000,
  /** Zeros are written in pieces of this size. */
  zeroBytes: 1024 * 1024,
  /** A file that cannot be made is tried again after this time. */
  againMs: 1_000,
  /** Records that wait in memory while no file can be written; more ends are dropped and reported. */
  waitingBytes: 16 * 1024 * 1024,
  /** Shipped segments are kept so long, while they take at most this part of the limit. */
  keptMs: 3_600_000,
  keptPart: 0.25,
  /** The sizes of all files are read again after this time. */
  sizesMs: 1_000,
  /** Longer records do not exist: the largest body (option limits.bodyBytes) has 16 MiB. */
  recordBytesMax: 32 * 1024 * 1024,
  /** Read at once: a batch to MySQL has at most as much. */
  readBytes: 256 * 1024,
  /** A segment without a record has only zeros there; a record has other bytes. */
  firstBytes: 4_096,
  /** A search for the next valid record lets other work run after so many bytes: about 5 ms. */
  searchBytes: 512 * 1024,
  /** A segment is damaged when so many examinations, syncMs apart, find it so. */
  examinations: 2,
  /** The largest body of a push with a journal (config/cross-checks.ts): a spool without space for it is
   *  full. */
  pushBytesMax: 1024 * 1024,
  /** Part of the limit that ends may use beyond it. */
  endsPart: 0.1,
  /** At least so many segments: each process that ends jobs needs one. */
  endsSegmentsMin: 4,
} as const;
