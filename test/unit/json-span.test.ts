// JSON.parse is the reference: text that it accepts has spans of its values, other text has a mistake.
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import {
  elementSteps,
  elementsOf,
  type MemberSpan,
  membersOf,
  mistakeIn,
  type Span,
} from '../../src/core/json-span.ts';
import { texts } from '../support/words.ts';

/** more than in any text here */
const many = 1_000;

type Found = 'a mistake' | 'another value' | unknown[];

function elements(text: Buffer): Found {
  const found = elementsOf(text, many);
  if (found === null) return 'another value';
  if ('mistakeAt' in found) return 'a mistake';
  return found.map((span) => parsed(text, span));
}

function members(text: Buffer): Found {
  const found = membersOf(text, many);
  if (found === null) return 'another value';
  if ('mistakeAt' in found) return 'a mistake';
  return byName(found.map(({ name, value }) => [String(parsed(text, name)), parsed(text, value)]));
}

/** JSON.parse keeps the last of equal names, and puts numbers first. */
function byName(entries: readonly (readonly [string, unknown])[]): unknown[] {
  return [...new Map(entries)].sort(([a], [b]) => (a < b ? -1 : 1));
}

function parsed(text: Buffer, { from, to }: Span): unknown {
  return JSON.parse(text.toString('utf8', from, to));
}

/** The same by JSON.parse. */
function judge(text: Buffer): { readonly elements: Found; readonly members: Found } {
  let value: unknown;
  try {
    value = JSON.parse(text.toString('utf8'));
  } catch {
    return { elements: 'a mistake', members: 'a mistake' };
  }
  const other = 'another value';
  if (Array.isArray(value)) return { elements: value, members: other };
  return {
    elements: other,
    members: typeof value === 'object' && value !== null ? byName(Object.entries(value)) : other,
  };
}

describe('mistakeIn', () => {
  it.each([
    ['', 0],
    [' {} ', null],
    ['{"a": "ü", b}', 12],
    ['[1,2', 4],
    ['1 2', 2],
    ['{"a":01}', 6],
  ])('%j: %j', (text, at) => {
    expect(mistakeIn(Buffer.from(text))).toBe(at);
  });
});

describe('json spans', () => {
  const values = [
    ...['0', '-0', '1.5', '-1e5', '1E+5', '2e-07', '12345678901234567890', 'true', 'false', 'null'],
    ...['""', '"a"', '"\\u00e9\\n\\\\\\"\\/"', '"订单👩"', '"\u2028"', '"\u007f"', '[]', '{}', '[ ]', '{ }'],
    ...['[1,[2,[]],{"a":[{}]}]', '{"a":{"b":[1]},"c":null}', ' [1] ', '\n\t\r {"a" : 1 } \n', '[[],[]]'],
    ...['{"__proto__":1,"constructor":{}}', '{"":""}', '[{"a":1},{"a":2}]'],
  ];
  const mistakes = [
    ...['', ' ', '[', ']', '{', '}', '[1', '[1,', '[1,]', '[,1]', '[1 2]', '[1]]', '[]x', '{]', '[}', '[{]}'],
    ...['{"a"}', '{"a":}', '{"a":1,}', '{a:1}', "{'a':1}", '{"a":1 "b":2}', '{"a" 1}', '{1:1}', '{}{}'],
    ...['01', '-', '-a', '1.', '.5', '1e', '1e+', '+1', '0x1', '--1', '1.e1', 'Infinity', 'NaN', '00'],
    ...['tru', 'trueX', 'nul', 'False', 'undefined', '"', '"\\', '"\\x"', '"\\u12"', '"\\u123g"', '"\n"'],
    ...[
      '"\t"',
      '"\u0000"',
      '"\u001f"',
      '\ufeff[]',
      '[1]\u00a0',
      '\u000b[]',
      ...texts`// [] | [1]// | /**/[] | [1;2]`,
    ],
  ];

  it('spans: exist exactly for text that JSON.parse accepts', () => {
    for (const text of [...values, ...mistakes, ...values.map((value) => `[${value},${value}]`)]) {
      const bytes = Buffer.from(text);
      const { elements: list, members: object } = judge(bytes);
      expect(elements(bytes), text).toEqual(list);
      expect(members(bytes), text).toEqual(object);
    }
    for (const text of mistakes) expect(judge(Buffer.from(text)).members, text).toBe('a mistake');
  });

  it('elements: are the same in steps of any size', () => {
    const deep = `${'[{"a":'.repeat(300)}1${'}]'.repeat(300)}`;
    for (const value of [...values, ...mistakes, deep, deep.slice(1)])
      for (const text of [value, `[${value},{"b":[1,${value}]}, ${value} ]`]) {
        const bytes = Buffer.from(text);
        const whole = elementsOf(bytes, many);
        for (const stepBytes of [1, 2, 7, 1_000]) {
          const steps = elementSteps(bytes, many, stepBytes);
          let step = steps.next();
          while (step.done !== true) step = steps.next();
          expect(step.value, `${text} ${stepBytes}`).toEqual(whole);
        }
      }
  });

  it('spans: exclude white space; members keep order and repeats', () => {
    const text = Buffer.from(' [ {"b" : 1.0e2 , "a":"x" ,"b": [ 1 ] } , 2 ] ');
    const list = elementsOf(text, many) as readonly Span[];
    const pieces = list.map(({ from, to }) => text.subarray(from, to));
    expect(pieces.map(String)).toEqual(['{"b" : 1.0e2 , "a":"x" ,"b": [ 1 ] }', '2']);
    const object = membersOf(pieces[0] as Buffer, many) as readonly MemberSpan[];
    expect(
      object.map(({ name, value }) =>
        [name, value].map(({ from, to }) => pieces[0]?.toString('utf8', from, to)),
      ),
    ).toEqual([
      ['"b"', '1.0e2'],
      ['"a"', '"x"'],
      ['"b"', '[ 1 ]'],
    ]);
  });

  it('mistake: at the first byte that cannot follow', () => {
    const places: readonly (readonly [string, number])[] = [
      ['', 0],
      ['[1,]', 3],
      ['[1 2]', 3],
      ['["ab', 4],
      ['[tru]', 4],
      ['[1.x]', 3],
      ['["\\q"]', 3],
      ['["\\u12x4"]', 6],
      ['{"a":1,,}', 7],
      ['[1] x', 4],
      ['[{"a":[1,{"b":]}]}]', 14],
    ];
    for (const [text, at] of places) {
      expect(elementsOf(Buffer.from(text), many), text).toEqual({ mistakeAt: at });
      expect(membersOf(Buffer.from(text), many), text).toEqual({ mistakeAt: at });
    }
  });

  it('spans: stop after max + 1', () => {
    const list = Buffer.from(`[${'0,'.repeat(1_000)}!`);
    expect(elementsOf(list, 5)).toHaveLength(6);
    expect(elementsOf(list, 1_000)).toEqual({ mistakeAt: 2_001 });
    expect(elementsOf(Buffer.from('[0,0]'), 2)).toHaveLength(2);
    const object = Buffer.from(`{${'"a":0,'.repeat(1_000)}!`);
    expect(membersOf(object, 5)).toHaveLength(6);
    expect(membersOf(object, 1_000)).toEqual({ mistakeAt: 6_001 });
    expect(membersOf(Buffer.from('{"a":0}'), 1)).toHaveLength(1);
  });

  it('depth: a million levels need no stack', () => {
    const depth = 1_000_000;
    const lists = `${'['.repeat(depth)}${']'.repeat(depth)}`;
    const objects = `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
    for (const deep of [lists, objects]) {
      const text = Buffer.from(`[${deep}]`);
      expect(elementsOf(text, many)).toEqual([{ from: 1, to: 1 + deep.length }]);
      expect(membersOf(Buffer.from(`{"b":${deep}}`), many)).toHaveLength(1);
      // One closer is missing or different at the deepest level.
      expect(elementsOf(text.subarray(0, -1), many)).toEqual({ mistakeAt: text.length - 1 });
      expect(elementsOf(Buffer.from(`[${deep.slice(0, -1)}x]`), many)).toEqual({ mistakeAt: deep.length });
    }
  });

  it('random and damaged texts: same result as JSON.parse', () => {
    const seeded = new Dice(20_260_102);
    const dice: Draw = (below) => seeded.below(below);
    let good = 0;
    let bad = 0;
    for (let n = 0; n < 20_000; n++) {
      const text = n % 2 === 0 ? valueText(dice, 4) : damaged(dice, valueText(dice, 4));
      const bytes = Buffer.from(text);
      const { elements: list, members: object } = judge(bytes);
      if (list === 'a mistake') bad += 1;
      else good += 1;
      expect(elements(bytes), text).toEqual(list);
      expect(members(bytes), text).toEqual(object);
    }
    // Both kinds occur.
    expect(good).toBeGreaterThan(10_000);
    expect(bad).toBeGreaterThan(5_000);
  });
});

type Draw = (below: number) => number;

function pick(dice: Draw, list: readonly string[]): string {
  return list[dice(list.length)] ?? '';
}

function valueText(dice: Draw, depth: number): string {
  const blank = () => pick(dice, ['', '', '', ' ', '\n ', '\t']);
  const many = (one: (n: number) => string) => {
    const pieces = Array.from({ length: dice(4) }, (_, n) => `${blank()}${one(n)}${blank()}`);
    return pieces.length === 0 ? blank() : pieces.join(',');
  };
  switch (depth === 0 ? dice(2) : dice(6)) {
    case 0:
      return pick(dice, ['0', '-1', '1.5', '1e9', '-0.1E-3', 'true', 'false', 'null', '9007199254740993']);
    case 1:
      return pick(dice, ['""', '"a"', '"\\""', '"\\\\"', '"\\u0041\\ud83d"', '"订单"', '"[{,:"', '"\\/"']);
    case 2:
    case 3:
      return `[${many(() => valueText(dice, depth - 1))}]`;
    default:
      return `{${many((n) => `"k${n}"${blank()}:${blank()}${valueText(dice, depth - 1)}`)}}`;
  }
}

function damaged(dice: Draw, text: string): string {
  const at = dice(text.length + 1);
  const some = pick(dice, [...'[]{}",:\\0-.eEtfn u\n\u0001é']);
  switch (dice(4)) {
    case 0:
      return text.slice(0, at) + text.slice(at + 1);
    case 1:
      return text.slice(0, at) + some + text.slice(at);
    case 2:
      return text.slice(0, at) + some + text.slice(at + 1);
    default:
      return text.slice(0, at);
  }
}
