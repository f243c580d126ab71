// Tests the ring of topics with ready jobs, its savepoints and its views.
import { expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { Ring, RingView } from '../../src/store/sqlite/engine/ring.ts';

it('ring: keeps the order of additions; a repeated one is last', () => {
  const ring = new Ring();
  for (const topic of [3, 1, 2, 3]) ring.add(topic);
  expect([...ring]).toEqual([3, 1, 2]);
  ring.delete(3);
  ring.delete(7);
  ring.add(3);
  expect([...ring]).toEqual([1, 2, 3]);
});

it('ring: rolls back to a savepoint in the same order', () => {
  const seeded = new Dice(7);
  const dice = (n: number) => seeded.below(n);
  const change = (ring: Ring, count: number) => {
    for (let n = 0; n < count; n += 1) {
      if (dice(2) === 0) ring.add(dice(12));
      else ring.delete(dice(12));
    }
  };
  for (let round = 0; round < 300; round += 1) {
    const ring = new Ring();
    change(ring, 20);
    ring.commit();
    const [whole, wholeMark] = [[...ring], ring.savepoint()];
    change(ring, dice(20));
    const [half, halfMark] = [[...ring], ring.savepoint()];
    change(ring, dice(20));
    ring.rollBackTo(halfMark);
    expect([...ring]).toEqual(half);
    ring.rollBackTo(wholeMark);
    expect([...ring]).toEqual(whole);
  }
});

it('ring view: shows topics with capacity in turn, through changes and rollbacks', () => {
  const seeded = new Dice(7);
  const dice = (n: number) => seeded.below(n);
  for (let round = 0; round < 300; round += 1) {
    const ring = new Ring();
    const view = new RingView(ring);
    const open = new Set<number>();
    const hasRoom = (topic: number) => open.has(topic);
    for (let step = 0; step < 60; step += 1) {
      const topic = dice(12);
      const mark = ring.savepoint();
      for (let n = dice(4); n > 0; n -= 1) {
        if (dice(2) === 0) ring.add(dice(12));
        else ring.delete(dice(12));
        // Also in the middle of the changes that are rolled back.
        if (dice(3) === 0) [...view.topics(hasRoom)];
      }
      if (dice(3) === 0) ring.rollBackTo(mark);
      else if (dice(2) === 0) ring.commit();
      if (dice(2) === 0) open.delete(topic);
      else {
        open.add(topic);
        view.gained(topic);
      }
      // A reserve may read only the first.
      if (dice(2) === 0) view.topics(hasRoom).next();
      else expect([...view.topics(hasRoom)]).toEqual([...ring].filter(hasRoom));
    }
  }
});

it('ring view: checks no topic without capacity twice', () => {
  const ring = new Ring();
  const view = new RingView(ring);
  let looks = 0;
  const hasRoom = (topic: number) => {
    looks += 1;
    return topic === 5_000;
  };
  for (let topic = 0; topic <= 5_000; topic += 1) ring.add(topic);
  expect([...view.topics(hasRoom)]).toEqual([5_000]);
  looks = 0;
  for (let n = 0; n < 10; n += 1) {
    ring.delete(5_000);
    ring.add(5_000);
    expect([...view.topics(hasRoom)]).toEqual([5_000]);
  }
  expect(looks).toBeLessThan(20);
});

it('ring: a removed place keeps no later places in memory', () => {
  const ring = new Ring();
  const topics = [1, 2, 3, 4, 5];
  for (const topic of topics) ring.add(topic);
  // An unused view refers to the last place that it has skipped.
  const passed = ring.placeOf(5);
  for (let round = 0; round < 1_000; round += 1)
    for (const topic of topics) {
      ring.delete(topic);
      ring.add(topic);
      ring.commit();
    }
  const reachable = new Set([passed]);
  for (const place of reachable) if (place !== undefined) reachable.add(place.before).add(place.after);
  // Itself and earlier places, the current places, and the root.
  expect(reachable.size).toBeLessThanOrEqual(2 * topics.length + 1);
});
