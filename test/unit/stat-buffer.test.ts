import { expect, it } from 'vitest';
import { StatBuffer } from '../../src/process/senders.ts';

it('stat buffer: adds up by topic, day and name, and is empty once taken', () => {
  const buffer = new StatBuffer(10);
  for (const n of [1, 2]) buffer.addDelta({ topic: 'a b', day: 20_300_101, name: 'pushed', n });
  buffer.addDelta({ topic: 'a b', day: 20_300_102, name: 'pushed', n: 4 });
  buffer.addDelta({ topic: 'a b', day: 20_300_101, name: 'dead', n: 8 });
  expect(buffer.take()).toEqual([
    { topic: 'a b', day: 20_300_101, name: 'pushed', n: 3 },
    { topic: 'a b', day: 20_300_102, name: 'pushed', n: 4 },
    { topic: 'a b', day: 20_300_101, name: 'dead', n: 8 },
  ]);
  expect(buffer.take()).toEqual([]);
});

it('stat buffer: when full drops and counts new names, keeps counting others', () => {
  const buffer = new StatBuffer(1);
  buffer.addDelta({ topic: 'a', day: 1, name: 'pushed', n: 1 });
  buffer.addDelta({ topic: 'b', day: 1, name: 'pushed', n: 5 });
  buffer.addDelta({ topic: 'a', day: 1, name: 'pushed', n: 1 });
  expect(buffer.takeDropped()).toBe(5);
  expect(buffer.takeDropped()).toBe(0);
  expect(buffer.take()).toEqual([{ topic: 'a', day: 1, name: 'pushed', n: 2 }]);
});
