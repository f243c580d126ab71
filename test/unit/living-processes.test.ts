import { describe, expect, it } from 'vitest';
import { LivingProcesses } from '../../src/upkeep/living-processes.ts';

const named = (...processes: readonly (readonly [number, string])[]) =>
  ({ kind: 'living', incarnations: [], processes }) as const;

describe('living processes', () => {
  it('without an answer of the master, all live', () => {
    const living = new LivingProcesses();
    expect(living.titleOf(3)).toBe('');
  });

  it('a named one, and one that began later, live', () => {
    const living = new LivingProcesses();
    living.receive(named([3, 'dq-server-0'], [4, 'dq-server-0']));
    expect([living.titleOf(3), living.titleOf(5)]).toEqual(['dq-server-0', '']);
  });

  it('the lowest one, once no process can be missing for too short a time', () => {
    const living = new LivingProcesses();
    expect(living.lowest(20_000)).toBeNull();
    living.receive(named([3, 'dq-server-0'], [4, 'dq-server-0']), 20_000);
    expect(living.lowest(34_000)).toBeNull();
    living.receive(named([3, 'dq-server-0'], [5, 'dq-server-0']), 34_000);
    expect(living.lowest(36_000)).toBe(3);
    living.receive(named([5, 'dq-server-0']), 37_000);
    expect([living.lowest(38_000), living.lowest(52_000)]).toEqual([null, 5]);
  });

  it('a missing one is dead after the time that a process without a master drains', () => {
    const living = new LivingProcesses();
    living.receive(named([3, 'dq-server-0']));
    expect(living.titleOf(2, 0)).toBe('');
    expect(living.titleOf(2, 14_000)).toBe('');
    expect(living.titleOf(2, 15_000)).toBeNull();
    // Named again.
    living.receive(named([2, 'dq-timer-0'], [3, 'dq-server-0']));
    expect(living.titleOf(2, 16_000)).toBe('dq-timer-0');
    living.receive(named([3, 'dq-server-0']));
    expect(living.titleOf(2, 17_000)).toBe('');
  });
});
