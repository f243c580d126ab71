// Tests the text of log lines, as JSON and for people.
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { formatLine, formatReadable, headOf } from '../../src/telemetry/log-line.ts';

const parsed = (members: Record<string, unknown>) =>
  JSON.parse(formatLine(members)) as Record<string, unknown>;

describe('formatLine', () => {
  it('log line: begins with the given head', () => {
    const head = headOf({ time: 'now', process: 'a\u202eb' });
    expect(formatLine({ a: 1 }, head)).toBe('{"time":"now","process":"a\\u202eb","a":1}\n');
    expect(formatLine({}, head)).toBe('{"time":"now","process":"a\\u202eb"}\n');
    expect(JSON.parse(formatLine({ a: 'x'.repeat(40_000), b: { c: 1 } }, head))).toMatchObject({
      time: 'now',
    });
  });

  it('log line: of any values and order the same bytes as without a head', () => {
    const dice = new Dice(1);
    const texts = [
      '',
      'a b',
      '"',
      '\\',
      '\u0000',
      '\u001f',
      '\n',
      '\u007f',
      '\u0080',
      'é',
      '订',
      '😀',
      '\ud800',
      '\udc00',
    ];
    const others = [
      0,
      -0,
      1.5,
      -1e21,
      2 ** 53,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      true,
      false,
      null,
      undefined,
    ];
    const text = () => Array.from({ length: dice.below(3) }, () => dice.pick(texts)).join('x');
    const rare = [
      () => 'y'.repeat(1_024),
      () => 'y'.repeat(1_025),
      () => 7n,
      () => [text()],
      () => ({}),
      () => Buffer.of(1),
    ];
    const value = () =>
      dice.chance(0.9) ? (dice.chance(0.5) ? text() : dice.pick(others)) : dice.pick(rare)();
    for (let n = 0; n < 5_000; n += 1) {
      const names = Array.from(
        { length: 1 + dice.below(5) },
        (_, at) => `${dice.chance(0.9) ? '' : text()}n${at}`,
      );
      const members = Object.fromEntries(names.map((name) => [name, value()]));
      const whole = formatLine({ head: 1, ...members });
      expect(formatLine(members, headOf({ head: 1 }))).toBe(whole);
    }
  });

  it('log line: a long line of short texts is cut', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`n${n}`, 'x'.repeat(1_000)]));
    expect(formatLine(many, '"a":1')).toBe(`{"a":1,${formatLine(many).slice(1)}`);
    expect(formatLine(many, '"a":1')).toContain('"cut":true');
  });

  it('log line: one JSON object and one line feed', () => {
    expect(formatLine({ a: 1, b: 'x', c: null, d: undefined, e: true })).toBe(
      '{"a":1,"b":"x","c":null,"e":true}\n',
    );
  });

  it('log line: escapes controls and parses back to the values', () => {
    const hostile =
      '\r\n{"forged":1}\u001b[2J\u0000\u007f\u0085\u009b31m\u2028\u2029\u200e\u202e\u2066\ud800 und "Tür" 订单 😀';
    const line = formatLine({ id: hostile, nested: [hostile] });
    expect(line).toMatch(/^[^\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]*\n$/);
    expect(JSON.parse(line)).toEqual({ id: hostile, nested: [hostile] });
    expect(line).toContain('订单 😀');
  });

  it('log line: cuts long values at any depth', () => {
    const long = 'x'.repeat(5_000);
    const { id, nested } = parsed({ id: long, nested: { id: long } });
    expect(id).toBe(`${'x'.repeat(1024)}…(3976 more)`);
    expect(nested).toEqual({ id });
    expect(parsed({ id: 'x'.repeat(1024) })['id']).toBe('x'.repeat(1024));
  });

  it('log line: keeps plain members of a long or circular line', () => {
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    const many = Array.from({ length: 100 }, () => 'x'.repeat(1000));
    for (const value of [
      circular,
      many,
      {
        toJSON: () => {
          throw new Error('no');
        },
      },
    ])
      expect(parsed({ message: 'm'.repeat(2_000), value, n: 1 })).toEqual({
        message: `${'m'.repeat(1024)}…(976 more)`,
        n: 1,
        cut: true,
      });
  });

  it('log line: writes bigints, errors and bytes', () => {
    const cause = new Error('inner');
    expect(
      parsed({
        big: 2n ** 64n,
        bytes: Buffer.alloc(5),
        error: new Error('outer', { cause }),
        nan: Number.NaN,
      }),
    ).toEqual({ big: '18446744073709551616', bytes: '<5 bytes>', error: 'outer: inner', nan: null });
  });
});

describe('formatReadable', () => {
  it('readable line: one line of words', () => {
    const text = formatReadable('AT', 'dq-master', 'ready\nnow', {
      url: 'http://x/',
      n: 3,
      text: 'a b',
      list: [1],
    });
    expect(text).toBe('AT dq-master ready\\u000anow url=http://x/ n=3 text="a b" list=[1]');
  });

  it('readable line: values cannot end the line or control the terminal', () => {
    const text = formatReadable('AT', 'dq', 'x', { a: '\u001b[2J\n', b: '\u009b2J', c: ['\n'], d: '\u2028' });
    expect(text).toBe('AT dq x a="\\u001b[2J\\n" b=\\u009b2J c=["\\n"] d="\\u2028"');
  });
});
