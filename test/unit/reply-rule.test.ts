// Tests parsing and evaluation of retry rules, and the positions of mistakes.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import {
  evaluateRule,
  parseRule,
  type ReplyView,
  type Rule,
  ruleValues,
} from '../../src/core/rule/reply-rule.ts';

function ruleOf(source: string): Rule {
  const parsed = parseRule(source);
  if (!parsed.ok) throw new Error(`${source}: ${parsed.message} at ${parsed.position}`);
  return parsed.rule;
}

function replyOf(text: string, more: Partial<ReplyView> = {}): ReplyView {
  return { status: 200, attempt: 1, text, header: () => null, ...more };
}

const asks = (source: string, text = '', more: Partial<ReplyView> = {}) =>
  evaluateRule(ruleOf(source), replyOf(text, more));

describe('the three rules of the documentation', () => {
  it.each([
    ['{res.code}!=200', '{"code":200}', false],
    ['{res.code}!=200', '{"code":500}', true],
    ['{res.code}!=200 && {res.data.status}!=2', '{"code":500,"data":{"status":1}}', true],
    ['{res.code}!=200 && {res.data.status}!=2', '{"code":500,"data":{"status":2}}', false],
    [
      "{res.code}==200 && {res.data.status}==2 || {res.data.msg}=='返回失败'",
      '{"data":{"msg":"返回失败"}}',
      true,
    ],
    ["{res.code}==200 && {res.data.status}==2 || {res.data.msg}=='返回失败'", '{"code":200}', false],
  ])('%s on %s → %s', (rule, reply, retry) => {
    expect(asks(rule, reply)).toBe(retry);
  });
});

describe('a reference', () => {
  it.each([
    ['{res.a.0.b}', '{"a":[{"b":7}]}', 7],
    ['{res.a.b}', '{"a":[{"b":7}]}', null],
    ['{res.a.length}', '{"a":[1,2]}', null],
    ['{res.a.00}', '{"a":[1,2]}', null],
    ['{res.a.-1}', '{"a":[1,2]}', null],
    ['{res.a.2}', '{"a":[1,2]}', null],
    ['{res.a.1}', '{"a":[1,2]}', 2],
    ['{res.0}', '[5]', 5],
    ['{res.0}', '{"0":5}', 5],
    ['{res.00}', '{"00":5}', 5],
    ['{res.a.0}', '{"a":"text"}', null],
    ['{res.a.length}', '{"a":"text"}', null],
    ['{res.a.b}', '{"a":null}', null],
    ['{res.__proto__}', '{}', null],
    ['{res.__proto__.polluted}', '{"__proto__":{"polluted":1}}', 1],
    ['{res.constructor}', '{}', null],
    ['{res.toString.name}', '{}', null],
    ['{res.a.constructor}', '{"a":[]}', null],
    ['{res.返回 码}', '{"返回 码":1}', 1],
    ['{res.a}', '5', null],
    ['{res.a}', '"a"', null],
    ['{res.a}', 'null', null],
    ['{res.a}', '', null],
    ['{res.a}', 'OK', null],
    ['{res.a}', '{"a":1', null],
    ['{res.a}', "{'a':1}", null],
    ['{res.a}', '{"a":1,"a":2}', 2],
  ])('%s into %s is %j', (reference, text, value) => {
    expect(ruleValues(ruleOf(reference), replyOf(text))).toEqual({ [reference]: value });
  });

  it('reference: ignores blanks inside the braces', () => {
    expect(ruleValues(ruleOf('{ res.a } == {\tres.a\n}'), replyOf('{"a":1}'))).toEqual({ '{res.a}': 1 });
  });

  it('reference: status, attempt, and headers in any case', () => {
    const header = (name: string) => (name === 'x-flag' ? 'on' : null);
    const view = { status: 204, attempt: 3, header };
    expect(asks("{status}===204 && {attempt}===3 && {header.X-Flag}==='on'", '', view)).toBe(true);
    expect(asks('{header.x-other}===null', '', view)).toBe(true);
  });

  it('reply: parsed at most once, and only when needed', () => {
    let reads = 0;
    const view = {
      ...replyOf(''),
      get text() {
        reads += 1;
        return '{"a":1}';
      },
    };
    evaluateRule(ruleOf('{status}==500 || {attempt}==9'), view);
    expect(reads).toBe(0);
    evaluateRule(ruleOf('{res.a}==2 || {res.a}==3 || {res.b}==1'), view);
    expect(reads).toBe(1);
  });

  it('reply: finds members of deep replies, cuts deep values', () => {
    const text = `{"code":5,"deep":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
    expect(asks('{res.code}==5 && {res.deep}!=1', text)).toBe(true);
    const values = ruleValues(ruleOf('{res.deep}'), replyOf(text));
    expect(JSON.stringify(values)).toBe(`{"{res.deep}":${'['.repeat(32)}"…"${']'.repeat(32)}}`);
  });

  it('values: each reference once', () => {
    const values = ruleValues(
      ruleOf('{res.a}==1 || {res.a}==2 || {status}==3'),
      replyOf('{"a":{"__proto__":1}}'),
    );
    expect(JSON.stringify(values)).toBe('{"{res.a}":{"__proto__":1},"{status}":200}');
  });
});

describe('a literal', () => {
  it.each([
    ['{res.a}===1.5', '{"a":1.5}'],
    ['{res.a}===.5', '{"a":0.5}'],
    ['{res.a}===1.', '{"a":1}'],
    ['{res.a}===-1', '{"a":-1}'],
    ['{res.a}===+1', '{"a":1}'],
    ['{res.a}===-1.5e+3', '{"a":-1500}'],
    ['{res.a}===2E2', '{"a":200}'],
    ['{res.a}===0', '{"a":0}'],
    ['{res.a}===0.0', '{"a":0}'],
    ['{res.a}===True', '{"a":true}'],
    ['{res.a}===FALSE', '{"a":false}'],
    ['{res.a}===Null', '{"a":null}'],
    ["{res.a}===''", '{"a":""}'],
    ["{res.a}==='it\\'s'", '{"a":"it\'s"}'],
    ["{res.a}==='a\\\\b'", '{"a":"a\\\\b"}'],
    ["{res.a}==='a\\nb'", '{"a":"a\\\\nb"}'],
    ['{res.a}===\'$x "y"\'', '{"a":"$x \\"y\\""}'],
    ['{res.a}==="say \\"hi\\" \\\\ $x {$y}"', '{"a":"say \\"hi\\" \\\\ $x {$y}"}'],
    ['{res.a}==="\\n\\r\\t"', '{"a":"\\n\\r\\t"}'],
    ['{res.a}==="\\u{1F600}\\u{e9}"', '{"a":"😀é"}'],
    ["{res.a}==='返回失败 😀'", '{"a":"返回失败 😀"}'],
    ["{res.a}==='{res.b} && ('", '{"a":"{res.b} && ("}'],
    ["{res.a}==='a\nb'", '{"a":"a\\nb"}'],
  ])('%j is the value in %s', (rule, text) => {
    expect(asks(rule, text)).toBe(true);
  });

  it('-0 is the integer 0, -0.0 a negative zero', () => {
    expect(asks("-0 < '-'")).toBe(false);
    expect(asks("-0 > '-1x'")).toBe(true);
    expect(asks("-0.0 < '-1x'")).toBe(true);
  });
});

describe('precedence', () => {
  it.each([
    ['1==1 || 1==1 && 1==2', true],
    ['(1==1 || 1==1) && 1==2', false],
    ['1==2 && 1==1 || 1==1', true],
    // (!2) == false, not !(2 == false)
    ['!2 == false', true],
    ['!(2 == false)', true],
    ['!0 == 0', false],
    ['!0 < 0', false],
    ['!(0 < 0)', true],
    ['!!5 === true', true],
    // 3 > 2 first: true == true
    ['true == 3 > 2', true],
    ['3 > 2 == true', true],
    ['1 < 2 == 2 > 1', true],
    ['1==1&&2==2&&3==4||5==5', true],
    ['\t1\r\n==\v1\f', true],
    ['5', true],
    ["'0'", false],
    ['null', false],
  ])('%j is %s', (rule, value) => {
    expect(asks(rule)).toBe(value);
  });
});

describe('a mistake names its place and the replacement', () => {
  it.each([
    ['', 0, /rule is empty/],
    ['  ', 0, /rule is empty/],
    ['{res}==1', 0, /\{res\.code\}/],
    ['code==200', 0, /write \{res\.code\} for .* text in quotes/],
    ['1==response.data.x', 3, /write \{res\.data\.x\} for/],
    ['1=={ res }', 3, /\{res\.code\}/],
    ['{res.a}=1', 7, /write "=="/],
    ['{res.a}====1', 10, /write "=="/],
    ['{res.a} & 1', 8, /write "&&"/],
    ['{res.a} | 1', 8, /write "\|\|"/],
    ['{res.a}<>1', 7, /write "!="/],
    ['{res.a}<=>1', 7, /write "<", "==" or ">"/],
    ['{res.a} and 1', 8, /write "&&"/],
    ['{res.a} OR 1', 8, /write "\|\|"/],
    ['{res.a} Xor 1', 8, /write "!="/],
    ['not {res.a}', 0, /write "!"/],
    ['{res.a}==0x1A', 9, /write 26/],
    ['{res.a}==0b11', 9, /write 3/],
    ['{res.a}==0xZZ', 9, /decimal/],
    ['{res.a}==007', 9, /write 7/],
    ['{res.a}==-00', 9, /write 0/],
    ['{res.a}==00.5', 9, /write 0\.5/],
    ['{res.a}==1_000', 9, /digits alone/],
    ['{res.a}==1.2.3', 9, /quotes/],
    ['{res.a}==1e', 9, /quotes/],
    ['{res.a}==12abc', 9, /quotes/],
    ['{res.a}==abc', 9, /quotes/],
    ['{res.a}==返回失败', 9, /quotes/],
    ['{res.a}==“返回”', 9, /straight quotes/],
    ["{res.a}=='abc", 9, /no closing '/],
    ['{res.a}=="abc\\"', 9, /no closing "/],
    ['{res.a}=="a\\qb"', 11, /\\u\{/],
    ['{res.a}=="a\\u00e9"', 11, /code point/],
    ['{res.a}=="\\u{110000}"', 10, /code point/],
    ['{res.a}=="\\u{d800}"', 10, /code point/],
    ['{res.a}=="\\u{}"', 10, /code point/],
    ['1=={res.a', 3, /no closing }/],
    ['{res.a..b}', 0, /step/],
    ['{res.}', 0, /step/],
    ['{code}', 0, /\{res\.…\}/],
    ['{Res.a}', 0, /\{res\.…\}/],
    ['{status.a}', 0, /\{status\}/],
    ['{}', 0, /\{status\}/],
    ['{header}', 0, /\{header\.content-type\}/],
    ['{header.}', 0, /\{header\.content-type\}/],
    ['{header.a b}', 0, /\{header\.content-type\}/],
    ['res.code==200', 0, /write \{res\.code\}/],
    ['status==200', 0, /write \{status\}/],
    ['{res.a}+1==2', 7, /arithmetic/],
    ['{res.a} - 1==2', 8, /arithmetic/],
    ['({res.a}*2)', 8, /arithmetic/],
    ['1<2<3', 3, /do not chain/],
    ['1==2!==3', 4, /do not chain/],
    ['1==2<3==4', 6, /do not chain/],
    ['(1==1', 0, /no closing/],
    ['1==1)', 4, /no opening/],
    ['(1 2)', 3, /"\)" is missing/],
    ['()', 1, /value is expected/],
    ['1==', 3, /value is expected/],
    ['&& 1', 0, /value is expected/],
    ['1 2', 2, /operator/],
    ['{res.a} {res.b}', 8, /operator/],
    ['1; system()', 1, /U\+003B/],
    ['1\u00a0==1', 1, /U\+00A0/],
    ["'😀'=1", 3, /write "=="/],
  ])('%j at %i', (rule, position, message) => {
    const parsed = parseRule(rule);
    expect(parsed).toEqual({ ok: false, message: expect.stringMatching(message), position });
  });
});

describe('limits', () => {
  const accepts = (source: string) => parseRule(source).ok;

  it('limits: accept the maximum, reject one more', () => {
    const text = (length: number) => `'${'😀'.repeat(length - 2)}'`;
    expect([accepts(text(limits.ruleCharsMax)), accepts(text(limits.ruleCharsMax + 1))]).toEqual([
      true,
      false,
    ]);
    const nested = (n: number) => `${'('.repeat(n)}1${')'.repeat(n)}`;
    expect([accepts(nested(limits.ruleDepthMax)), accepts(nested(limits.ruleDepthMax + 1))]).toEqual([
      true,
      false,
    ]);
    const negated = (n: number) => `${'!'.repeat(n)}1`;
    expect([accepts(negated(limits.ruleDepthMax)), accepts(negated(limits.ruleDepthMax + 1))]).toEqual([
      true,
      false,
    ]);
    const path = (n: number) => `{res${'.a'.repeat(n)}}`;
    expect([accepts(path(limits.rulePathStepsMax)), accepts(path(limits.rulePathStepsMax + 1))]).toEqual([
      true,
      false,
    ]);
    // n values, n - 1 operators
    const chain = (n: number) => Array(n).fill('1').join('||');
    expect([accepts(chain(limits.ruleNodesMax / 2)), accepts(chain(limits.ruleNodesMax / 2 + 1))]).toEqual([
      true,
      false,
    ]);
  });

  it('limits: bound nesting, not the number of brackets', () => {
    expect(accepts(Array(40).fill('(1)').join('||'))).toBe(true);
  });

  it('limits: reject a megabyte of source', () => {
    expect(parseRule('('.repeat(1_000_000))).toMatchObject({ ok: false, position: limits.ruleCharsMax });
  });
});
