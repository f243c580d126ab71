// Tests the judgement of an attempt: ack, retry or bury, with its reason.
import { describe, expect, it } from 'vitest';
import type { AttemptReason } from '../../src/core/job.ts';
import { parseRule, type Rule } from '../../src/core/rule/reply-rule.ts';
import {
  type CallOutcome,
  type CallReply,
  judge,
  type ReplyRules,
  rulesOf,
  settle,
  slowDownOf,
  type TransportReason,
  type Verdict,
  withAgainLimit,
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

const noRules: ReplyRules = { deadIf: null, againIf: null, againAfter: null, retryIf: null };
const retryIf = (rule: Rule | null): ReplyRules => ({ ...noRules, retryIf: rule });
const reasonOf = (verdict: Verdict) => (verdict.outcome === 'failed' ? verdict.reason : verdict.outcome);
const reasonFor = (
  outcome: CallOutcome,
  topic: Parameters<typeof judge>[0] = plain,
  rule: Rule | null = null,
) => reasonOf(judge(topic, retryIf(rule), call, outcome));

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
    expect(judge(plain, retryIf(ruleOf('1==2')), call, { kind: 'no_reply', reason })).toEqual({
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
    expect(reasonOf(judge(plain, retryIf(rule), { ...call, attempt: 2 }, rejected))).toBe('rule');
    expect(reasonOf(judge(plain, retryIf(rule), { ...call, attempt: 1 }, rejected))).toBe('delivered');
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
    const verdict = judge(topic, retryIf(rule), call, outcome);
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

/** The rows of the table of verdicts, each with what makes it match: members of the reply, and the rules. */
interface Row {
  readonly verdict: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly rules?: Partial<Parameters<typeof rulesOf>[0]>;
}

const rows: readonly Row[] = [
  { verdict: 'dead_rule, dead_rule', rules: { deadIf: '{res.code}=="E_ARG"' } },
  {
    verdict: 'rule, no_retry',
    headers: { 'dq-no-retry': 'true' },
    rules: { retryIf: '{res.code}=="E_ARG"' },
  },
  { verdict: 'bad_again, null', headers: { 'dq-again': '600' } },
  { verdict: 'again 600000 by dq-again', headers: { 'dq-again': '10m' } },
  {
    verdict: 'again 7000 by againIf',
    rules: { againIf: '{res.code}=="E_ARG"', againAfter: '{res.wait}s' },
  },
  { verdict: 'status, null', status: 500 },
  { verdict: 'rule, null', rules: { retryIf: '{res.code}=="E_ARG"' } },
  { verdict: 'delivered' },
];
/** A status that ends jobs by itself; not before a rule. */
const gone: Row = { verdict: 'status, gone', status: 410 };

const shownVerdict = (verdict: Verdict): string =>
  verdict.outcome === 'failed'
    ? `${verdict.reason}, ${verdict.noMoreAttempts}`
    : verdict.outcome === 'again'
      ? `again ${verdict.delayMs} by ${verdict.by}`
      : verdict.outcome;

const sources = { deadIf: '', againIf: '', againAfter: '', retryIf: '' };
const body = '{"code":"E_ARG","wait":7}';

function verdictOf(these: readonly Row[], cut = false, text = body): string {
  const rules = rulesOf(Object.assign({ ...sources }, ...these.map((row) => row.rules ?? {})));
  const headers = Object.assign({}, ...these.map((row) => row.headers ?? {}));
  const status = these.find((row) => row.status !== undefined)?.status ?? 200;
  return shownVerdict(judge(plain, rules, call, reply(status, text, headers, cut)));
}

describe('judge: the table of verdicts', () => {
  it.each([...rows, gone])('alone: $verdict', (row) => {
    expect(verdictOf([row])).toBe(row.verdict);
  });

  const pairs = rows.flatMap((first, n) => rows.slice(n + 1).map((second) => ({ first, second })));
  it.each(pairs)('$first.verdict before $second.verdict', ({ first, second }) => {
    // Both name the header: it has one value.
    if (first.headers?.['dq-again'] !== undefined && second.headers?.['dq-again'] !== undefined) return;
    // The reason of a refusal is that of its fault.
    const isFault = first.headers?.['dq-no-retry'] !== undefined && second.status !== undefined;
    expect(verdictOf([first, second])).toBe(isFault ? 'status, no_retry' : first.verdict);
  });

  it('deadIf goes before a snooze that the same reply asks for', () => {
    const [dead, , , byHeader, byRule] = rows as [Row, Row, Row, Row, Row];
    for (const again of [byHeader, byRule]) expect(verdictOf([dead, again])).toBe('dead_rule, dead_rule');
  });

  it('410 before a snooze and after deadIf, at any status', () => {
    for (const later of rows.slice(2)) expect(verdictOf([gone, { ...later, status: 410 }])).toMatch(/gone$/);
    expect(verdictOf([rows[0] as Row, gone])).toBe('dead_rule, dead_rule');
  });

  it('without a whole reply no rule is evaluated', () => {
    const rules = rulesOf({ deadIf: '1==1', againIf: '1==1', againAfter: '5s', retryIf: '' });
    const verdict = judge(plain, rules, call, { kind: 'no_reply', reason: 'timeout' });
    expect(shownVerdict(verdict)).toBe('timeout, null');
    expect(judge(plain, rules, call, { kind: 'confirmed' })).toEqual({ outcome: 'delivered' });
  });

  it('half a body ends no job: rules that read it are false, others are not', () => {
    const [dead, , , , again, , rule, done] = rows as [Row, Row, Row, Row, Row, Row, Row, Row];
    expect(verdictOf([dead, done], true)).toBe('delivered');
    expect(verdictOf([again], true)).toBe('delivered');
    expect(verdictOf([dead, again, rule], true)).toBe('reply_too_large, null');
    const byStatus = { verdict: '', rules: { deadIf: '{status}==200' } };
    expect(verdictOf([byStatus], true)).toBe('dead_rule, dead_rule');
    const byHeader = { verdict: '', rules: { againIf: '{status}==200', againAfter: '{res.wait}s' } };
    expect(verdictOf([byHeader], true)).toBe('again 60000 by againIf');
  });

  it.each([
    ['', 'bad_again, null'],
    ['soon', 'bad_again, null'],
    ['10m, 5m', 'bad_again, null'],
    ['-5s', 'bad_again, null'],
    [' 10m ', 'again 600000 by dq-again'],
    ['0', 'again 1000 by dq-again'],
    ['10ms', 'again 1000 by dq-again'],
    ['400d', 'again 2592000000 by dq-again'],
  ])('dq-again %j: %s', (value, verdict) => {
    expect(verdictOf([{ verdict, headers: { 'dq-again': value } }])).toBe(verdict);
    expect(verdictOf([{ verdict, status: 503, headers: { 'dq-again': value } }])).toBe(verdict);
  });

  it('an unreadable dq-again says what to write', () => {
    expect(judge(plain, noRules, call, reply(200, '{}', { 'dq-again': '600' }))).toMatchObject({
      detail: 'dq-again: "600" has no unit; write 600s or 600ms',
    });
  });

  it.each([
    ['10m', '{}', 600_000],
    ['5ms', '{}', 1_000],
    ['{res.wait}s', '{"wait":30}', 30_000],
    ['{res.wait}m', '{"wait":"1.5"}', 90_000],
    ['{res.wait}ms', '{"wait":1500.5}', 1_501],
    ['{res.wait}h', '{"wait":100000}', 2_592_000_000],
    ['{res.wait}s', '{"wait":-1}', 60_000],
    ['{res.wait}s', '{"wait":"soon"}', 60_000],
    ['{res.wait}s', '{"wait":true}', 60_000],
    ['{res.wait}s', 'no JSON', 60_000],
    ['{header.retry-after}s', '{}', 120_000],
    ['{attempt}d', '{}', 86_400_000],
  ])('againAfter %s of %s: %i ms', (againAfter, text, ms) => {
    const rules = rulesOf({ ...sources, againIf: '1==1', againAfter });
    const verdict = judge(plain, rules, call, reply(429, text, { 'retry-after': '120' }));
    expect(verdict).toMatchObject({ outcome: 'again', delayMs: ms });
    expect(slowDownOf(plain, verdict, reply(429, text))).toBeNull();
  });

  it('every 10,000th snooze is a failed attempt', () => {
    const again = { outcome: 'again', delayMs: 1_000, by: 'againIf' } as const;
    for (const n of [1, 9_999, 10_001]) expect(withAgainLimit(again, n)).toBe(again);
    for (const n of [10_000, 20_000])
      expect(withAgainLimit(again, n)).toMatchObject({ reason: 'again_limit', noMoreAttempts: null });
    expect(withAgainLimit({ outcome: 'delivered' }, 10_000)).toEqual({ outcome: 'delivered' });
    const limit = withAgainLimit(again, 10_000);
    expect(limit).toMatchObject({ retryAfterMs: 1_000 });
    const topic = { maxAttempts: 1, backoff: { type: 'odd' }, jitter: 0 } as const;
    expect(settle(topic, 0, limit, 1, () => 0)).toEqual({ kind: 'bury', reason: 'attempts_exhausted' });
    expect(settle(topic, 0, again, 1, () => 0)).toEqual({ kind: 'again', delayMs: 1_000 });
  });
});

describe('slowDownOf', () => {
  const askedBy = (outcome: CallOutcome, topic: Parameters<typeof judge>[0] = plain) =>
    slowDownOf(topic, judge(topic, noRules, call, outcome), outcome);

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
