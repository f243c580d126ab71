// Judges sample replies as the notifier judges a reply: a rule that is written the wrong way round shows
// before the first job. Pure.

import { parseRule, type Rule } from './rule/reply-rule.ts';
import { type RuleSample, samplesOf } from './rule/rule-samples.ts';
import type { TopicJson } from './topic/settings.ts';
import { topicDefaults } from './topic/topic.ts';
import { type CallReply, judge, type Settlement, settle, type Verdict } from './verdict.ts';

/** The replies that every topic is tried with. */
const usualSamples: readonly RuleSample[] = [
  { name: '{"code":200}', status: 200, text: '{"code":200}' },
  { name: 'empty reply', status: 200, text: '' },
  { name: 'status 500', status: 500, text: '' },
].map((sample) => ({ ...sample, attempt: 1, headers: new Map() }));

export interface JudgedSample {
  readonly name: string;
  readonly verdict: Verdict;
  /** what dq does with the job */
  readonly next: Settlement['kind'];
}

type Judging = Pick<TopicJson, 'okStatus' | 'emptyReply' | 'retryIf' | 'maxAttempts'>;

/** First the replies that the rule distinguishes. Empty for a rule that this version cannot read. */
export function judgeSamples(topic: Judging): readonly JudgedSample[] {
  const rule = ruleOf(topic);
  if (rule === undefined) return [];
  const ofRule = rule === null ? [] : samplesOf(rule);
  const samples = new Map([...ofRule, ...usualSamples].map((sample) => [sample.name, sample]));
  return [...samples.values()].map((sample) => judgeSample(topic, rule, sample));
}

/** null = no rule; undefined: this version cannot read it. */
export function ruleOf({ retryIf }: Pick<TopicJson, 'retryIf'>): Rule | null | undefined {
  const parsed = retryIf ? parseRule(retryIf) : null;
  if (parsed === null) return null;
  return parsed.ok ? parsed.rule : undefined;
}

function judgeSample(topic: Judging, rule: Rule | null, sample: RuleSample): JudgedSample {
  const { name, attempt } = sample;
  const { okStatus, emptyReply, maxAttempts } = topic;
  const verdict = judge({ okStatus, emptyReply }, rule, { attempt, nowMs: 0 }, replied(sample));
  // The wait is not shown, so any backoff does.
  const { backoff, jitter } = topicDefaults;
  const settlement = settle({ maxAttempts, backoff, jitter }, attempt - 1, verdict, 0, () => 0);
  return { name, verdict, next: settlement.kind };
}

const replied = ({ status, text, headers }: RuleSample): CallReply => ({
  kind: 'replied',
  status,
  text,
  bytes: Buffer.byteLength(text),
  cut: false,
  header: (name) => headers.get(name) ?? null,
  headerNames: () => [...headers.keys()],
});
