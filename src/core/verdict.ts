// judge() judges one attempt: success, or failure with its reason and consequences. settle() decides from the
// verdict whether the notifier acks, retries or buries the job. Pure.
// Invariant: every failure counts against maxAttempts, so every job ends.

import type { AttemptReason, BuryReason } from './job.ts';
import { retryAfterMs, retryDelayMs } from './retry-policy.ts';
import { evaluateRule, type ReplyView, type Rule, readsBody } from './rule/reply-rule.ts';
import type { Topic } from './topic/topic.ts';

/** Outcomes without a whole reply; no topic setting changes them. */
export type TransportReason = Extract<
  AttemptReason,
  | 'blocked_address'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'protocol'
  | 'mq_refused'
  | 'mq_unroutable'
>;

export interface CallReply {
  readonly kind: 'replied';
  readonly status: number;
  /** by lower-case name; null when absent */
  header(name: string): string | null;
  /** lower-case names, in the order of the reply */
  headerNames(): readonly string[];
  /** the part of the body that was read, decoded; '' when empty */
  readonly text: string;
  /** bytes of the body that were read */
  readonly bytes: number;
  /** the body was longer than limits.replyBytesMax; the rest was dropped */
  readonly cut: boolean;
}

/** How one call ended. `confirmed`: the broker has confirmed the message. */
export type CallOutcome =
  | { readonly kind: 'no_reply'; readonly reason: TransportReason }
  | { readonly kind: 'confirmed' }
  | CallReply;

export interface Failure {
  readonly outcome: 'failed';
  readonly reason: AttemptReason;
  /** the receiver requests no further attempt of this job */
  readonly noMoreAttempts: 'gone' | 'no_retry' | null;
  /** wait that the receiver requests; 0 = no usable request */
  readonly retryAfterMs: number;
}

export type Verdict = { readonly outcome: 'delivered' } | Failure;

/** `rule`: the topic's, parsed; null = no rule. `nowMs` replaces a missing Date of the reply. */
export function judge(
  topic: Pick<Topic, 'okStatus' | 'emptyReply'>,
  rule: Rule | null,
  call: { readonly attempt: number; readonly nowMs: number },
  outcome: CallOutcome,
): Verdict {
  if (outcome.kind === 'no_reply')
    return { outcome: 'failed', reason: outcome.reason, noMoreAttempts: null, retryAfterMs: 0 };
  if (outcome.kind === 'confirmed') return { outcome: 'delivered' };
  const reason = faultOf(topic, rule, call.attempt, outcome);
  if (reason === null) return { outcome: 'delivered' };
  return {
    outcome: 'failed',
    reason,
    noMoreAttempts: refusalOf(outcome),
    retryAfterMs: pauseOf(outcome, call.nowMs),
  };
}

/** How long the receiver asks dq to call the whole topic less, because it gets too many calls: by 429, 0 = it
 *  names no time, or by 503 with a time. null: it does not. A reply that ends its job is about that job. */
export function slowDownOf(
  topic: Pick<Topic, 'okStatus'>,
  verdict: Verdict,
  outcome: CallOutcome,
): number | null {
  if (outcome.kind !== 'replied' || verdict.outcome !== 'failed') return null;
  const { noMoreAttempts, retryAfterMs } = verdict;
  if (isOkStatus(topic.okStatus, outcome.status) || noMoreAttempts !== null) return null;
  return outcome.status === 429 || (outcome.status === 503 && retryAfterMs > 0) ? retryAfterMs : null;
}

function faultOf(
  topic: Pick<Topic, 'okStatus' | 'emptyReply'>,
  rule: Rule | null,
  attempt: number,
  reply: CallReply,
): AttemptReason | null {
  if (!isOkStatus(topic.okStatus, reply.status)) return 'status';
  // Without a rule on the body the status decides. A rule would judge half a body as if it were the whole.
  if (rule !== null && reply.cut && readsBody(rule)) return 'reply_too_large';
  if (topic.emptyReply === 'retry' && isSilent(reply)) return 'empty_reply';
  if (rule !== null && evaluateRule(rule, viewOf(reply, attempt))) return 'rule';
  return null;
}

/** A 3xx never counts: dq does not follow redirects, so the job was not processed. */
export function isOkStatus(okStatus: readonly string[], status: number): boolean {
  const group = Math.floor(status / 100);
  return group !== 3 && (okStatus.includes(String(status)) || okStatus.includes(`${group}xx`));
}

/** A 204 has no body by definition; broken endpoints send any other 2xx without a body. */
function isSilent(reply: CallReply): boolean {
  return reply.status >= 200 && reply.status <= 299 && reply.status !== 204 && reply.bytes === 0;
}

/** The reply as the retry rule reads it. */
export function viewOf(reply: CallReply, attempt: number): ReplyView {
  return {
    status: reply.status,
    attempt,
    text: reply.text,
    header: (name: string) => reply.header(name),
  };
}

function refusalOf(reply: CallReply): Failure['noMoreAttempts'] {
  if (reply.status === 410) return 'gone';
  return reply.header('dq-no-retry')?.trim().toLowerCase() === 'true' ? 'no_retry' : null;
}

function pauseOf(reply: CallReply, nowMs: number): number {
  if (reply.status !== 429 && reply.status !== 503) return 0;
  return retryAfterMs(reply.header('retry-after'), reply.header('date'), nowMs) ?? 0;
}

export type Settlement =
  | { readonly kind: 'ack' }
  /** from the end of the attempt to the next one */
  | { readonly kind: 'retry'; readonly delayMs: number }
  | { readonly kind: 'bury'; readonly reason: Exclude<BuryReason, 'poison'> };

/** `topic`: the current one, not that of the start of the attempt, with the options of the job.
 *  `failures`: failed attempts before this one. */
export function settle(
  topic: Pick<Topic, 'maxAttempts' | 'backoff' | 'jitter'>,
  failures: number,
  verdict: Verdict,
  retryUnitMs: number,
  random: () => number,
): Settlement {
  if (verdict.outcome === 'delivered') return { kind: 'ack' };
  if (verdict.noMoreAttempts !== null) return { kind: 'bury', reason: verdict.noMoreAttempts };
  // ≥: maxAttempts may have been lowered below the job's failed attempts.
  if (failures + 1 >= topic.maxAttempts) return { kind: 'bury', reason: 'attempts_exhausted' };
  return {
    kind: 'retry',
    delayMs: retryDelayMs(topic, failures, retryUnitMs, random, verdict.retryAfterMs),
  };
}

/** `leftMs`: from the end of the attempt to the deadline of the job. No attempt starts after the deadline, so
 *  a job whose next one would is dead at once. */
export function beforeDeadline(settlement: Settlement, leftMs: number): Settlement {
  const isLate = settlement.kind === 'retry' && settlement.delayMs > leftMs;
  return isLate ? { kind: 'bury', reason: 'expired' } : settlement;
}
