// Tests which bodies the body budget takes, and which give way.
import { describe, expect, it } from 'vitest';
import { BodyBudget, finishBody, releaseBody, takeOverBody } from '../../src/api/http/body-budget.ts';
import { apiLimits } from '../../src/api/limits.ts';

const mib = 1024 * 1024;
const { smallBodiesHeldBytesMax, socketReadBytes } = apiLimits;

function rig(max = 8 * mib) {
  const budget = new BodyBudget(max);
  const gaveWay: string[] = [];
  const requests = new Map<string, object>();
  const requestOf = (name: string) => {
    const request = requests.get(name) ?? {};
    requests.set(name, request);
    return request;
  };
  return {
    budget,
    gaveWay,
    requestOf,
    /** `name`: that of the client, and a number */
    take: (name: string, bytes: number) =>
      budget.take(requestOf(name), bytes, {
        client: name.replace(/\d+$/, ''),
        giveWay: () => gaveWay.push(name),
      }),
  };
}

describe('body budget', () => {
  it('a client alone may hold everything, and no more', () => {
    const { take, gaveWay, requestOf } = rig();
    for (const name of ['a1', 'a2', 'a3', 'a4']) expect(take(name, 2 * mib)).toBe(true);
    expect(take('a5', mib)).toBe(false);
    expect(take('a4', 1)).toBe(false);
    expect(gaveWay).toEqual([]);
    releaseBody(requestOf('a1'));
    releaseBody(requestOf('a1'));
    expect(take('a5', 2 * mib)).toBe(true);
    expect(take('a5', 1)).toBe(false);
  });

  it('a client with more than half loses its newest bodies to another client', () => {
    const { take, gaveWay, budget } = rig();
    for (const name of ['a1', 'a2', 'a3', 'a4']) take(name, 2 * mib);
    expect(budget.fits(mib, 'a')).toBe(false);
    expect(budget.fits(mib, 'b')).toBe(true);
    expect(take('b1', 3 * mib)).toBe(true);
    expect(gaveWay).toEqual(['a4', 'a3']);
    expect(take('b1', mib)).toBe(true);
    // Each has half.
    expect(take('b2', mib)).toBe(false);
    expect(take('c1', mib)).toBe(false);
    expect(take('a5', mib)).toBe(false);
    expect(gaveWay).toEqual(['a4', 'a3']);
  });

  it('bodies that have arrived do not give way', () => {
    const { take, gaveWay, requestOf } = rig();
    for (const name of ['a1', 'a2', 'a3', 'a4']) take(name, 2 * mib);
    finishBody(requestOf('a4'));
    const release = takeOverBody(requestOf('a3'));
    expect(take('b1', mib)).toBe(true);
    expect(gaveWay).toEqual(['a2']);
    finishBody(requestOf('a1'));
    expect(take('b1', 2 * mib)).toBe(false);
    expect(gaveWay).toEqual(['a2']);
    release();
    expect(take('b1', 2 * mib)).toBe(true);
  });

  it('small bodies have a share of their own, which is bounded', () => {
    const { take, gaveWay } = rig();
    expect(take('a1', 8 * mib)).toBe(true);
    const small = smallBodiesHeldBytesMax / socketReadBytes;
    for (let n = 1; n <= small; n++) expect(take(`a${n + 1}`, socketReadBytes)).toBe(true);
    expect(take('a2', 1)).toBe(false);
    expect(take('a9999', 1)).toBe(false);
    expect(gaveWay).toEqual([]);
    expect(take('b1', 1)).toBe(true);
    expect(gaveWay).toEqual([`a${small + 1}`]);
  });

  // A list that is read from its beginning for each of them takes a minute.
  it('100,000 bodies of one client give way, the newest first', { timeout: 10_000 }, () => {
    const { take, gaveWay } = rig(68 * mib);
    for (let n = 0; n < 100_000; n++) take(`a${n}`, 700);
    for (let n = 0; n < 33; n++) expect(take('b1', mib)).toBe(true);
    expect(gaveWay.length).toBeGreaterThan(40_000);
    expect(gaveWay).toEqual(gaveWay.map((_, n) => `a${99_999 - n}`));
  });
});
