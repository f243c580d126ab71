import { expect, it, onTestFinished } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { StatDelta } from '../../src/ports/registry.ts';
import { StatSender } from '../../src/process/senders.ts';
import { type Log, silentLog } from '../../src/telemetry/log.ts';
import { until } from '../support/until.ts';

/** Receives the counts when the test lets it. */
function startSender() {
  const parts: (readonly StatDelta[])[] = [];
  const errors: string[] = [];
  const log: Log = {
    ...silentLog,
    error: (message, _error, fields) => void errors.push(`${message} ${fields?.['counts']}`),
  };
  let taken = () => {};
  let isSlow = false;
  const now = async () => Date.now();
  const sender = new StatSender('UTC', { now: Date.now, read: now, known: now }, log, (deltas) => {
    parts.push(deltas);
    return isSlow ? new Promise((resolve) => (taken = resolve)) : Promise.resolve();
  });
  onTestFinished(() => sender.close());
  return {
    sender,
    errors,
    count: () => parts.flat().reduce((sum, { n }) => sum + n, 0),
    slow: (slow: boolean) => {
      isSlow = slow;
      taken();
    },
  };
}

it('stat sender: sends more topics than its buffer holds in parts', async () => {
  const { sender, errors, count } = startSender();
  for (let n = 0; n < 2.5 * limits.countersHeldMax; n += 1) {
    sender.add(`t${n}`, 'pushed');
    // As between requests.
    if (n % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await sender.flush();
  expect(count()).toBe(2.5 * limits.countersHeldMax);
  expect(errors).toEqual([]);
});

it('stat sender: drops and logs counts that a silent master leaves no space for', async () => {
  const { sender, errors, count, slow } = startSender();
  slow(true);
  for (let n = 0; n < 2 * limits.countersHeldMax + 7; n += 1) sender.add(`t${n}`, 'pushed', 2);
  expect(count()).toBe(2 * limits.countersHeldMax);
  slow(false);
  await until('it is logged', () => errors.length > 0);
  await sender.flush();
  expect(errors).toEqual(['statistics: dropped, because the master does not read them 14']);
  expect(count()).toBe(4 * limits.countersHeldMax);
});
