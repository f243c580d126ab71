// Judges three sample replies as the notifier judges a reply: a rule that is written the wrong way round
// shows before the first job. Pure.

import { parseRule } from './rule/reply-rule.ts';
import type { TopicJson } from './topic/settings.ts';
import { type CallReply, judge, type Verdict } from './verdict.ts';

const samples: readonly { readonly name: string; readonly status: number; readonly text: string }[] = [
  { name: '{"code":200}', status: 200, text: '{"code":200}' },
  { name: 'empty reply', status: 200, text: '' },
  { name: 'status 500', status: 500, text: '' },
];

export interface JudgedSample {
  readonly name: string;
  readonly verdict: Verdict;
}

/** Empty for a rule that this version cannot read. */
export function judgeSamples({
  okStatus,
  emptyReply,
  retryIf,
}: Pick<TopicJson, 'okStatus' | 'emptyReply' | 'retryIf'>): readonly JudgedSample[] {
  const parsed = retryIf ? parseRule(retryIf) : null;
  if (parsed?.ok === false) return [];
  const rule = parsed?.rule ?? null;
  return samples.map(({ name, status, text }) => ({
    name,
    verdict: judge({ okStatus, emptyReply }, rule, { attempt: 1, nowMs: 0 }, replied(status, text)),
  }));
}

const replied = (status: number, text: string): CallReply => ({
  kind: 'replied',
  status,
  text,
  bytes: Buffer.byteLength(text),
  cut: false,
  header: () => null,
  headerNames: () => [],
});
