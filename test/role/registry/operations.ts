// Operations of a registry: leases, checkpoints and bounds.

import { expect } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import type { OperationRecord } from '../../../src/core/operation.ts';

import { fact, type RegistryCase } from './case.ts';

const record = (id: string, createdAt: number): OperationRecord => ({
  ...{ id, kind: 'requeue', filter: { topic: 'T 主题' }, topics: ['*'], spreadMs: null, rate: null },
  ...{ at: null, dryRun: false, actor: 'Li', state: 'not_started', createdAt, updatedAt: createdAt },
  ...{
    moment: { 'jobs.db': createdAt },
    ...{ startedAt: null, movingAt: null, endedAt: null, matched: null, problem: null },
  },
  ...{ done: 0, skipped: 0, failed: 0, failures: [] },
});
const work = { ids: ['a', '😀'], cursor: null, isListed: false, isCounting: false, step: [] };

export const operationCases: readonly RegistryCase[] = [
  fact('the oldest is claimed first; a lease excludes other instances until it ends', async ({ open }) => {
    const [here, there] = [await open(), await open()];
    for (const [id, at] of [
      ['b', 2],
      ['a', 1],
    ] as const)
      expect(await here.createOperation(record(id, at), work)).toBe('created');
    expect((await there.operations()).map(({ id }) => id)).toEqual(['b', 'a']);
    const first = await here.claimOperation('1.1', 1_000, 2_000);
    expect(first).toMatchObject({ record: record('a', 1), work });
    expect((await there.claimOperation('2.1', 1_500, 2_500))?.record.id).toBe('b');
    expect(await there.claimOperation('2.1', 1_500, 2_500)).toBeNull();
    const taken = await there.claimOperation('2.1', 2_000, 3_000);
    expect(taken?.record.id).toBe('a');
    expect(taken?.token).toBeGreaterThan(first?.token ?? 0);
  }),
  fact('a lease by a clock that was ahead excludes nothing', async ({ open }) => {
    const registry = await open();
    await registry.createOperation(record('a'.repeat(12), 1), work);
    await registry.claimOperation('1.1', 90_000_000, 90_001_000);
    expect(await registry.claimOperation('2.1', 1_000, 2_000)).toMatchObject({ wasReleased: false });
    expect(await registry.claimOperation('3.1', 1_000, 2_000)).toBeNull();
  }),
  fact('a process does not claim what it works on, whatever its clock says', async ({ open }) => {
    const registry = await open();
    const id = 'a'.repeat(12);
    await registry.createOperation(record(id, 1), work);
    await registry.claimOperation('1.1', 90_000_000, 90_001_000);
    expect(await registry.claimOperation('1.1', 1_000, 2_000, [id])).toBeNull();
    expect(await registry.claimOperation('1.1', 99_000_000, 99_001_000, [id])).toBeNull();
    expect((await registry.claimOperation('1.1', 1_000, 2_000, []))?.record.id).toBe(id);
  }),
  fact(
    'a later process of its instance takes a lease at once; a closed operation is never claimed',
    async ({ open }) => {
      const registry = await open();
      const id = 'a'.repeat(12);
      await registry.createOperation(record(id, 1), work);
      await registry.claimOperation('11.1', 1_000, 2_000);
      expect(await registry.claimOperation('11.1', 1_500, 2_500)).toBeNull();
      // Another instance, whose number is a beginning of the first one.
      expect(await registry.claimOperation('1.1', 1_500, 2_500)).toBeNull();
      const next = await registry.claimOperation('11.2', 1_500, 2_500);
      expect(next).toMatchObject({ wasReleased: false });
      const checkpoint = { record: record(id, 1), work, leaseUntil: null, isClosed: false };
      await registry.checkpointOperation(next?.token ?? 0, checkpoint);
      const last = await registry.claimOperation('2.1', 1_500, 2_500);
      expect(last).toMatchObject({ wasReleased: true });
      await registry.checkpointOperation(last?.token ?? 0, { ...checkpoint, isClosed: true });
      expect(await registry.claimOperation('2.2', 9_000, 9_999)).toBeNull();
    },
  ),
  fact('of ended ones the oldest are dropped, and open ones never', async ({ open, run }) => {
    const registry = await open();
    await registry.createOperation(record('open', 1), work);
    const rows = Array.from({ length: limits.operationsKept }, (_, n) => {
      const id = `e${String(n).padStart(3, '0')}`;
      return `('${id}', '${JSON.stringify({ id })}', '{}', 0, 1, NULL, 0, ${n + 2})`;
    });
    await run(
      `INSERT INTO operation (id, record, work, is_open, token, holder, lease_until, created_at) VALUES ${rows.join(', ')}`,
    );
    await registry.createOperation(record('new', 999), work);
    const left = (await registry.operations()).map(({ id }) => id);
    expect(left).toHaveLength(limits.operationsKept);
    expect([left[0], left.at(-2), left.at(-1)]).toEqual(['new', 'e002', 'open']);
  }),
  fact('of many claims at once, one gets the lease', async ({ open }) => {
    const registries = await Promise.all([open(), open(), open(), open()]);
    await registries[0]?.createOperation(record('a', 1), work);
    const claims = await Promise.all(registries.map((one, n) => one.claimOperation(`${n}.1`, 1_000, 2_000)));
    expect(claims.filter((claim) => claim !== null)).toHaveLength(1);
  }),
  fact('a checkpoint of a lost lease stores nothing; a stop stays', async ({ open }) => {
    const registry = await open();
    const id = 'a'.repeat(12);
    await registry.createOperation(record(id, 1), work);
    const old = await registry.claimOperation('1.1', 1_000, 2_000);
    const next = await registry.claimOperation('2.1', 2_000, 3_000);
    const checkpoint = (done: number) => ({
      record: { ...record(id, 1), state: 'running' as const, done },
      work: { ...work, isListed: true },
      leaseUntil: 4_000,
      isClosed: false,
    });
    expect(await registry.checkpointOperation(old?.token ?? 0, checkpoint(1))).toBe('lost');
    expect((await registry.operation(id))?.done).toBe(0);
    expect(await registry.checkpointOperation(next?.token ?? 0, checkpoint(2))).toBe('updated');
    expect(await registry.operation(id)).toMatchObject({ state: 'running', done: 2 });
    expect(await registry.stopOperation(id, 9)).toMatchObject({ state: 'stopped', endedAt: 9 });
    expect(await registry.checkpointOperation(next?.token ?? 0, checkpoint(3))).toBe('stopped');
    expect(await registry.operation(id)).toMatchObject({ state: 'stopped', done: 3, endedAt: 9 });
    expect(await registry.stopOperation('b'.repeat(12), 9)).toBeNull();
  }),
  fact('a damaged row blocks no other', async ({ open, run }) => {
    const registry = await open();
    for (const id of ['a', 'b']) await registry.createOperation(record(id, id === 'a' ? 1 : 2), work);
    await run("UPDATE operation SET work = 'x' WHERE id = 'a'");
    await registry.claimOperation('1.1', 1_000, 2_000);
    expect((await registry.claimOperation('1.1', 1_000, 2_000))?.record.id).toBe('b');
  }),
  fact('at most limits.operationsOpenMax are open', async ({ open }) => {
    const registry = await open();
    for (let n = 0; n < limits.operationsOpenMax; n += 1)
      expect(await registry.createOperation(record(`${n}`, n), work)).toBe('created');
    expect(await registry.createOperation(record('x', 99), work)).toBe('full');
  }),
];
