// Judges sample replies as the notifier judges a reply: a rule that is written the wrong way round shows
// before the first job. Pure.

import { limits } from './limits.ts';
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
} from './verdict.ts';

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

const replied = ({ status, text, headers }: RuleSample): CallReply => ({
  kind: 'replied',
  status,
  text,
  bytes: Buffer.byteLength(text),
  cut: false,
  header: (name) => headers.get(name) ?? null,
  headerNames: () => [...headers.keys()],
});
