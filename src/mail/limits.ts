// Fixed limits of mail: bounds that users cannot configure, each with its reason.

export const mailLimits = {
  /** Of them, shown one by one (callback.md), with so many characters of the reply. */
  alertsShown: 10,
  alertExcerptMax: 300,
  /** Characters of a subject: RFC 5322 asks for lines of at most 78. */
  mailSubjectMax: 78,
  /** Parts of it: name, connection and greeting each; a server that says nothing. */
  mailConnectMs: 10_000,
  mailIdleMs: 15_000,
  mailReplyBytesMax: 64 * 1024,
} as const;
