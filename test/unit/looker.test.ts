import { expect, it } from 'vitest';
import type { Change } from '../../src/core/job-change.ts';
import { Looker } from '../../src/journal/heal/looker.ts';
import type { Healing, ShippedNumbers } from '../../src/ports/healing.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { changeOf } from '../support/spool.ts';

const place = changeOf(101).place;
const changes: readonly Change[] = [changeOf(101), changeOf(105), changeOf(103)];
const [whole, lossAt104] = [0, 104];

/** Over one partition, which has looked once. */
async function looked(healed: number) {
  const looks: ShippedNumbers[] = [];
  let answers = true;
  const look: Healing['look'] = async (_partition, numbers) => {
    if (!answers) throw new StoreError({ kind: 'not_stored', code: 'redis_away' });
    looks.push(numbers);
    return { place, note: null, healed };
  };
  const looker = new Looker({
    healing: { look } as Healing,
    partitions: () => [0],
    journal: { marks: async () => [] },
    ...{ instance: 7, log: silentLog, deadBelow: () => null },
  });
  const silence = () => {
    answers = false;
  };
  await looker.start();
  await expect.poll(() => looker.hasSeenAll).toBe(true);
  await looker.drain(1_000);
  return { looker, looks, silence };
}

it('report: compares the number of the writer before its mark is raised', async () => {
  const { looker, looks } = await looked(whole);
  expect(await looker.report('7.3', changes)).toEqual(new Map([[place, 105]]));
  expect(looks.at(-1)?.writers).toEqual(new Map([['7.3', 105]]));
  expect(looks.at(-1)?.marks).toEqual(new Map([[7, { known: 0, next: 105 }]]));
});

it('lateOf: all changes of a partition that was not asked, those before a loss, or none', async () => {
  const { looker, silence } = await looked(lossAt104);
  const reported = await looker.report('7.3', changes);
  expect(looker.lateOf(changes, reported, false)).toEqual([{ place, lowest: 101, highest: lossAt104 }]);
  expect(looker.lateOf(changes, reported, true)).toEqual([{ place, lowest: 101, highest: 0 }]);
  silence();
  const unanswered = await looker.report('7.3', changes);
  expect(unanswered.size).toBe(0);
  for (const isOld of [false, true])
    expect(looker.lateOf(changes, unanswered, isOld)).toEqual([{ place, lowest: 101, highest: 105 }]);
  const { looker: unharmed } = await looked(whole);
  expect(unharmed.lateOf(changes, await unharmed.report('7.3', changes), false)).toEqual([]);
});
