import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { FrameReader, frameOf } from '../../src/compat/php/frames.ts';
import { readFixTime } from '../../src/compat/php/php-dialect.ts';
import { phpMembers, phpString, storedBody } from '../../src/compat/php/php-json.ts';
import { createLocalTime } from '../../src/core/calendar.ts';
import { texts, words } from '../support/words.ts';

/** The frames in these pieces, and the mistake that ended the reading. */
function framesIn(pieces: readonly (string | Buffer)[]) {
  const reader = new FrameReader();
  const frames: string[] = [];
  let mistake: string | null = null;
  for (const piece of pieces)
    mistake ??= reader.read(Buffer.from(piece), (json) => frames.push(String(json)));
  return { frames, mistake, isWithin: reader.isWithin };
}

describe('frames of php-delayqueue', () => {
  const first = '0007{"a":1}';
  const second = `0012{"b":"会"}${' '.repeat(1)}`;

  it('frames: whole, in pieces of any size, and several at once', () => {
    const bytes = Buffer.from(first + second + first);
    const frames = ['{"a":1}', '{"b":"会"} ', '{"a":1}'];
    for (let size = 1; size <= bytes.length; size += 1) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
        bytes.subarray(n * size, (n + 1) * size),
      );
      expect(framesIn(pieces)).toEqual({ frames, mistake: null, isWithin: false });
    }
  });

  it('frames: the longest one', () => {
    const json = `{"a":"${'x'.repeat(9_991)}"}`;
    const frame = frameOf(json) ?? '';
    expect(frame).toHaveLength(10_003);
    expect(framesIn([frame.slice(0, 6_000), frame.slice(6_000)]).frames).toEqual([json]);
    expect(frameOf(`${json} `)).toBeNull();
  });

  it.each([
    ['G', 'a frame begins with 4 digits'],
    ['12', null],
    ['12x', 'a frame begins with 4 digits'],
    ['0000', 'a frame of no bytes'],
    ['0012', null],
    ['0012[', 'a frame holds a JSON object'],
    ['0012 {', 'a frame holds a JSON object'],
    ['10000', 'too long: a frame has at most 9999 bytes'],
    [`${first}x`, 'a frame begins with 4 digits'],
  ])('frames: %j is rejected at once, or waits', (text, mistake) => {
    expect(framesIn([text]).mistake).toBe(mistake);
    expect(framesIn([...text]).mistake).toBe(mistake);
  });
});

describe('fix_time', () => {
  const shanghai = createLocalTime('Asia/Shanghai');
  const berlin = createLocalTime('Europe/Berlin');
  const at = (text: string, zone = shanghai) => {
    const ms = readFixTime(text, zone);
    return ms === null ? null : new Date(ms).toISOString();
  };

  it.each([
    ['2030-01-31 09:00:00', '2030-01-31T01:00:00.000Z'],
    ['2030-01-31T09:00:00', '2030-01-31T01:00:00.000Z'],
    ['2030/01/31 09:00', '2030-01-31T01:00:00.000Z'],
    ['2030-01-31', '2030-01-30T16:00:00.000Z'],
    ['2030/01/31', '2030-01-30T16:00:00.000Z'],
    ['2030-01-31 09:00:00Z', '2030-01-31T09:00:00.000Z'],
    ['2030-01-31T09:00:00+09:30', '2030-01-30T23:30:00.000Z'],
    ['2030-01-31 09:00 -0130', '2030-01-31T10:30:00.000Z'],
    ['@1893456000', '2030-01-01T00:00:00.000Z'],
    ['2028-02-29 00:00:00', '2028-02-28T16:00:00.000Z'],
  ])('fix_time: %j is %s', (text, iso) => expect(at(text)).toBe(iso));

  it.each([
    '',
    ...words`tomorrow 1893456000 @ @1.5 2030-02-30 2030-13-01`,
    ...texts`2030-01-31 24:00:00 | 2030-01-31 09:60 | 2030-01/31 | 2030-1-31 | 2030-01-31 9:00`,
    '2030-01-31  09:00',
    '2030-01-31 09:00:00.5',
    '2030-01-31 09:00:00+25:00',
    ' 2030-01-31',
  ])('fix_time: %j is invalid', (text) => expect(at(text)).toBeNull());

  it('fix_time: a skipped hour moves forward, of a doubled one the first counts', () => {
    expect(at('2030-03-31 01:59:59', berlin)).toBe('2030-03-31T00:59:59.000Z');
    expect(at('2030-03-31 02:30:00', berlin)).toBe('2030-03-31T01:30:00.000Z');
    expect(at('2030-03-31 03:00:00', berlin)).toBe('2030-03-31T01:00:00.000Z');
    expect(at('2030-10-27 02:30:00', berlin)).toBe('2030-10-27T00:30:00.000Z');
    expect(at('2030-10-27 03:00:00', berlin)).toBe('2030-10-27T02:00:00.000Z');
    const apia = createLocalTime('Pacific/Apia');
    expect(at('2011-12-30 10:00:00', apia)).toBe('2011-12-30T20:00:00.000Z');
  });
});

describe('body of an add', () => {
  const stored = (json: string | null, format: 'raw' | 'form' = 'form') => {
    const { body, contentType } = storedBody(json === null ? null : Buffer.from(json), format);
    return [body.toString(), contentType];
  };
  const json = 'application/json';

  it.each([
    ['{"b": 1.50,"a":12345678901234567890}', '{"b": 1.50,"a":12345678901234567890}'],
    ['[]', '{}'],
    ['[1.0, [2] ,"x"]', '{"0":1.0,"1":[2],"2":"x"}'],
    [null, '{}'],
    ['null', '{}'],
    ['false', '{}'],
    ['""', '{}'],
    ['"{\\"a\\": 1}"', '{"a": 1}'],
    ['"\\u4f1a"', '{"body":"\\u4f1a"}'],
    ['"[1]"', '{"body":"[1]"}'],
  ])('body: %s is stored as %s', (given, body) => expect(stored(given)).toEqual([body, json]));

  it('body: text of a raw topic stays text', () => {
    expect(stored('"a \\u4f1a"', 'raw')).toEqual(['a 会', 'text/plain; charset=utf-8']);
    expect(stored('"{\\"a\\":1}"', 'raw')).toEqual(['{"a":1}', json]);
    expect(stored('""', 'raw')).toEqual(['{}', json]);
  });

  it.each(['true', '0', '-1.5', '"\\ud800"'])('body: %s is rejected', (given) =>
    expect(() => stored(given)).toThrow(/^body: /),
  );
});

describe('JSON as PHP writes it', () => {
  const members = (json: string, ascii = true) => [...(phpMembers(Buffer.from(json), ascii) ?? [])];

  it('json: no blanks, escapes of PHP, unchanged numbers, the last of repeated names', () => {
    expect(
      members('{ "a/b" : [ 1.50 , {"c":"\\u0041\\/\u4f1a"} ] , "n":12345678901234567890,"a/b": true }'),
    ).toEqual([
      ['a/b', 'true'],
      ['n', '12345678901234567890'],
    ]);
    expect(members('{"a" : [ 1.50 , { "c" : "\\u0041/ \\" 会😀" } , [ ] , -0 , 1E5 ]}')).toEqual([
      ['a', '[1.50,{"c":"A\\/ \\" \\u4f1a\\ud83d\\ude00"},[],-0,1E5]'],
    ]);
    expect(members('{"a":"会\\ud800"}', false)).toEqual([['a', '"会\\ud800"']]);
    expect(phpMembers(Buffer.from('[1]'), true)).toBeNull();
    expect(phpMembers(Buffer.from('text'), true)).toBeNull();
  });

  it.skipIf(!hasPhp())('json: every character of text as PHP itself writes it', () => {
    const codes = Array.from({ length: 0x3000 }, (_, code) => code);
    const text = `${String.fromCodePoint(...codes)}会😀`;
    const script = 'echo json_encode(json_decode(stream_get_contents(STDIN)));';
    const written = execFileSync('php', ['-r', script], { input: JSON.stringify(text) }).toString();
    expect(phpString(text, true)).toBe(written);
  });
});

function hasPhp(): boolean {
  try {
    execFileSync('php', ['-v'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
