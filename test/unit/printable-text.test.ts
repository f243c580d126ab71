import { describe, expect, it } from 'vitest';
import { printable, printableExcerpt, printableJson } from '../../src/runtime/printable-text.ts';

describe('printable', () => {
  it('escapes controls, separators, direction marks and lone surrogates', () => {
    expect(printable('a\r\n\u001b[0m\u007f\u0085b')).toBe('a\\u000d\\u000a\\u001b[0m\\u007f\\u0085b');
    expect(printable('\u200e\u200f\u2028\u2029\u202e\u2066')).toBe(
      '\\u200e\\u200f\\u2028\\u2029\\u202e\\u2066',
    );
    expect(printable('\ud800x\udc00')).toBe('\\ud800x\\udc00');
  });

  it('keeps letters, pairs and punctuation', () => {
    expect(printable('grün 订单 😀 "\\')).toBe('grün 订单 😀 "\\');
  });
});

it('printableExcerpt: counts the escaped characters', () => {
  expect(printableExcerpt('ab\ncd', 8)).toBe('ab\\u000a');
  expect(printableExcerpt('ab\ncd', 3)).toBe('ab\\');
});

it('printableJson: leaves the text equal JSON', () => {
  const value = { text: 'a\u009b\u2028\n"' };
  const text = printableJson(JSON.stringify(value));
  expect(text).toBe('{"text":"a\\u009b\\u2028\\n\\""}');
  expect(JSON.parse(text)).toEqual(value);
});
