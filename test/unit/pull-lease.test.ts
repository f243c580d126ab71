// The text of a lease as a word of a command line.
import { expect, it } from 'vitest';
import { leaseText, type PulledLease, readLease } from '../../src/core/pull-lease.ts';

it('the text of a lease never begins with -, which a command line takes for an option', () => {
  const key = Buffer.alloc(32, 7);
  const first = new Set<string>();
  for (let n = 0; n < 1_000; n += 1) {
    const lease: PulledLease = {
      ...{ topic: 't', id: `${n}`, version: 1, token: 1, failures: 0, dueAt: 0, pulledAt: 5_000 },
    };
    const text = leaseText(lease, key);
    first.add(text[0] ?? '');
    expect(readLease(text, key)).toMatchObject({ id: `${n}` });
  }
  expect(first).toContain('+');
  expect(first).not.toContain('-');
});
