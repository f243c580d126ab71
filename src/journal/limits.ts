// Constants of the journal.

import { limits } from '../core/limits.ts';

/** The decorator. */
export const journalStoreLimits = {
  /** A record of a push beside its body: topic, id, content type and options of the longest kind. */
  recordBytes: 2_048,
  /** Kept jobs that a push reads at once: each may have a body of limits.bodyBytes. */
  keptAtOnceMax: 4,
  /** Pushes of one job that is kept and ends before dq has read it. Each round needs an end within the ms
   *  between two calls. */
  keepRoundsMax: 3,
  /** Claimed alerts whose topic and id are remembered until they are settled; some claims expire instead. */
  claimsMax: 10_000,
} as const;

/** The files between the processes and MySQL. */
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

/** The agents of dq-upkeep. */
export const journalLimits = {
  /** The journal: how often the spool is read while nothing waits; one batch to MySQL; and how long before
   *  the end of the retention a segment of the spool is too old to be merged. */
  journalEveryMs: 1_000,
  journalBatch: { changes: 1_000, bytes: 1024 * 1024 },
  journalLateMs: 24 * 3_600_000,
  /** How often the recorder writes to the spool which number MySQL has. A new process does not notice that
   *  MySQL went back by less, but ships it again: segments are kept for longer. */
  shippedNoteMs: 60_000,
  /** A journal that MySQL does not have after this time is an incident. */
  journalLagMs: 60_000,
  /** Rows that one call removes: some 20 ms; and how often old ones are looked for. */
  journalTrimMax: 1_000,
  journalTrimMs: 60_000,
  /** Partitions are compared with the journal in turns of this time, each within lookAllMs; the marks of
   *  other instances are read again after marksEveryMs. */
  lookEveryMs: 1_000,
  lookAllMs: 4_000,
  marksEveryMs: 60_000,
  /** A healing: how long its worker keeps its claim between two pages, and, while another one may claim it,
   *  holds the jobs of a partition to which ended ones may have come back; how long it waits for other
   *  instances that were seen within restoreSeenMs, and at least for those without a sign: they give one each
   *  second when MySQL is back; how often it looks for them; pause after a failure. */
  restoreClaimMs: 15_000,
  restoreHoldMs: 30_000,
  restoreBarrierMs: 60_000,
  restoreSeenMs: limits.journalSeenMs,
  restoreWaitMs: 200,
  restoreAgainMs: 1_000,
  /** Rows of the journal that a restore reads at once: each holds a body. */
  restoreRows: 50,
  /** The removal of a shard follows its work within this time, else it failed; and the most buckets of a
   *  shard. */
  restoreListedMs: 600_000,
  bucketsMax: 1_024,
  /** fsck of the journal: jobs of one page, and how long a survey for one works; jobs read at once, each with
   *  its body; examples of one problem; how old a row is that must have its job; how long a process may be
   *  between store and spool; and how far clocks may differ. */
  fsckPage: 500,
  fsckScanMs: 400,
  fsckReads: 8,
  fsckExamples: 5,
  fsckRowAgeMs: 60_000,
  fsckSpareMs: 1_000,
  fsckClockMs: 5_000,
  /** The audit: how often; how long a job is overdue before it is compared with the store; instances that
   *  were seen within auditSeenMs have to ship first, because the history of the store holds ends for at
   *  least that long; jobs of one round; rows read at once, with bodies. */
  auditEveryMs: 600_000,
  auditOverdueMs: 600_000,
  auditSeenMs: 3_600_000,
  auditMax: 10_000,
  auditBatch: 50,
  /** The survey: of each shard daily; again after surveyAgainMs while ends are not recorded; jobs and bytes
   *  per second; how often its position is saved; and the lag of the recorder above which it waits. */
  surveyEveryMs: 24 * 3_600_000,
  surveyAgainMs: 3_600_000,
  surveyTurnMs: 10_000,
  surveyJobsPerSecond: 1_000,
  surveyBytesPerSecond: 4 * 1024 * 1024,
  surveySaveMs: 1_000,
  surveyLagMs: 10_000,
} as const;
