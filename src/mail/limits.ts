// Fixed limits of mails, each with its reason. Users cannot configure them.

import { limits } from '../core/limits.ts';

export const mailLimits = {
  /** Incidents of a mail, dead jobs of a webhook's body, and ids of a log line. */
  alertsShown: 10,
  /** Dead jobs that a mail names, and the characters of a reply or a cause. */
  samplesShown: 3,
  alertExcerptMax: 300,
  /** Characters of a subject: RFC 5322 recommends lines of at most 78. */
  mailSubjectMax: 78,
  /** ms for a whole mail; for the connection with its look-up, and for the greeting; for a silent server. */
  mailTimes: { wholeMs: limits.mailMs, connectMs: 10_000, idleMs: 15_000 },
  mailReplyBytesMax: 64 * 1024,
  /** ms for a whole request to a hook: shorter than a mail, because it goes out beside one. */
  hookMs: 10_000,
  /** Characters from which on a part of a hook's URL may be a credential: those of the robots have 9 and
   *  more, and words such as `send` or `webhook` stay readable. */
  credentialMin: 9,
  /** Bytes of a chat message. The robots take 2,048 (wecom) and about 20,000 (dingtalk, feishu); slack cuts
   *  40,000 characters. */
  chatBytesMax: { slack: 16_000, dingtalk: 16_000, wecom: 2_000, feishu: 16_000 },
  /** Characters of the end of a message that is too long: the command, the link to the console, and the
   *  host. */
  chatEndMax: 800,
} as const;
