import { expect, it } from 'vitest';
import { Ring } from '../../src/store/sqlite/ring.ts';

it('ring: the first added is the first, and who comes again is the last', () => {
  const ring = new Ring();
  for (const topic of [3, 1, 2, 3]) ring.add(topic);
  expect([...ring]).toEqual([3, 1, 2]);
  ring.delete(3);
  ring.delete(7);
  ring.add(3);
  expect([...ring]).toEqual([1, 2, 3]);
});

it('ring: whatever was done since a mark is undone, to the same order', () => {
  const dice = (n: number) => Math.floor(Math.random() * n);
  const change = (ring: Ring, count: number) => {
    for (let n = 0; n < count; n += 1) {
      if (dice(2) === 0) ring.add(dice(12));
      else ring.delete(dice(12));
    }
  };
  for (let round = 0; round < 300; round += 1) {
    const ring = new Ring();
    change(ring, 20);
    ring.keep();
    const [whole, wholeMark] = [[...ring], ring.mark()];
    change(ring, dice(20));
    const [half, halfMark] = [[...ring], ring.mark()];
    change(ring, dice(20));
    ring.takeBack(halfMark);
    expect([...ring]).toEqual(half);
    ring.takeBack(wholeMark);
    expect([...ring]).toEqual(whole);
  }
});
