import { describe, expect, it } from 'vitest';
import { RecipientState } from '../../src/upkeep/alerts/recipient-state.ts';

const groupsOf = (
  standings: RecipientState,
  ids: readonly number[],
  now: number,
  addresses = ['a', 'b', 'c'],
) => standings.plan('t', addresses, ids, now).map((group) => [group.addresses.join(), [...group.ids].join()]);

describe('RecipientState', () => {
  it('tells everybody of everything in one letter', () => {
    expect(groupsOf(new RecipientState(), [1, 2], 0)).toEqual([['a,b,c', '1,2']]);
  });

  it('writes again to those that were put off alone, and keeps newer alerts for the others until their window ends', () => {
    const standings = new RecipientState();
    standings.told('t', { addresses: ['a', 'c'], ids: new Set([1, 2]) }, 0, 300);
    standings.deferred('t', 'b', 0, () => 10);
    expect(standings.nextAt('t', ['a', 'b', 'c'])).toBe(10);
    expect(groupsOf(standings, [1, 2, 3], 9)).toEqual([]);
    expect(groupsOf(standings, [1, 2, 3], 10)).toEqual([['b', '1,2,3']]);
    expect(groupsOf(standings, [1, 2, 3], 300)).toEqual([
      ['a,c', '3'],
      ['b', '1,2,3'],
    ]);
    expect(standings.finished('t', ['a', 'b', 'c'], [1, 2, 3])).toEqual([]);
    standings.told('t', { addresses: ['b'], ids: new Set([1, 2, 3]) }, 0, 310);
    expect(standings.finished('t', ['a', 'b', 'c'], [1, 2, 3])).toEqual([1, 2]);
    expect(groupsOf(standings, [3], 310)).toEqual([['a,c', '3']]);
  });

  it('waits longer each time an address is put off, and shortly again after it was told', () => {
    const standings = new RecipientState();
    const waits: number[] = [];
    const wait = (failures: number) => {
      waits.push(failures);
      return failures;
    };
    for (let n = 0; n < 3; n += 1) standings.deferred('t', 'a', 0, wait);
    standings.told('t', { addresses: ['a'], ids: new Set([1]) }, 0, 0);
    standings.deferred('t', 'a', 0, wait);
    expect(waits).toEqual([1, 2, 3, 1]);
  });

  it('an address that joins later is told of what is still owed, at once', () => {
    const standings = new RecipientState();
    standings.told('t', { addresses: ['a'], ids: new Set([1]) }, 0, 300);
    expect(standings.nextAt('t', ['a', 'new'])).toBe(0);
    expect(groupsOf(standings, [1], 5, ['a', 'new'])).toEqual([['new', '1']]);
  });

  it('an address that goes is waited for no more', () => {
    const standings = new RecipientState();
    standings.told('t', { addresses: ['a'], ids: new Set([1]) }, 0, 300);
    standings.deferred('t', 'b', 0, () => 10);
    expect(standings.finished('t', ['a'], [1])).toEqual([1]);
  });

  it('keeps keys apart, and forgets one', () => {
    const standings = new RecipientState();
    standings.told('t', { addresses: ['a'], ids: new Set([1]) }, 0, 300);
    expect(standings.nextAt('u', ['a'])).toBe(0);
    standings.forget('t');
    expect(groupsOf(standings, [1], 0, ['a'])).toEqual([['a', '1']]);
  });

  it('forgets what is owed no more', () => {
    const standings = new RecipientState();
    standings.told('t', { addresses: ['a'], ids: new Set([1, 2]) }, 0, 0);
    standings.prune('t', [2, 3]);
    expect(standings.finished('t', ['a'], [1, 2, 3])).toEqual([2]);
  });
});
