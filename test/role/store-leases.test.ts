// Tests the leases that the engine keeps in memory: they follow the file through rollbacks and restarts.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ReservedJob } from '../../src/core/job.ts';
import { type Engine, openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';

let directory: ReturnType<typeof temporaryDirectory>;
let engine: Engine;

const open = () => openEngine(ownerPaths(directory.path).path, { diskReserveBytes: 256 * 1024 });
beforeEach(() => {
  directory = temporaryDirectory();
  engine = open();
  committed(() => engine.push(jobOf('1')));
});
afterEach(() => {
  engine.close();
  directory.remove();
});

function committed<T>(step: () => T): T {
  engine.begin('normal');
  const result = step();
  engine.commit();
  return result;
}

const reserve = () => engine.moves.reserve(request(1)).jobs[0] as ReservedJob;
const ack = (job: ReservedJob) => engine.ack({ ...leaseOf(job), attempt: attemptOf(job) });
const counts = () => engine.jobCounts.counts().topics['t'];

describe('a lease', () => {
  it('of a transaction that was rolled back finishes nothing', () => {
    engine.begin('normal');
    const undone = reserve();
    engine.rollback();
    expect(committed(() => ack(undone))).toEqual({ kind: 'lease_lost' });
    expect(counts()).toMatchObject({ ready: 1, reserved: 0 });
  });

  it('of a step that was rolled back finishes nothing', () => {
    engine.begin('normal');
    let undone: ReservedJob | undefined;
    const failing = () => {
      undone = reserve();
      throw new Error('fails after the reserve');
    };
    expect(() => engine.inSavepoint(failing)).toThrow('fails after');
    expect(ack(undone as ReservedJob)).toEqual({ kind: 'lease_lost' });
    engine.commit();
    expect(counts()).toMatchObject({ ready: 1, reserved: 0 });
  });

  it('whose ack was rolled back finishes its job later', () => {
    const job = committed(reserve);
    engine.begin('normal');
    expect(ack(job)).toEqual({ kind: 'acked' });
    engine.rollback();
    expect(counts()).toMatchObject({ reserved: 1 });
    expect(committed(() => ack(job))).toEqual({ kind: 'acked' });
    expect(counts()).toBeUndefined();
  });

  it('finishes its job after a restart, once', () => {
    const job = committed(reserve);
    engine.close();
    engine = open();
    expect(committed(() => ack({ ...job, token: job.token + 1 }))).toEqual({ kind: 'lease_lost' });
    expect(committed(() => ack(job))).toEqual({ kind: 'acked' });
    expect(committed(() => ack(job))).toEqual({ kind: 'lease_lost' });
  });

  it.each([
    ['topic', { topic: 'u' }],
    ['id', { id: '2' }],
    ['version', { version: 1 }],
    ['token', { token: 1 }],
  ])('with another %s finishes nothing', (_, other) => {
    committed(() => engine.push({ ...jobOf('2'), topic: 'u' }));
    const job = committed(reserve);
    expect(committed(() => ack({ ...job, ...other }))).toEqual({ kind: 'lease_lost' });
    expect(committed(() => ack(job))).toEqual({ kind: 'acked' });
  });
});
