// Judges sample replies as the notifier judges a reply: a rule that is written the wrong way round shows
// before the first job. Pure.

import type { AttemptReason } from './job.ts';
import { limits } from './limits.ts';
import { ReplyFacts, ruleValues } from './rule/reply-rule.ts';
import { type RuleSample, samplesOf } from './rule/rule-samples.ts';
import type { TopicJson } from './topic/settings.ts';
import { topicDefaults } from './topic/topic.ts';
import {
  type CallReply,
  judge,
  type ReplyRules,
  rulesOf,
  type Settlement,
  settle,
  type Verdict,
  viewOf,
} from './verdict.ts';

/** The replies that every topic is tried with. */
const usualSamples: readonly RuleSample[] = [
  { name: '{"code":200}', status: 200, text: '{"code":200}' },
  { name: 'empty reply', status: 200, text: '' },
  { name: 'status 500', status: 500, text: '' },
].map((sample) => ({ ...sample, attempt: 1, headers: new Map() }));

interface JudgedSample {
  readonly name: string;
  readonly verdict: Verdict;
  /** what dq does with the job */
  readonly next: Settlement['kind'];
}

type Judging = Pick<
  TopicJson,
  'okStatus' | 'emptyReply' | 'retryIf' | 'deadIf' | 'againIf' | 'againAfter' | 'maxAttempts'
>;

/** First the replies that the rules distinguish. Empty for a rule that this version cannot read. */
export function judgeSamples(topic: Judging): readonly JudgedSample[] {
  const rules = readRules(topic);
  if (rules === undefined) return [];
  const given = [rules.deadIf, rules.againIf, rules.retryIf].filter((rule) => rule !== null);
  const share = Math.floor(limits.ruleSamplesMax / given.length);
  const ofRules = given.flatMap((rule) => samplesOf(rule).slice(0, share));
  const samples = new Map([...ofRules, ...usualSamples].map((sample) => [sample.name, sample]));
  return [...samples.values()].map((sample) => judgeSample(topic, rules, sample));
}

/** undefined: this version cannot read one of them. */
export function readRules(topic: Judging): ReplyRules | undefined {
  try {
    return rulesOf(topic);
  } catch {
    return undefined;
  }
}

function judgeSample(topic: Judging, rules: ReplyRules, sample: RuleSample): JudgedSample {
  const { name, attempt } = sample;
  const { okStatus, emptyReply, maxAttempts } = topic;
  const verdict = judge({ okStatus, emptyReply }, rules, { attempt, nowMs: 0 }, replied(sample));
  // The wait is not shown, so any backoff does.
  const { backoff, jitter } = topicDefaults;
  const settlement = settle({ maxAttempts, backoff, jitter }, attempt - 1, verdict, 0, () => 0);
  return { name, verdict, next: settlement.kind };
}

export const replyVerdicts = ['dead', 'again', 'retry', 'done'] as const;

interface TriedReply {
  /** what dq does with the job */
  readonly verdict: (typeof replyVerdicts)[number];
  /** the field of the topic, or the header of the reply, that decided; null: no check matched */
  readonly by: string | null;
  /** of each reference of the rules */
  readonly values: Readonly<Record<string, unknown>>;
}

/** How the topic judges one reply. */
export function tryReply(topic: Judging, rules: ReplyRules, sample: Omit<RuleSample, 'name'>): TriedReply {
  const { verdict, next } = judgeSample(topic, rules, { ...sample, name: '' });
  const facts = new ReplyFacts(viewOf(replied(sample), sample.attempt));
  const given = [rules.deadIf, rules.againIf, rules.retryIf].filter((rule) => rule !== null);
  return {
    verdict: ({ bury: 'dead', again: 'again', retry: 'retry', ack: 'done' } as const)[next],
    by: decidedBy(verdict, next),
    values: Object.assign({}, ...given.map((rule) => ruleValues(rule, facts))),
  };
}

const fieldOf: Readonly<Partial<Record<AttemptReason, string>>> = {
  status: 'okStatus',
  reply_too_large: 'retryIf',
  empty_reply: 'emptyReply',
  rule: 'retryIf',
  bad_again: 'dq-again',
};

function decidedBy(verdict: Verdict, next: Settlement['kind']): string | null {
  if (verdict.outcome === 'delivered') return null;
  if (verdict.outcome === 'again') return verdict.by;
  const { noMoreAttempts, reason } = verdict;
  if (noMoreAttempts === null) return next === 'bury' ? 'maxAttempts' : (fieldOf[reason] ?? reason);
  return { dead_rule: 'deadIf', gone: 'status 410', no_retry: 'dq-no-retry' }[noMoreAttempts];
}

const replied = ({ status, text, headers }: Omit<RuleSample, 'name'>): CallReply => ({
  kind: 'replied',
  status,
  text,
  bytes: Buffer.byteLength(text),
  cut: false,
  header: (name) => headers.get(name) ?? null,
  headerNames: () => [...headers.keys()],
});
