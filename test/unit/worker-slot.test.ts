import { describe, expect, it } from 'vitest';
import { type SlotHost, WorkerSlot } from '../../src/master/worker-slot.ts';
import { until } from '../support/until.ts';

/** A host that can make no process, and says so each time. */
function poorHost(goesOn: () => boolean) {
  const errors: unknown[] = [];
  const host: SlotHost = {
    fork: () => {
      throw new Error('spawn ENOMEM');
    },
    unborn: (_slot, error) => {
      errors.push(error);
      return goesOn();
    },
    died: () => true,
  };
  return { host, errors };
}

const place = { role: 'timer', index: 0, count: 1 } as const;

describe('a slot', () => {
  it('tries again where no process can be made, with its incarnation unspent', async () => {
    let drawn = 0;
    const { host, errors } = poorHost(() => true);
    const slot = new WorkerSlot(place, host, () => ++drawn);
    slot.fill();
    await until('it has tried three times', () => errors.length === 3);
    slot.release();
    expect([slot.worker, slot.nextIncarnation]).toEqual([null, 1]);
  });

  it('stops trying where its host gives up', () => {
    const { host, errors } = poorHost(() => false);
    const slot = new WorkerSlot(place, host, () => 1);
    slot.fill();
    expect(errors).toMatchObject([{ message: 'spawn ENOMEM' }]);
    slot.release();
  });
});
