// Keys and fields: the bytes of an id and back; the bucket of a job.
import { expect, it } from 'vitest';
import { bucketOf, idOf, prefixOf, tidOf } from '../../src/store/redis/scripts/keys.ts';

const canonical = '019aa1f6-3b6e-7cc2-9d55-6a1b6f0e4c11';

it.each([
  canonical,
  canonical.toUpperCase(),
  canonical.slice(1),
  `${canonical} `,
  canonical.replaceAll('-', ''),
  '00000000-0000-0000-0000-000000000000',
  'a',
  '😀'.repeat(64),
  '\u0000\u0001',
  '{dq:3}',
])('id %s comes back as it was', (id) => {
  expect(idOf(tidOf(id))).toBe(id);
});

it('ids: a canonical UUID takes 17 bytes, any other one byte more than its own', () => {
  expect(tidOf(canonical)).toHaveLength(17);
  expect(tidOf(canonical.toUpperCase())).toHaveLength(37);
  expect(tidOf('ab')).toHaveLength(3);
});

it('ids: a text of 16 bytes never equals a UUID', () => {
  const text = tidOf(canonical).toString('latin1', 1);
  expect(tidOf(text).equals(tidOf(canonical))).toBe(false);
});

it('buckets: jobs of one topic spread over all, and stay', () => {
  const counts = Array.from({ length: 32 }, () => 0);
  for (let n = 0; n < 32_000; n += 1) {
    const bucket = bucketOf({ topic: 't', id: String(n) }, 32);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
  }
  expect(Math.min(...counts)).toBeGreaterThan(800);
  expect(Math.max(...counts)).toBeLessThan(1_200);
  // Fixed values: later versions must find stored jobs.
  expect(bucketOf({ topic: 'order.close', id: '42' }, 32)).toBe(17);
  expect(bucketOf({ topic: 'order.close', id: '42' }, 1)).toBe(0);
});

it('buckets: each has its own hash tag', () => {
  expect(prefixOf(31)).toBe('{dq:31}');
});
