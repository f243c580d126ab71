import { expect, it } from 'vitest';
import { parseQuery, unreadable } from '../../src/api/http/request-head.ts';
import { words } from '../support/words.ts';

it('query: reads names and values, + as a space, and an empty query', () => {
  expect({ ...parseQuery('a=1&b=x+y%20z&c=%e8%ae%a2&d=&e&f==&=g') }).toEqual({
    ...{ a: '1', b: 'x y z', c: '订', d: '', e: '', f: '=', '': 'g' },
  });
  expect({ ...parseQuery('') }).toEqual({});
  expect({ ...parseQuery('&&a=1&') }).toEqual({ a: '1' });
});

it('query: has no inherited members', () => {
  expect(Object.keys(parseQuery('__proto__=1&constructor=2'))).toEqual(['__proto__', 'constructor']);
  expect(({} as Record<string, unknown>)['1']).toBeUndefined();
});

it('query: returns a marker for repeated names and invalid escapes', () => {
  for (const text of ['a=1&a=2', 'a=1&%61=2', 'a&a', 'a=%', 'a=%ff', '%=1', 'a=%u0041', 'a=%ed%a0%80']) {
    const query = parseQuery(text);
    expect(Object.keys(query), text).toEqual([unreadable]);
    expect(query[unreadable]).toMatchObject({ field: expect.any(String), message: expect.any(String) });
  }
});

it('query: never throws', () => {
  let state = 7;
  const next = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
  const pieces = [...words`% %f %ff %e8%ae & = + a`, '\u00ff', '\ud800', ...words`%00 __proto__ ? #`];
  for (let n = 0; n < 20_000; n++) {
    let text = '';
    for (let length = next(12); length > 0; length--) text += pieces[next(pieces.length)];
    expect(() => parseQuery(text), JSON.stringify(text)).not.toThrow();
  }
});
