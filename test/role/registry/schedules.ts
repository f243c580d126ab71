// Schedules of a registry: their next instants and claims.

import { expect } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import type { ScheduleRecord } from '../../../src/core/schedule.ts';
import type { Registry } from '../../../src/ports/registry.ts';

import { fact, type RegistryCase } from './case.ts';

const first: ScheduleRecord = {
  ...{ name: 's', topic: 't', cron: null, everyMs: 100, timezone: 'UTC', body: '{}', isBase64: false },
  ...{ contentType: null, missed: 'skip', isPaused: false, revision: 1, createdAt: 0, updatedAt: 0 },
};
const end = { name: 's', dueAt: 100, nextAt: 200, madeAt: 100, problem: null };
const stored = async (registry: Registry) => {
  await registry.removeSchedule('s');
  await registry.createSchedule(first, 100);
  return registry;
};

export const scheduleCases: readonly RegistryCase[] = [
  fact('keeps the next instant and its claim, unless its times change', async ({ open }) => {
    const registry = await stored(await open());
    const [claimed] = await registry.claimSchedules(100, 150, 10);
    expect(claimed).toMatchObject({ dueAt: 100, claimedUntil: 150 });
    await registry.updateSchedule({ ...first, body: '[]', revision: 2 }, 777, 120);
    expect(await registry.schedule('s')).toMatchObject({ body: '[]', nextAt: 100, earlier: [] });
    expect(await registry.claimSchedules(149, 199, 10)).toEqual([]);
    await registry.endTicks([{ ...end, revision: 2, claimedUntil: 150 }]);
    await registry.updateSchedule({ ...first, everyMs: 50, revision: 3 }, 150, 120);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 150, earlier: [] });
  }),
  fact(
    'leaves an instant that was claimed after the change read the clock, with the replaced topic',
    async ({ open }) => {
      const registry = await stored(await open());
      await registry.claimSchedules(101, 150, 10);
      await registry.updateSchedule({ ...first, topic: 'u', everyMs: 70, revision: 2 }, 140, 99);
      const before = { cron: null, everyMs: 100, timezone: 'UTC', createdAt: 0, isPaused: false };
      const earlier = [{ ...before, topic: 't', until: 100 }];
      expect(await registry.schedule('s')).toMatchObject({ topic: 'u', nextAt: 100, earlier });
      expect(await registry.claimSchedules(149, 199, 10)).toEqual([]);
    },
  ),
  fact('a change that was computed before an instant was made does not lead back to it', async ({ open }) => {
    const registry = await stored(await open());
    await registry.claimSchedules(100, 150, 10);
    await registry.endTicks([{ ...end, revision: 1, claimedUntil: 150 }]);
    await registry.updateSchedule({ ...first, topic: 'u', everyMs: 50, revision: 2 }, 100, 90);
    expect(await registry.schedule('s')).toMatchObject({ topic: 'u', nextAt: 150, madeAt: 100 });
  }),
  fact('leaves an instant that is due, with the replaced times and topic', async ({ open }) => {
    const registry = await stored(await open());
    await registry.updateSchedule({ ...first, everyMs: 70, revision: 2 }, 210, 180);
    await registry.updateSchedule({ ...first, topic: 'u', isPaused: true, revision: 3 }, null, 190);
    const before = { cron: null, timezone: 'UTC', createdAt: 0, isPaused: false, topic: 't' };
    const earlier = [
      { ...before, everyMs: 100, until: 180 },
      { ...before, everyMs: 70, until: 190 },
    ];
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 100, isPaused: true, earlier });
    for (let revision = 4; revision < 4 + limits.earlierTimesMax - earlier.length; revision++)
      await registry.updateSchedule({ ...first, everyMs: revision, revision }, 210, 200);
    const last = { ...first, revision: 2 + limits.earlierTimesMax };
    expect(await registry.updateSchedule(last, 210, 200)).toBe('full');
    const one = await registry.schedule('s');
    expect(one).toMatchObject({ nextAt: 100, revision: last.revision - 1 });
    expect(one?.earlier).toHaveLength(limits.earlierTimesMax);
    // Its instants are made: the next change forgets them.
    await registry.endTicks([{ ...end, revision: last.revision - 1, nextAt: 300, claimedUntil: null }]);
    await registry.updateSchedule(last, 350, 250);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 350, earlier: [] });
  }),
  fact(
    'a claim by a clock that was ahead excludes nothing, and a repeated instant counts as claimed',
    async ({ open }) => {
      const registry = await stored(await open());
      await registry.claimSchedules(90_000_000, 90_000_050, 10);
      const [claimed] = await registry.claimSchedules(100, 150, 10);
      expect(claimed).toMatchObject({ dueAt: 100, wasClaimed: true });
      await registry.endTicks([
        { ...end, revision: 1, claimedUntil: 150, nextAt: 90_000_000, madeAt: 89_999_900 },
      ]);
      await registry.endTicks([{ ...end, dueAt: 90_000_000, revision: 1, claimedUntil: null, madeAt: null }]);
      await registry.claimSchedules(200, 250, 10);
      const ended = { ...end, dueAt: 200, nextAt: 300, madeAt: 200, revision: 1, claimedUntil: 250 };
      await registry.endTicks([ended]);
      expect(await registry.schedule('s')).toMatchObject({ nextAt: 300, madeAt: 89_999_900 });
      expect(await registry.claimSchedules(300, 350, 10)).toEqual([
        expect.objectContaining({ dueAt: 300, wasClaimed: true }),
      ]);
    },
  ),
  fact('an instant that is moved while it is claimed counts as made', async ({ open }) => {
    const registry = await stored(await open());
    const moved = { ...end, dueAt: 90_000_000, revision: 1, claimedUntil: null, madeAt: null };
    await registry.endTicks([{ ...end, revision: 1, claimedUntil: null, nextAt: 90_000_000, madeAt: null }]);
    await registry.endTicks([moved]);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 200, madeAt: null });
    await registry.endTicks([{ ...moved, dueAt: 200, nextAt: 90_000_000 }]);
    await registry.claimSchedules(90_000_000, 90_000_050, 10);
    await registry.endTicks([moved]);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 200, madeAt: 90_000_000 });
    expect(await registry.claimSchedules(200, 250, 10)).toMatchObject([{ dueAt: 200, wasClaimed: true }]);
    await registry.endTicks([
      { ...end, dueAt: 200, revision: 1, claimedUntil: 250, nextAt: 95_000_000, madeAt: null },
    ]);
    await registry.claimSchedules(95_000_000, 95_000_050, 10);
    await registry.updateSchedule({ ...first, everyMs: 50, revision: 2 }, 250, 210);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 250, madeAt: 95_000_000 });
  }),
  fact('the late end of a claim changes nothing while another process has the instant', async ({ open }) => {
    const registry = await stored(await open());
    await registry.claimSchedules(100, 150, 10);
    const late = { ...end, revision: 1, claimedUntil: 150 };
    await registry.claimSchedules(160, 210, 10);
    await registry.endTicks([{ ...late, nextAt: 100, madeAt: null, problem: 'not stored yet' }]);
    expect(await registry.claimSchedules(209, 259, 10)).toEqual([]);
    await registry.endTicks([late]);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 100, madeAt: null, problem: null });
    await registry.endTicks([{ ...late, claimedUntil: 210 }]);
    expect(await registry.schedule('s')).toMatchObject({ nextAt: 200, madeAt: 100 });
  }),
  fact('after a claim: the end of the claim frees the instant, and does not move it', async ({ open }) => {
    const registry = await stored(await open());
    await registry.claimSchedules(100, 150, 10);
    await registry.updateSchedule({ ...first, everyMs: 70, revision: 2 }, 140, 120);
    await registry.endTicks([{ ...end, revision: 1, claimedUntil: 149 }]);
    expect(await registry.claimSchedules(149, 199, 10)).toEqual([]);
    await registry.endTicks([{ ...end, revision: 1, claimedUntil: 150 }]);
    expect(await registry.claimSchedules(149, 199, 10)).toEqual([
      expect.objectContaining({ dueAt: 100, wasClaimed: true }),
    ]);
  }),
];
