// Fixed limits of mails, each with its reason. Users cannot configure them.

import { limits } from '../core/limits.ts';

export const mailLimits = {
  /** Alerts that a mail shows one by one, and the characters of each reply. */
  alertsShown: 10,
  alertExcerptMax: 300,
  /** Characters of a subject: RFC 5322 recommends lines of at most 78. */
  mailSubjectMax: 78,
  /** ms for a whole mail; for name lookup, connection and greeting, each; for a silent server. */
  mailTimes: { wholeMs: limits.mailMs, connectMs: 10_000, idleMs: 15_000 },
  mailReplyBytesMax: 64 * 1024,
} as const;
