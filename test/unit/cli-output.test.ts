import { describe, expect, it, onTestFinished } from 'vitest';
import { escapeControls, excerpt, shownInstant, tableOf, withCaret } from '../../src/cli/output/output.ts';
import { parseInstant } from '../../src/core/duration.ts';

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

describe('shownInstant', () => {
  const terminal = { isTTY: true };
  const zone = (name: string) => {
    const before = process.env['TZ'];
    process.env['TZ'] = name;
    onTestFinished(() => {
      if (before === undefined) delete process.env['TZ'];
      else process.env['TZ'] = before;
    });
  };

  it.each([
    ['Asia/Shanghai', '2030-01-31T09:30:00.123Z', '2030-01-31T17:30:00.123+08:00'],
    ['America/St_Johns', '2030-01-31T02:00:00.000Z', '2030-01-30T22:30:00.000-03:30'],
    ['Europe/Berlin', '2030-07-01T00:00:00.000Z', '2030-07-01T02:00:00.000+02:00'],
    ['Europe/Berlin', '2030-01-01T00:00:00.000Z', '2030-01-01T01:00:00.000+01:00'],
    ['UTC', '2030-01-01T00:00:00.000Z', '2030-01-01T00:00:00.000Z'],
  ])('a terminal in %s: %s', (name, at, shown) => {
    zone(name);
    expect(shownInstant(at, terminal)).toBe(shown);
    // As --since and --at read it
    expect(parseInstant(shown)).toEqual({ ok: true, value: Date.parse(at) });
  });

  it('a pipe: as dq sent it', () => {
    zone('Asia/Shanghai');
    expect(shownInstant('2030-01-31T09:30:00.123Z', {})).toBe('2030-01-31T09:30:00.123Z');
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
