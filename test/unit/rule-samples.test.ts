// Sample replies of a retry rule, and the hint that a rule retries successes.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { parseRule } from '../../src/core/rule/reply-rule.ts';
import { samplesOf, successOf } from '../../src/core/rule/rule-samples.ts';
import { judgeSamples } from '../../src/core/sample-replies.ts';
import { type TopicSettings, topicDefaults } from '../../src/core/topic/topic.ts';

const ruleOf = (source: string) => {
  const parsed = parseRule(source);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.rule;
};

/** Before the three usual replies: `name → what dq does`. */
const judged = (retryIf: string, okStatus = ['2xx'], more: Partial<TopicSettings> = {}) =>
  judgeSamples({ ...topicDefaults, okStatus, emptyReply: 'accept', retryIf, maxAttempts: 10, ...more })
    .filter(({ name }) => name !== 'empty reply' && name !== 'status 500')
    .map(({ name, next }) => `${name} → ${next}`);

describe('samples of a rule', () => {
  it.each([
    ['{res.code}==0', ['{"code":0} → retry', '{"code":1} → ack', '{"code":200} → ack']],
    ['{res.code}!=200', ['{"code":200} → ack', '{"code":0} → retry']],
    ['"FAIL" == {res.data.state}', ['{"data":{"state":"FAIL"}} → retry', '{"data":{"state":"other"}} → ack']],
    ['!{res.ok}', ['{"ok":true} → ack', '{"ok":false} → retry']],
    ['{res.code}>=400', ['{"code":400} → retry', '{"code":399} → ack', '{"code":401} → retry']],
    [
      '{status}==202 || {header.x-busy}==1',
      ['status 202, x-busy: 1 → retry', 'status 202, x-busy: 0 → retry'],
    ],
    ['{attempt}>1', ['attempt 1 → ack', 'attempt 2 → retry']],
    [
      '{res.code}!=200 && {res.data.status}!=2',
      [
        '{"code":200,"data":{"status":2}} → ack',
        '{"code":200,"data":{"status":0}} → ack',
        '{"code":0,"data":{"status":2}} → ack',
        '{"code":0,"data":{"status":0}} → retry',
      ],
    ],
    // A path through a value of another condition, and a member that is not one of every object.
    ['{res.a}==1 || {res.a.__proto__}==2', ['{"a":{"__proto__":2}} → retry', '{"a":{"__proto__":0}} → ack']],
    ['{res.a}=={res.b}', ['{"code":200} → retry']],
  ] as const)('%s', (rule, samples) => {
    expect(judged(rule)).toEqual(expect.arrayContaining([...samples]));
    expect(judged(rule)[0]).toBe(samples[0]);
  });

  it('a status that ends the job: a dead letter', () => {
    expect(judged('{status}==410', ['2xx', '4xx'])[0]).toBe('status 410 → bury');
  });

  it('are bounded, whatever the rule compares', () => {
    const many = Array.from({ length: 20 }, (_, n) => `{res.m${n % 10}}==${n}`).join(' || ');
    const samples = samplesOf(ruleOf(many));
    expect(samples.length).toBeLessThanOrEqual(limits.ruleSamplesMax);
    expect(Object.keys(JSON.parse(samples[0]?.text ?? '{}'))).toHaveLength(10);
  });
});

describe('a rule that retries successes', () => {
  it.each([
    ['{res.code}==0', '{res.code}!==0'],
    ['{res.errno}===0', '{res.errno}!==0'],
    ['{res.code}==200', '{res.code}!=200'],
    ['{res.code}=="200"', "{res.code}!='200'"],
    ['{res.status}=="SUCCESS"', "{res.status}!='SUCCESS'"],
    ["'ok'=={res.msg}", "{res.msg}!='ok'"],
    ['{res.success}==true', '{res.success}!=true'],
    ['{res.ok}==1', '{res.ok}!=1'],
    ['{res.ok}', '!{res.ok}'],
    ['!({res.code}!=0)', '{res.code}!==0'],
    ['{res.code}==0 || {res.code}==200', '{res.code}!==0 && {res.code}!=200'],
    ['{res.code}==0 || {res.busy}==1', '{res.code}!==0'],
  ])('%s: proposes %s', (rule, proposal) => {
    expect(successOf(ruleOf(rule))?.proposal).toBe(proposal);
    expect(successOf(ruleOf(proposal))).toBeNull();
  });

  it.each([
    '{res.code}!=200',
    '{res.code}!==0 && {res.code}!=200',
    '{res.code}==500',
    '{res.success}==0',
    '{res.ok}==false',
    '!{res.ok}',
    '{res.busy}==true',
    '{res.retry}',
    '{res.count}==0',
    // The call succeeded, and its result is not there yet.
    '{res.code}==200 && {res.data.status}==1',
    '{status}==200',
    '{res.a}=={res.b}',
    'true',
  ])('%s: is in order', (rule) => {
    expect(successOf(ruleOf(rule))).toBeNull();
  });
});
