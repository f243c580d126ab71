// Tests the judgement of an attempt: ack, retry or bury, with its reason.
import { describe, expect, it } from 'vitest';
import type { AttemptReason } from '../../src/core/job.ts';
import { parseRule, type Rule } from '../../src/core/rule/reply-rule.ts';
import {
  type CallOutcome,
  type CallReply,
  judge,
  slowDownOf,
  type TransportReason,
  type Verdict,
} from '../../src/core/verdict.ts';

const plain = { okStatus: ['2xx'], emptyReply: 'retry' } as const;
const call = { attempt: 1, nowMs: Date.UTC(2026, 0, 1) };

function ruleOf(source: string): Rule {
  const parsed = parseRule(source);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.rule;
}

function reply(status: number, text: string, headers: Record<string, string> = {}, cut = false): CallReply {
  return {
    kind: 'replied',
    status,
    text,
    bytes: Buffer.byteLength(text),
    cut,
    header: (name) => headers[name] ?? null,
    headerNames: () => Object.keys(headers),
  };
}

const reasonOf = (verdict: Verdict) => (verdict.outcome === 'failed' ? verdict.reason : 'delivered');
const reasonFor = (
  outcome: CallOutcome,
  topic: Parameters<typeof judge>[0] = plain,
  rule: Rule | null = null,
) => reasonOf(judge(topic, rule, call, outcome));

describe('judge: without a reply', () => {
  const reasons: TransportReason[] = [
    'blocked_address',
    'dns',
    'connect',
    'tls',
    'timeout',
    'reset',
    'protocol',
  ];
  it.each(reasons)('%s: a failure without request of the receiver', (reason) => {
    expect(judge(plain, ruleOf('1==2'), call, { kind: 'no_reply', reason })).toEqual({
      ...{ outcome: 'failed', reason, noMoreAttempts: null, retryAfterMs: 0 },
    });
  });
});

describe('judge: by status', () => {
  it.each([
    [200, ['2xx'], 'delivered'],
    [299, ['2xx'], 'delivered'],
    [500, ['2xx'], 'status'],
    [404, ['2xx'], 'status'],
    [199, ['2xx'], 'status'],
    [201, ['200'], 'status'],
    [200, ['200', '204'], 'delivered'],
    [404, ['2xx', '404'], 'delivered'],
    [410, ['2xx', '4xx'], 'delivered'],
    [204, ['200'], 'status'],
    [302, ['2xx'], 'status'],
    // dq never follows redirects
    [302, ['2xx', '3xx'], 'status'],
    [304, ['304'], 'status'],
  ])('%i with okStatus %j → %s', (status, okStatus, reason) => {
    expect(reasonFor(reply(status, 'ok'), { ...plain, okStatus })).toBe(reason);
  });
});

describe('judge: empty replies', () => {
  it.each([
    [200, 'retry', 'empty_reply'],
    [202, 'retry', 'empty_reply'],
    [200, 'accept', 'delivered'],
    [204, 'retry', 'delivered'],
    [204, 'accept', 'delivered'],
    // only a 2xx needs a body
    [404, 'retry', 'delivered'],
  ] as const)('%i without a body, emptyReply %s → %s', (status, emptyReply, reason) => {
    expect(reasonFor(reply(status, ''), { okStatus: ['2xx', '404'], emptyReply })).toBe(reason);
  });

  it('a blank is a body', () => {
    expect(reasonFor(reply(200, ' '))).toBe('delivered');
  });
});

describe('judge: by rule', () => {
  it('rule: true is a failure, false a success', () => {
    expect(reasonFor(reply(200, '{"code":500}'), plain, ruleOf('{res.code}!=200'))).toBe('rule');
    expect(reasonFor(reply(200, '{"code":200}'), plain, ruleOf('{res.code}!=200'))).toBe('delivered');
    expect(reasonFor(reply(200, 'not json'), plain, ruleOf('{res.code}!=200'))).toBe('rule');
  });

  it('rule: a 204 and an accepted empty reply have null for {res…}', () => {
    const rule = ruleOf('{res.code}===null && {status}==204');
    expect(reasonFor(reply(204, ''), plain, rule)).toBe('rule');
    expect(reasonFor(reply(204, ''), plain, ruleOf('{status}!=204'))).toBe('delivered');
    expect(reasonFor(reply(200, ''), { ...plain, emptyReply: 'accept' }, ruleOf('{res.code}!=200'))).toBe(
      'rule',
    );
    expect(reasonFor(reply(200, ''), { ...plain, emptyReply: 'accept' }, rule)).toBe('delivered');
  });

  it('rule: reads the attempt and the headers', () => {
    const rule = ruleOf("{attempt}==2 && {header.x-again}=='yes'");
    const rejected = reply(200, 'ok', { 'x-again': 'yes' });
    expect(reasonOf(judge(plain, rule, { ...call, attempt: 2 }, rejected))).toBe('rule');
    expect(reasonOf(judge(plain, rule, { ...call, attempt: 1 }, rejected))).toBe('delivered');
  });

  it('a cut reply fails only with a rule on the body', () => {
    const long = reply(200, '{"code":200', {}, true);
    expect(reasonFor(long)).toBe('delivered');
    expect(reasonFor(long, plain, ruleOf('{res.code}==500'))).toBe('reply_too_large');
    expect(reasonFor(long, plain, ruleOf('{status}==500 || {attempt}==9'))).toBe('delivered');
    expect(reasonFor(long, plain, ruleOf('{status}==200'))).toBe('rule');
  });
});

describe('judge: the first reason in order counts', () => {
  const always = ruleOf('{res.missing}==null');
  it.each<[string, CallReply, AttemptReason]>([
    ['status before reply_too_large', reply(500, 'x', {}, true), 'status'],
    ['status before empty_reply', reply(500, ''), 'status'],
    ['status before rule', reply(500, 'x'), 'status'],
    ['reply_too_large before empty_reply and rule', reply(200, '', {}, true), 'reply_too_large'],
    ['empty_reply before rule', reply(200, ''), 'empty_reply'],
  ])('%s', (_, outcome, reason) => {
    expect(reasonFor(outcome, plain, always)).toBe(reason);
  });
});

describe('judge: requests of the receiver', () => {
  const consequences = (
    outcome: CallReply,
    topic: Parameters<typeof judge>[0] = plain,
    rule: Rule | null = null,
  ) => {
    const verdict = judge(topic, rule, call, outcome);
    return verdict.outcome === 'failed' ? [verdict.noMoreAttempts, verdict.retryAfterMs] : 'delivered';
  };

  it('410 on a failed attempt: gone', () => {
    expect(consequences(reply(410, ''))).toEqual(['gone', 0]);
    expect(consequences(reply(410, 'x', { 'dq-no-retry': 'true' }))).toEqual(['gone', 0]);
    expect(consequences(reply(410, 'x'), { ...plain, okStatus: ['410'] })).toBe('delivered');
    expect(consequences(reply(410, 'x'), { ...plain, okStatus: ['410'] }, ruleOf('1==1'))).toEqual([
      'gone',
      0,
    ]);
  });

  it('dq-no-retry: true on any failed attempt: no_retry', () => {
    const header = { 'dq-no-retry': ' True ' };
    expect(consequences(reply(500, 'x', header))).toEqual(['no_retry', 0]);
    expect(consequences(reply(200, '', header))).toEqual(['no_retry', 0]);
    expect(consequences(reply(200, 'x', header), plain, ruleOf('1==1'))).toEqual(['no_retry', 0]);
    expect(consequences(reply(200, 'x', header))).toBe('delivered');
    expect(consequences(reply(500, 'x', { 'dq-no-retry': 'false' }))).toEqual([null, 0]);
    expect(consequences(reply(500, 'x', { 'dq-no-retry': '1' }))).toEqual([null, 0]);
  });

  it('Retry-After: obeyed on 429 and 503 only', () => {
    const header = { 'retry-after': '7' };
    expect(consequences(reply(429, 'x', header))).toEqual([null, 7_000]);
    expect(consequences(reply(503, 'x', header))).toEqual([null, 7_000]);
    expect(consequences(reply(500, 'x', header))).toEqual([null, 0]);
    expect(consequences(reply(503, 'x', { 'retry-after': 'soon' }))).toEqual([null, 0]);
  });

  it("Retry-After: a date counts from the reply's Date, else from the given time", () => {
    const until = { 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT' };
    expect(consequences(reply(503, 'x', until))).toEqual([null, 60_000]);
    expect(consequences(reply(503, 'x', { ...until, date: 'Thu, 01 Jan 2026 00:00:50 GMT' }))).toEqual([
      null,
      10_000,
    ]);
  });
});

describe('slowDownOf', () => {
  const askedBy = (outcome: CallOutcome, topic: Parameters<typeof judge>[0] = plain) =>
    slowDownOf(topic, judge(topic, null, call, outcome), outcome);

  it('429, and 503 with a time, are about the whole topic', () => {
    expect(askedBy(reply(429, 'x'))).toBe(0);
    expect(askedBy(reply(429, 'x', { 'retry-after': '7' }))).toBe(7_000);
    expect(askedBy(reply(503, 'x', { 'retry-after': '7' }))).toBe(7_000);
  });

  it('any other reply is not, nor one that ends its job or is a success', () => {
    expect(askedBy(reply(503, 'x'))).toBeNull();
    expect(askedBy(reply(500, 'x', { 'retry-after': '7' }))).toBeNull();
    expect(askedBy(reply(429, 'x', { 'dq-no-retry': 'true' }))).toBeNull();
    expect(askedBy(reply(429, 'x'), { ...plain, okStatus: ['429'] })).toBeNull();
    expect(askedBy({ kind: 'no_reply', reason: 'timeout' })).toBeNull();
  });
});
