// Tests the comparisons of retry rules, which follow PHP 8.
import { describe, expect, it } from 'vitest';
import { compareOrder, isTruthy, numberText } from '../../src/core/rule/php-compare.ts';
import { evaluateRule, parseRule } from '../../src/core/rule/reply-rule.ts';

// Derived by hand from PHP 8's rules (zend_compare, _is_numeric_string_ex, zend_gcvt with precision 14) and
// the deviations in php-compare.ts. Values are JSON text, which can express -0 and 1e999. [a, b, a == b, a
// === b, order]: '<' a before b, '=' equal, '>' a after b, '-' none of < <= > >= holds.
const T = true;
const F = false;
type Row = readonly [a: string, b: string, equal: boolean, same: boolean, order: '<' | '=' | '>' | '-'];

const table: readonly Row[] = [
  // null meets null and bool
  ['null', 'null', T, T, '='],
  ['null', 'false', T, F, '='],
  ['null', 'true', F, F, '<'],
  // … numbers: as bools
  ['null', '0', T, F, '='],
  ['null', '-0', T, F, '='],
  ['null', '1', F, F, '<'],
  ['null', '-1', F, F, '<'],
  // … text: as ""
  ['null', '"0"', F, F, '<'],
  ['null', '"0.0"', F, F, '<'],
  ['null', '""', T, F, '='],
  ['null', '" "', F, F, '<'],
  ['null', '"abc"', F, F, '<'],
  // … containers: as bools
  ['null', '[]', T, F, '-'],
  ['null', '[null]', F, F, '-'],
  ['null', '{}', T, F, '-'],
  ['null', '{"a":null}', F, F, '-'],
  // bool meets everything as bools
  ['false', 'false', T, T, '='],
  ['true', 'true', T, T, '='],
  ['false', 'true', F, F, '<'],
  ['false', '0', T, F, '='],
  ['false', '-0', T, F, '='],
  ['false', '0.1', F, F, '<'],
  ['true', '0', F, F, '>'],
  ['true', '-1', T, F, '='],
  ['true', '200', T, F, '='],
  ['true', '1e999', T, F, '='],
  ['false', '"0"', T, F, '='],
  ['false', '"0.0"', F, F, '<'],
  ['false', '"00"', F, F, '<'],
  ['false', '"-0"', F, F, '<'],
  ['true', '"0"', F, F, '>'],
  ['true', '"1"', T, F, '='],
  ['true', '" 0"', T, F, '='],
  ['false', '""', T, F, '='],
  ['false', '" "', F, F, '<'],
  ['true', '""', F, F, '>'],
  ['true', '"false"', T, F, '='],
  ['false', '[]', T, F, '-'],
  ['true', '[]', F, F, '-'],
  ['true', '[0]', T, F, '-'],
  ['false', '{}', T, F, '-'],
  ['true', '{"a":null}', T, F, '-'],
  // numbers
  ['1', '1', T, T, '='],
  ['200', '200.0', T, T, '='],
  ['0', '-0', T, T, '='],
  ['1', '2', F, F, '<'],
  ['-1', '1', F, F, '<'],
  ['1.5', '1', F, F, '>'],
  ['1e999', '1e999', T, T, '='],
  ['-1e999', '1e999', F, F, '<'],
  ['9007199254740993', '9007199254740992', T, T, '='],
  // number and numeric text: as numbers
  ['200', '"200"', T, F, '='],
  ['200', '"200 "', T, F, '='],
  ['200', '" 200"', T, F, '='],
  ['200', '" \\t\\n\\r\\u000b\\f200\\f\\u000b\\r\\n\\t "', T, F, '='],
  ['200', '"2e2"', T, F, '='],
  ['200', '"2E+2"', T, F, '='],
  ['200', '"200.0"', T, F, '='],
  ['200', '"+200"', T, F, '='],
  ['200', '"0200"', T, F, '='],
  ['1', '"1."', T, F, '='],
  ['1000', '"1.e3"', T, F, '='],
  ['0.5', '".5"', T, F, '='],
  ['-0.5', '"-.5"', T, F, '='],
  ['0', '"-0"', T, F, '='],
  ['-0', '"0"', T, F, '='],
  ['1e15', '"1000000000000000"', T, F, '='],
  ['200', '"1000"', F, F, '<'],
  ['200', '"30"', F, F, '>'],
  ['1e999', '"1e999"', T, F, '='],
  ['9007199254740992', '"9007199254740993"', T, F, '='],
  // number and other text: the number is written
  ['0', '""', F, F, '>'],
  ['0', '"abc"', F, F, '<'],
  ['0', '"."', F, F, '>'],
  ['200', '"200abc"', F, F, '<'],
  ['200', '"2e"', F, F, '<'],
  ['200', '"1x"', F, F, '>'],
  ['26', '"0x1A"', F, F, '>'],
  ['1', '"1\\u00a0"', F, F, '<'],
  ['1', '"1\\u0000"', F, F, '<'],
  ['1', '"１"', F, F, '<'],
  ['1', '"1 1"', F, F, '<'],
  ['1', '"--1"', F, F, '>'],
  ['1e999', '"INF"', T, F, '='],
  ['-1e999', '"-INF"', T, F, '='],
  ['1e15', '"1.0E"', F, F, '>'],
  ['1e15', '"1.0E+15x"', F, F, '<'],
  ['1e15', '"1.0F"', F, F, '<'],
  ['-0', '"-"', F, F, '>'],
  ['-0', '"-1x"', F, F, '<'],
  ['-0', '"-/"', F, F, '>'],
  // a number and a container never agree
  ['0', '[]', F, F, '-'],
  ['1', '[1]', F, F, '-'],
  ['0', '{}', F, F, '-'],
  ['1', '{"a":1}', F, F, '-'],
  // numeric texts: as numbers, integers of any size exactly
  ['"1"', '"1"', T, T, '='],
  ['"1"', '"01"', T, F, '='],
  ['" 1"', '"1 "', T, F, '='],
  ['"10"', '"1e1"', T, F, '='],
  ['"0.0"', '"-0"', T, F, '='],
  ['"-0"', '"0"', T, F, '='],
  ['"100"', '"99"', F, F, '>'],
  ['"-5"', '"3"', F, F, '<'],
  ['"-5"', '"-3"', F, F, '<'],
  ['"9007199254740993"', '"9007199254740992"', F, F, '>'],
  ['"9007199254740993"', '"9007199254740992.0"', T, F, '='],
  ['"18446744073709551617"', '"18446744073709551616"', F, F, '>'],
  ['"-18446744073709551617"', '"-18446744073709551616"', F, F, '<'],
  ['"+00018446744073709551616"', '"18446744073709551616"', T, F, '='],
  ['"18446744073709551616"', '"9"', F, F, '>'],
  ['"1e999"', '"1e999"', T, T, '='],
  ['"1e999"', '"1e1000"', F, F, '>'],
  ['"1e999"', '"-1e999"', F, F, '>'],
  // numeric text and other text: bytes
  ['"1"', '"abc"', F, F, '<'],
  ['"0"', '""', F, F, '>'],
  ['"200"', '"200abc"', F, F, '<'],
  ['"10"', '"9x"', F, F, '<'],
  ['"10"', '"0x1A"', F, F, '>'],
  ['" 1"', '"0x"', F, F, '<'],
  ['"1"', '"1\\u0000"', F, F, '<'],
  ['"1"', '"É"', F, F, '<'],
  // text and containers never agree
  ['"0"', '[]', F, F, '-'],
  ['"1"', '[1]', F, F, '-'],
  ['"0"', '{}', F, F, '-'],
  ['"1"', '{"a":1}', F, F, '-'],
  ['""', '[]', F, F, '-'],
  ['"Array"', '[1]', F, F, '-'],
  ['""', '{}', F, F, '-'],
  ['"abc"', '{"a":"abc"}', F, F, '-'],
  // texts: the order of their UTF-8 bytes
  ['""', '""', T, T, '='],
  ['""', '"a"', F, F, '<'],
  ['"abc"', '"abc"', T, T, '='],
  ['"abc"', '"ABC"', F, F, '>'],
  ['"ABD"', '"abc"', F, F, '<'],
  ['"返回"', '"返回失败"', F, F, '<'],
  ['"é"', '"z"', F, F, '>'],
  ['"é"', '"e\\u0301"', F, F, '>'],
  ['"\\uffff"', '"\\ud800\\udc00"', F, F, '<'],
  ['"\\ue000"', '"\\udbff\\udfff"', F, F, '<'],
  ['"\\ud7ff"', '"\\ue000"', F, F, '<'],
  ['"\\ud83d\\ude00"', '"\\ud83d\\ude01"', F, F, '<'],
  // lists
  ['[]', '[]', T, T, '-'],
  ['[1]', '[1]', T, T, '-'],
  ['[1]', '["1"]', T, F, '-'],
  ['[1,2]', '[2,1]', F, F, '-'],
  ['[1]', '[1,1]', F, F, '-'],
  ['[[1]]', '[["1 "]]', T, F, '-'],
  ['[null]', '[[]]', T, F, '-'],
  ['[0]', '[[]]', F, F, '-'],
  ['[0]', '["abc"]', F, F, '-'],
  ['[0]', '[-0]', T, T, '-'],
  ['[[1,[2,{"a":[3]}]]]', '[[1,[2,{"a":[3]}]]]', T, T, '-'],
  ['[[1,[2,{"a":[3]}]]]', '[[1,[2,{"a":[4]}]]]', F, F, '-'],
  // a list and an object with the same keys are one array to PHP
  ['[]', '{}', T, T, '-'],
  ['[1]', '{"0":1}', T, T, '-'],
  ['[1]', '{"0":"1"}', T, F, '-'],
  ['[1]', '{"1":1}', F, F, '-'],
  ['[1]', '{"00":1}', F, F, '-'],
  ['[1]', '{"length":1}', F, F, '-'],
  // objects
  ['{}', '{}', T, T, '-'],
  ['{"a":1}', '{"a":1}', T, T, '-'],
  ['{"a":1}', '{"a":"1"}', T, F, '-'],
  ['{"a":1,"b":2}', '{"b":2,"a":1}', T, F, '-'],
  ['{"a":1}', '{"b":1}', F, F, '-'],
  ['{"a":null}', '{"b":null}', F, F, '-'],
  ['{"a":1}', '{"a":1,"b":null}', F, F, '-'],
  ['{"__proto__":1}', '{"__proto__":1}', T, T, '-'],
  ['{"__proto__":1}', '{"a":1}', F, F, '-'],
  ['{"a":{}}', '{"__proto__":{}}', F, F, '-'],
  ['{"toString":1}', '{"constructor":1}', F, F, '-'],
];

function holds(operator: string, a: string, b: string): boolean {
  const parsed = parseRule(`{res.a} ${operator} {res.b}`);
  if (!parsed.ok) throw new Error(parsed.message);
  const text = `{"a":${a},"b":${b}}`;
  return evaluateRule(parsed.rule, { status: 200, attempt: 1, text, header: () => null });
}

describe('comparison', () => {
  it.each(table)('of %s with %s', (a, b, equal, same, order) => {
    const ordered = { '<': '<'.includes(order), '=': '='.includes(order), '>': '>'.includes(order) };
    const facts = (x: string, y: string) =>
      Object.fromEntries(
        ['==', '!=', '===', '!==', '<', '<=', '>', '>='].map((operator) => [operator, holds(operator, x, y)]),
      );
    expect(facts(a, b)).toEqual({
      ...{ '==': equal, '!=': !equal, '===': same, '!==': !same },
      '<': ordered['<'],
      '<=': ordered['<'] || ordered['='],
      '>': ordered['>'],
      '>=': ordered['>'] || ordered['='],
    });
    expect(facts(b, a)).toEqual({
      ...{ '==': equal, '!=': !equal, '===': same, '!==': !same },
      '<': ordered['>'],
      '<=': ordered['>'] || ordered['='],
      '>': ordered['<'],
      '>=': ordered['<'] || ordered['='],
    });
  });

  it('comparison: the table has every pair of kinds', () => {
    const kinds = ['null', 'bool', 'number', 'numeric text', 'text', 'list', 'object'];
    const kindOf = (json: string) => {
      if (json === 'null') return 'null';
      if (/^[tf]/.test(json)) return 'bool';
      if (json.startsWith('[')) return 'list';
      if (json.startsWith('{')) return 'object';
      if (!json.startsWith('"')) return 'number';
      return /^"\s*[+-]?\d+(\.\d*)?(e\d+)?\s*"$/.test(json) ? 'numeric text' : 'text';
    };
    const tabled = new Set(
      table.flatMap(([a, b]) => [`${kindOf(a)}/${kindOf(b)}`, `${kindOf(b)}/${kindOf(a)}`]),
    );
    const missing = kinds.flatMap((a) => kinds.map((b) => `${a}/${b}`)).filter((pair) => !tabled.has(pair));
    expect(missing).toEqual([]);
  });

  it('comparison: deep replies do not overflow', () => {
    const deep = (core: string) => '['.repeat(10_000) + core + ']'.repeat(10_000);
    expect(holds('==', deep('1'), deep('"1"'))).toBe(true);
    expect(holds('===', deep('1'), deep('1'))).toBe(true);
    expect(holds('===', deep('1'), deep('"1"'))).toBe(false);
    expect(holds('==', deep('1'), deep('2'))).toBe(false);
    const objects = (core: string) => '{"a":'.repeat(10_000) + core + '}'.repeat(10_000);
    expect(holds('==', objects('null'), objects('0'))).toBe(true);
    expect(holds('==', objects('null'), objects('1'))).toBe(false);
  });

  it('comparison: containers have no order', () => {
    expect(compareOrder([], [])).toBeNull();
  });
});

describe('isTruthy', () => {
  it.each([null, false, 0, -0, '', '0', [], {}])('is false for %j', (value) => {
    expect(isTruthy(value)).toBe(false);
  });

  it.each([true, 1, -1, 0.1, '00', '0.0', ' ', '-0', 'false', [0], [null], { a: null }])(
    'is true for %j',
    (value) => {
      expect(isTruthy(value)).toBe(true);
    },
  );
});

describe('numberText', () => {
  it.each([
    [0, '0'],
    [-0, '-0'],
    [200, '200'],
    [-1, '-1'],
    [123_456_789_012_345, '123456789012345'],
    [1e15, '1.0E+15'],
    [-1e15, '-1.0E+15'],
    [9_007_199_254_740_991, '9.007199254741E+15'],
    [1e21, '1.0E+21'],
    [1.5e300, '1.5E+300'],
    [Number.MAX_VALUE, '1.7976931348623E+308'],
    [5e-324, '4.9406564584125E-324'],
    [1.5, '1.5'],
    [-1.5, '-1.5'],
    [0.1 + 0.2, '0.3'],
    [1 / 3, '0.33333333333333'],
    [200 / 3, '66.666666666667'],
    [0.0001, '0.0001'],
    [0.00012345, '0.00012345'],
    [0.00001, '1.0E-5'],
    [-0.000015, '-1.5E-5'],
    // exactly between two texts of 14 digits: the even one
    [12_345_678_901_234.5, '12345678901234'],
    [12_345_678_901_235.5, '12345678901236'],
    [99_999_999_999_999.5, '1.0E+14'],
    [100_000_000_000_000.5, '1.0E+14'],
    [Number.POSITIVE_INFINITY, 'INF'],
    [Number.NEGATIVE_INFINITY, '-INF'],
  ])('writes %d like PHP', (n, text) => {
    expect(numberText(n)).toBe(text);
  });
});
