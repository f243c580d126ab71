// Compares retry rules with recorded results of PHP 8.2 (rule-cases.json).
import { describe, expect, it } from 'vitest';
import { evaluateRule, parseRule } from '../../src/core/rule/reply-rule.ts';
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
  });
});
