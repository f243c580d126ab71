// Tests which changes of onDone and onDead are rejected.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { outcomeProblem } from '../../src/core/topic/outcome-topics.ts';

const row = (onDone: string, onDead = '') => ({ onDone, onDead });
const none = new Set<string>();
/** t1 → t2 → … */
const chain = (length: number) =>
  new Map(Array.from({ length: length - 1 }, (_, n) => [`t${n + 1}`, row(`t${n + 2}`)] as const));

describe('outcome topics', () => {
  it('accepts a chain, and two ways that meet again', () => {
    expect(
      outcomeProblem(
        'a',
        row('b', 'c'),
        new Map([
          ['b', row('d')],
          ['c', row('d')],
        ]),
        none,
      ),
    ).toBeNull();
  });

  it('names a circle, over onDone and onDead, and one of a single topic', () => {
    const stored = new Map([
      ['b', row('', 'c')],
      ['c', row('a')],
    ]);
    expect(outcomeProblem('a', row('b'), stored, none)).toEqual({
      field: 'onDone',
      message: 'a → b → c → a is a circle; remove one step',
      circle: ['b', 'c', 'a'],
    });
    expect(outcomeProblem('a', row('', 'a'), new Map(), none)).toMatchObject({
      field: 'onDead',
      message: 'a → a is a circle; remove one step',
    });
  });

  it('a changed topic is no longer where it led to before', () => {
    expect(
      outcomeProblem(
        'a',
        row(''),
        new Map([
          ['a', row('b')],
          ['b', row('')],
        ]),
        none,
      ),
    ).toBeNull();
    expect(outcomeProblem('b', row('a'), new Map([['a', row('')]]), none)).toBeNull();
  });

  it('names a topic that is not registered', () => {
    expect(outcomeProblem('a', row('', 'b'), new Map(), new Set(['b']))).toEqual({
      ...{ field: 'onDead', message: 'topic b is not registered', unknown: 'b' },
    });
  });

  it(`accepts ${limits.outcomeTopicsMax} topics in a row, with those before it, and no more`, () => {
    const seven = chain(limits.outcomeTopicsMax - 1);
    const tooMany = { message: `${limits.outcomeTopicsMax + 1} topics in a row; at most 8` };
    expect(outcomeProblem('t0', row('t1'), seven, none)).toBeNull();
    expect(outcomeProblem('t0', row('', 't1'), chain(limits.outcomeTopicsMax), none)).toMatchObject(tooMany);
    const halves = new Map([...chain(5), ['u1', row('u2')], ['u2', row('u3')], ['u3', row('u4')]] as const);
    expect(outcomeProblem('t5', row('u2'), halves, none)).toBeNull();
    expect(outcomeProblem('t5', row('u1'), halves, none)).toMatchObject(tooMany);
  });
});
