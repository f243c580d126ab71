// Compares retry rules with recorded results of PHP 8.2 (rule-cases.json), and tries random ones.
import { describe, expect, it } from 'vitest';
import { fuzzRules } from '../../scripts/fuzz-rules.ts';
import { evaluateRule, parseRule } from '../../src/core/rule/reply-rule.ts';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import { judge, rulesOf } from '../../src/core/verdict.ts';
import cases from './rule-cases.json' with { type: 'json' };

describe('retry rule', () => {
  it('cases: all results of PHP are present', () => {
    expect(cases).toHaveLength(242);
  });

  it.each(cases as [string, string, boolean][])('agrees with PHP: %s on %s → %s', (rule, reply, retry) => {
    const parsed = parseRule(rule);
    if (!parsed.ok) throw new Error(`${parsed.message} at ${parsed.position}`);
    const view = { status: 200, attempt: 1, text: reply, header: () => null };
    expect(evaluateRule(parsed.rule, view)).toBe(retry);
    // The same code judges deadIf.
    const topic = { deadIf: rule, againIf: '', againAfter: '', retryIf: '' };
    const whole = {
      ...view,
      kind: 'replied',
      bytes: reply.length,
      cut: false,
      headerNames: () => [],
    } as const;
    const verdict = judge(topicDefaults, rulesOf(topic), { attempt: 1, nowMs: 0 }, whole);
    expect(verdict).toMatchObject(retry ? { noMoreAttempts: 'dead_rule' } : { outcome: 'delivered' });
  });
});

it('random rules and replies: only parse errors and consistent booleans', () => {
  const untouched = Reflect.ownKeys(Object.prototype);
  const report = fuzzRules(3_000, 20_260_101);
  expect(report.failures).toEqual([]);
  // The generator covers everything, else the run above proves nothing.
  expect(report.parsed).toBeGreaterThan(900);
  expect(report.rejected).toBeGreaterThan(900);
  expect(report.retries).toBeGreaterThan(300);
  expect(Reflect.ownKeys(Object.prototype)).toEqual(untouched);
});
