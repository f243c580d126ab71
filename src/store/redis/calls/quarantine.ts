// Counts the quarantined records of a shard (lua/shared/quarantine.lua) for health, with some examples. Costs
// one plain command while there are none.

import { storeLimits } from '../../limits.ts';
import type { Shard } from '../shard/shard.ts';
import { exampleOf } from './examination.ts';

/** Rejects with StoreError. */
export async function quarantineOf(
  shard: Shard,
): Promise<{ readonly count: number; readonly warnings: readonly string[] }> {
  const found = await Promise.all(
    shard.buckets.map(async (bucket) => {
      if (!(await shard.has(bucket, 'q'))) return { count: 0, examples: [] };
      const reply = (await shard.run('countQuarantined', bucket, [storeLimits.fsckExamples])) as [
        number,
        ...Buffer[],
      ];
      const [count, ...names] = reply;
      const examples = Array.from({ length: names.length / 2 }, (_, i) =>
        exampleOf(names[2 * i] as Buffer, names[2 * i + 1] as Buffer),
      );
      return { count, examples };
    }),
  );
  const count = found.reduce((sum, one) => sum + one.count, 0);
  const examples = found.flatMap((one) => one.examples).slice(0, storeLimits.fsckExamples);
  if (count === 0) return { count, warnings: [] };
  const what = `${count} unreadable or ownerless ${count === 1 ? 'record is' : 'records are'} quarantined`;
  return { count, warnings: [`${what}: ${examples.join(' ')}; dq fsck lists them`] };
}
