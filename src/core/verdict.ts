// judge() judges one attempt: success, a snooze, or failure with its reason and consequences. settle()
// decides from the verdict whether the notifier acks, snoozes, retries or buries the job. Pure.
// Invariant: every failure counts against maxAttempts, and one of many snoozes is a failure, so every job
// ends.

import { parseDuration } from './duration.ts';
import type { AttemptReason, AttemptRecord, DeadReason } from './job.ts';
import { limits } from './limits.ts';
import { backoffMs, retryAfterMs, retryDelayMs } from './retry-policy.ts';
import {
  type AgainAfter,
  clamped,
  evaluateRule,
  parseAgainAfter,
  parseRule,
  ReplyFacts,
  type ReplyView,
  type Rule,
  readsBody,
  waitOf,
} from './rule/reply-rule.ts';
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
  /** the same as it came; absent of a sample */
  readonly raw?: Buffer;
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
  /** no further attempt of this job, by the receiver or by deadIf */
  readonly noMoreAttempts: 'gone' | 'no_retry' | 'dead_rule' | null;
  /** wait that the receiver requests; 0 = no usable request */
  readonly retryAfterMs: number;
  /** in words, where neither the reason nor the reply says it */
  readonly detail?: string;
}

/** A snooze: the attempt has no result and does not count, and the job waits. */
interface Again {
  readonly outcome: 'again';
  readonly delayMs: number;
  readonly by: 'dq-again' | 'againIf' | 'release';
}

export type Verdict = { readonly outcome: 'delivered' } | Again | Failure;

/** The rules of a topic, parsed; null = none. */
export interface ReplyRules {
  readonly deadIf: Rule | null;
  readonly againIf: Rule | null;
  readonly againAfter: AgainAfter | null;
  readonly retryIf: Rule | null;
}

type RuleSources = Pick<Topic, 'deadIf' | 'againIf' | 'againAfter' | 'retryIf'>;

/** Throws for a rule that no registration accepts. */
export function rulesOf({ deadIf, againIf, againAfter, retryIf }: RuleSources): ReplyRules {
  const ruleOf = (name: keyof RuleSources, source: string): Rule | null => {
    if (source === '') return null;
    const parsed = parseRule(source);
    if (!parsed.ok) throw new Error(`${name}: ${parsed.message}`);
    return parsed.rule;
  };
  return {
    deadIf: ruleOf('deadIf', deadIf),
    againIf: ruleOf('againIf', againIf),
    againAfter: parseAgainAfter(againAfter),
    retryIf: ruleOf('retryIf', retryIf),
  };
}

const failed = (reason: AttemptReason, more: Partial<Failure> = {}): Failure => ({
  outcome: 'failed',
  reason,
  noMoreAttempts: null,
  retryAfterMs: 0,
  ...more,
});

/** The first row that matches decides: no whole reply · deadIf · a fault whose reply forbids a repeat · a
 *  snooze · a fault · delivered. `nowMs` replaces a missing Date of the reply. */
export function judge(
  topic: Pick<Topic, 'okStatus' | 'emptyReply'>,
  rules: ReplyRules,
  call: { readonly attempt: number; readonly nowMs: number },
  outcome: CallOutcome,
): Verdict {
  if (outcome.kind === 'no_reply') return failed(outcome.reason);
  if (outcome.kind === 'confirmed') return { outcome: 'delivered' };
  const facts = new ReplyFacts(viewOf(outcome, call.attempt));
  if (holds(rules.deadIf, outcome, facts)) return failed('dead_rule', { noMoreAttempts: 'dead_rule' });
  const reason = faultOf(topic, rules.retryIf, outcome, facts);
  const noMoreAttempts = reason === null ? null : refusalOf(outcome);
  const again = noMoreAttempts === null ? againOf(rules, outcome, facts) : null;
  if (again?.outcome === 'again') return again;
  const fault = again?.reason ?? reason;
  if (fault === null) return { outcome: 'delivered' };
  return failed(fault, { ...again, noMoreAttempts, retryAfterMs: pauseOf(outcome, call.nowMs) });
}

/** A rule would judge half a body as if it were the whole, so one that reads it is false. */
function holds(rule: Rule | null, { cut }: CallReply, facts: ReplyFacts): boolean {
  return rule !== null && !(cut && readsBody(rule)) && evaluateRule(rule, facts);
}

/** null: the reply asks for no snooze. A header that cannot be read must not end the job as done. */
function againOf(rules: ReplyRules, reply: CallReply, facts: ReplyFacts): Again | Failure | null {
  const header = reply.header('dq-again');
  if (header !== null) {
    const wait = parseDuration(header.trim());
    if (wait.ok) return { outcome: 'again', delayMs: clamped(wait.value), by: 'dq-again' };
    return failed('bad_again', { detail: `dq-again: ${wait.message}` });
  }
  if (rules.againAfter === null || !holds(rules.againIf, reply, facts)) return null;
  return { outcome: 'again', delayMs: waitOf(rules.againAfter, facts, reply.cut), by: 'againIf' };
}

/** Every limits.againMax-th snooze of a job is a failed attempt, so every job ends. The next one waits for
 *  its backoff, and at least as long as the receiver asked. `again`: snoozes with this one. */
export function withAgainLimit(verdict: Verdict, again: number): Verdict {
  if (verdict.outcome !== 'again' || again % limits.againMax !== 0) return verdict;
  return failed('again_limit', { retryAfterMs: verdict.delayMs, detail: `snoozed ${again} times` });
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
  reply: CallReply,
  facts: ReplyFacts,
): AttemptReason | null {
  if (!isOkStatus(topic.okStatus, reply.status)) return 'status';
  // Without a rule on the body the status decides. A rule would judge half a body as if it were the whole.
  if (rule !== null && reply.cut && readsBody(rule)) return 'reply_too_large';
  if (topic.emptyReply === 'retry' && isSilent(reply)) return 'empty_reply';
  if (rule !== null && evaluateRule(rule, facts)) return 'rule';
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

/** The reply as rules read it. */
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
  /** no attempt counts; from the end of the call to the next one */
  | { readonly kind: 'again'; readonly delayMs: number }
  /** from the end of the attempt to the next one, and what decided it */
  | {
      readonly kind: 'retry';
      readonly delayMs: number;
      readonly by: NonNullable<AttemptRecord['nextBy']>;
    }
  | { readonly kind: 'bury'; readonly reason: Exclude<DeadReason, 'poison'> };

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
  if (verdict.outcome === 'again') return { kind: 'again', delayMs: verdict.delayMs };
  if (verdict.noMoreAttempts !== null) return { kind: 'bury', reason: verdict.noMoreAttempts };
  // ≥: maxAttempts may have been lowered below the job's failed attempts.
  if (failures + 1 >= topic.maxAttempts) return { kind: 'bury', reason: 'attempts_exhausted' };
  const { retryAfterMs: asked } = verdict;
  return {
    kind: 'retry',
    delayMs: retryDelayMs(topic, failures, retryUnitMs, random, asked),
    by: asked > backoffMs(topic.backoff, failures, retryUnitMs) ? 'retry_after' : 'backoff',
  };
}

/** The wait after an attempt, as it is kept with it. */
export const waitAfter = (settlement: Settlement): Pick<AttemptRecord, 'nextDelayMs' | 'nextBy'> =>
  settlement.kind === 'retry' ? { nextDelayMs: settlement.delayMs, nextBy: settlement.by } : {};

/** `leftMs`: from the end of the attempt to the deadline of the job. No attempt starts after the deadline, so
 *  a job whose next one would is dead at once. */
export function beforeDeadline(settlement: Settlement, leftMs: number): Settlement {
  const isLate = 'delayMs' in settlement && settlement.delayMs > leftMs;
  return isLate ? { kind: 'bury', reason: 'expired' } : settlement;
}
