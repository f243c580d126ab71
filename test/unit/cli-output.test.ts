import { describe, expect, it } from 'vitest';
import { escapeControls, excerpt, tableOf, withCaret } from '../../src/cli/output/output.ts';

/** Columns a terminal gives to a text of ASCII and Chinese. */
const width = (text: string) => Array.from(text).reduce((sum, c) => sum + (/[⺀-鿿＀-￠]/.test(c) ? 2 : 1), 0);

describe('tableOf', () => {
  it('aligns Chinese text by its width on a screen', () => {
    const lines = tableOf([
      ['TOPIC', 'TITLE', 'STATE'],
      ['order.close', '关闭未支付订单', 'active'],
      ['a', 'short', 'paused'],
    ]).split('\n');
    const starts = lines.map((line, i) =>
      width(line.slice(0, line.indexOf(['STATE', 'active', 'paused'][i] as string))),
    );
    expect(new Set(starts).size).toBe(1);
  });

  it('leaves no blanks at the end of a line', () => {
    expect(
      tableOf([
        ['a', 'long text'],
        ['b', ''],
      ]),
    ).toBe('a  long text\nb');
  });
});

describe('withCaret', () => {
  it('points at the character', () => {
    expect(withCaret('{res.code} <> 200', 11)).toBe('  {res.code} <> 200\n             ^');
  });

  it('points below a character that follows Chinese text', () => {
    const [source, caret] = withCaret("'返回失败' and 1", 7).split('\n') as [string, string];
    expect(width(source.slice(0, source.indexOf('and')))).toBe(caret.indexOf('^'));
  });

  it('keeps the blanks before the place, and points behind the end', () => {
    expect(withCaret('a ==  ', 6)).toBe('  a ==\n        ^');
  });
});

describe('escapeControls', () => {
  it('lets nothing through that moves a cursor or turns text round', () => {
    expect(escapeControls('a\u001b[2Jb\u0007\u009b\u200e\u202e')).toBe(
      'a\\u001b[2Jb\\u0007\\u009b\\u200e\\u202e',
    );
    expect(escapeControls('one\r\n\ttwo')).toBe('one two');
  });
});

describe('excerpt', () => {
  it('cuts between characters, never inside one', () => {
    expect(excerpt('😀😀😀', 2)).toBe('😀😀…');
    expect(excerpt('short', 5)).toBe('short');
  });
});
