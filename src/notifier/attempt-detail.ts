// Selects what a failed attempt keeps beside its outcome, so that an operator sees why it failed without the
// logs: the failure, the values that the retry rule saw, some headers of the reply.
// Invariant: each part is bounded by notifierLimits, and printable. Cookies and credentials are not kept.

import type { AttemptReason, AttemptRecord } from '../core/job.ts';
import { ReplyFacts, type Rule, ruleValues } from '../core/rule/reply-rule.ts';
import { type CallOutcome, type CallReply, type Failure, type ReplyRules, viewOf } from '../core/verdict.ts';
import { printableExcerpt } from '../runtime/printable-text.ts';
import { notifierLimits } from './limits.ts';

interface FailedCall {
  readonly outcome: CallOutcome;
  readonly verdict: Failure;
  readonly rules: ReplyRules;
  /** number of the attempt, from 1 */
  readonly attempt: number;
  /** the failure in words; '' for a reply */
  readonly detail: string;
}

export function failureDetail({
  outcome,
  verdict,
  rules,
  attempt,
  detail,
}: FailedCall): Pick<AttemptRecord, 'detail' | 'ruleValues' | 'replyHeaders'> {
  if (outcome.kind === 'no_reply')
    return detail === '' ? {} : { detail: printableExcerpt(detail, notifierLimits.detailMax) };
  if (outcome.kind === 'confirmed') return {};
  const { replyHeadersMax, replyHeaderMax } = notifierLimits;
  const replyHeaders = headerLines(outcome, replyHeadersMax, replyHeaderMax);
  const rule = ruleBehind(rules, verdict.reason);
  return {
    ...(verdict.detail === undefined
      ? {}
      : { detail: printableExcerpt(verdict.detail, notifierLimits.detailMax) }),
    ...(rule === null ? {} : { ruleValues: ruleTexts([rule], outcome, attempt) }),
    ...(replyHeaders.length === 0 ? {} : { replyHeaders }),
  };
}

/** The rule that was true; null: the reason is another one. */
function ruleBehind({ deadIf, retryIf }: ReplyRules, reason: AttemptReason): Rule | null {
  return reason === 'dead_rule' ? deadIf : reason === 'rule' ? retryIf : null;
}

/** Values of the first references, as JSON. */
export function ruleTexts(rules: readonly Rule[], reply: CallReply, attempt: number): Record<string, string> {
  const { ruleValuesMax, ruleValueMax } = notifierLimits;
  const facts = new ReplyFacts(viewOf(reply, attempt));
  return Object.fromEntries(
    rules
      .flatMap((rule) => Object.entries(ruleValues(rule, facts)))
      .slice(0, ruleValuesMax)
      .map(([reference, value]) => [
        printableExcerpt(reference, ruleValueMax),
        printableExcerpt(JSON.stringify(value), ruleValueMax),
      ]),
  );
}

/** Headers that explain a failure, first. */
const telling = ['retry-after', 'location', 'content-type', 'server', 'www-authenticate', 'via'];
/** Secrets, and what every reply has. */
const dropped = new Set([
  'set-cookie',
  'authorization',
  'proxy-authenticate',
  'authentication-info',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'date',
]);

/** `name: value` of at most `most` headers, each at most `length` characters. */
export function headerLines(reply: CallReply, most: number, length: number): readonly string[] {
  const names = reply.headerNames();
  const rest = names.filter((name) => !telling.includes(name) && !dropped.has(name));
  return [...telling.filter((name) => names.includes(name)), ...rest]
    .slice(0, most)
    .map((name) => printableExcerpt(`${name}: ${reply.header(name) ?? ''}`, length));
}
