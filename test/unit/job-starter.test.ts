// Tests which jobs of an answer are called, and what is logged where they are not.
import { expect, it } from 'vitest';
import { extensionOf } from '../../src/core/extension.ts';
import type { ReservedJob } from '../../src/core/job.ts';
import { type Topic, topicDefaults } from '../../src/core/topic/topic.ts';
import type { CapacityGrant } from '../../src/notifier/capacity-grants.ts';
import { JobStarter, type JobStarterOptions } from '../../src/notifier/job-starter.ts';
import { PartitionFailures } from '../../src/notifier/partition-failures.ts';
import { PoisonIsolation } from '../../src/notifier/poison-isolation.ts';
import { monotonicNow } from '../../src/runtime/time.ts';
import { silentLog } from '../../src/telemetry/log.ts';

function startTrial() {
  const topic = { ...topicDefaults, topic: 't', state: 'active', timeoutMs: 3_000 } as Topic;
  let timeoutMs = topic.timeoutMs;
  let fitting: ReadonlySet<ReservedJob> | null = null;
  const seen: string[] = [];
  const log = {
    ...silentLog,
    error: (text: string) => void seen.push(text),
    notice: (text: string) => void seen.push(text),
  };
  const failures = new PartitionFailures(log);
  for (const partition of [0, 1]) failures.add(partition);
  const starter = new JobStarter({
    ctx: {
      log,
      config: { 'lease.margin': 10_000 },
    } as unknown as JobStarterOptions['ctx'],
    capacity: {
      endRequest: () => fitting,
      targetOf: () => ({ topic: { ...topic, timeoutMs } }),
    } as unknown as JobStarterOptions['capacity'],
    settler: {
      hold: () => {},
      release: () => seen.push('released'),
    } as unknown as JobStarterOptions['settler'],
    deliverer: { call: () => seen.push('called') } as unknown as JobStarterOptions['deliverer'],
    isolation: new PoisonIsolation(),
    leadership: { leads: true },
    failures,
  });
  const job = { topic: 't', id: 'a', leaseMs: 13_000, strikes: 0, dueAt: 0 } as unknown as ReservedJob;
  /** An answer with one job, this long after the reserve was sent. */
  const answer = (tookMs: number, jobs: readonly ReservedJob[] = [job], partition = 0) => {
    starter.start(partition, {} as CapacityGrant, { jobs, more: false, now: null }, monotonicNow() - tookMs);
    return seen.splice(0);
  };
  /** Whether an answer with these jobs is late; `fits`: those that there is capacity for. */
  const isLate = (tookMs: number, jobs: readonly ReservedJob[], fits: ReadonlySet<ReservedJob> | null) => {
    fitting = fits;
    const reserved = { jobs, more: true, now: null };
    return starter.start(0, {} as CapacityGrant, reserved, monotonicNow() - tookMs).isLate;
  };
  const setTimeoutMs = (ms: number) => {
    timeoutMs = ms;
  };
  return { answer, isLate, job, failures, setTimeoutMs, seen };
}

it('slow reserve: releases jobs whose lease is too short, and logs its start and its end', () => {
  const { answer } = startTrial();
  expect(answer(0)).toEqual(['called']);
  expect(answer(9_000)).toEqual([
    'released',
    'notifier: jobs of slow reserves are released; raise lease.margin',
  ]);
  expect(answer(9_000)).toEqual(['released']);
  expect(answer(9_000, [])).toEqual([]);
  expect(answer(0)).toEqual(['notifier: reserves are in time again', 'called']);
});

it('slow reserves of one partition are over when its own answer is in time', () => {
  const { answer, job } = startTrial();
  expect(answer(9_000)).toHaveLength(2);
  expect(answer(9_000, [job], 1)).toEqual(['released']);
  expect(answer(0, [job], 1)).toEqual(['called']);
  expect(answer(0)).toEqual(['notifier: reserves are in time again', 'called']);
});

it('slow reserves are over when an empty answer is in time', () => {
  const { answer } = startTrial();
  expect(answer(9_000)).toHaveLength(2);
  expect(answer(0, [])).toEqual(['notifier: reserves are in time again']);
  expect(answer(9_000)).toHaveLength(2);
});

it('slow reserves of a partition are over with its removal, also when its last answer comes later', () => {
  const { answer, failures, job, seen } = startTrial();
  expect(answer(9_000)).toHaveLength(2);
  failures.remove(0);
  expect(seen.splice(0)).toEqual(['notifier: reserves are in time again']);
  expect(answer(9_000)).toEqual(['released']);
  expect(answer(9_000, [job], 1)).toHaveLength(2);
});

it('jobs whose timeout has grown since the reserve are released without a line about slow reserves', () => {
  const { answer, setTimeoutMs } = startTrial();
  setTimeoutMs(12_000);
  expect(answer(1)).toEqual(['released']);
});

it('an answer is late where its grant is outdated, or the deadline of a job may have passed', () => {
  const { isLate, job, seen } = startTrial();
  const extension = extensionOf({ deadline: Date.now() + 60_000 });
  const ending = { ...job, leaseMs: 600_000, extension, version: 1, origin: 1 } as ReservedJob;
  expect(isLate(0, [job], null)).toBe(false);
  expect(isLate(0, [job], new Set([job]))).toBe(false);
  expect(isLate(0, [ending], null)).toBe(false);
  expect(seen.splice(0)).toEqual(['called', 'called', 'called']);
  expect(isLate(0, [job, ending], new Set([ending]))).toBe(true);
  expect(seen.splice(0)).toEqual(['released', 'called']);
  expect(isLate(120_000, [ending], null)).toBe(true);
  expect(seen.splice(0)).toEqual(['released']);
});
