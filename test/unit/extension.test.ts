// Tests the block that holds the options of one job.
import { describe, expect, it } from 'vitest';
import {
  deadlineOf,
  extensionOf,
  type JobOptions,
  optionsIn,
  pushedExtension,
  replaceOptions,
  withAgain,
  withOptions,
} from '../../src/core/extension.ts';
import { limits } from '../../src/core/limits.ts';
import { readTraceContext } from '../../src/core/trace-context.ts';
import { journalStoreLimits } from '../../src/journal/limits.ts';
import { writeChange } from '../../src/journal/record/record.ts';

const ladder = { type: 'ladder', stepsMs: Array.from({ length: 50 }, (_, n) => n * 17_280_000) } as const;
const all: JobOptions = {
  ...{ leaseMs: 86_400_000, maxAttempts: limits.attemptsMax, backoff: ladder },
  ...{ deadline: 2 ** 48 - 1, again: 2 ** 32 - 1 },
  webhookOrigin: 2 ** 51 - 1,
};

describe('the extension block', () => {
  it('keeps each option, and costs nothing without one', () => {
    expect(extensionOf({})).toBeNull();
    expect(optionsIn(null)).toEqual({});
    for (const backoff of [
      ...([{ type: 'odd' }, ladder] as const),
      { type: 'exponential', baseMs: 1, factor: 1.5, capMs: 864_000_000 } as const,
    ])
      expect(optionsIn(extensionOf({ ...all, backoff }))).toEqual({ ...all, backoff });
    for (const [name, value] of Object.entries(all))
      expect(optionsIn(extensionOf({ [name]: value }))).toEqual({ [name]: value });
    // As it is stored: a change would lose the options of stored jobs.
    expect(extensionOf({ leaseMs: 5_000, maxAttempts: 3, backoff: { type: 'odd' } })?.toString('hex')).toBe(
      '010400001388' + '020103' + '030100',
    );
  });

  it('of every option at its longest is within the estimate of a record of the journal', () => {
    expect(extensionOf(all)?.length).toBeLessThan(256);
    const longest = readTraceContext(`00-${'1'.repeat(32)}-${'2'.repeat(16)}-ff`, `a=${'x'.repeat(253)}`);
    expect(longest?.state).toHaveLength(255);
    const extension = extensionOf({ ...all, trace: longest ?? undefined });
    const names = {
      topic: 'x'.repeat(128),
      id: 'x'.repeat(limits.idBytesMax),
      place: `${'5a'.repeat(8)}:1023`,
    };
    const numbers = { number: 1, version: 1, origin: 1, dueAt: 1, failures: 0, acceptedAt: 1 };
    const parts = {
      contentType: 'x'.repeat(256),
      priority: 'low',
      extension,
      body: Buffer.alloc(0),
    } as const;
    const change = { kind: 'accepted', isOwn: true, ...names, ...numbers, ...parts } as const;
    const bytes = writeChange(Buffer.alloc(8_192), 0, Buffer.alloc(4), change);
    expect(bytes).toBeLessThanOrEqual(journalStoreLimits.recordBytes);
  });

  it('replaceOptions: replaces, adds and removes the named ones, and keeps all others', () => {
    const trace = readTraceContext(`00-${'1'.repeat(32)}-${'2'.repeat(16)}-ff`, 'a=b') ?? undefined;
    const unknown = Buffer.from([200, 2, 1, 1]);
    const block = Buffer.concat([unknown, extensionOf({ ...all, trace }) as Buffer]);
    const replaced = replaceOptions(block, { maxAttempts: 3, deadline: undefined, webhookOrigin: 2 ** 51 });
    const { deadline, ...others } = all;
    expect(optionsIn(replaced)).toEqual({ ...others, trace, maxAttempts: 3, webhookOrigin: 2 ** 51 });
    expect(replaced?.subarray(0, 4)).toEqual(unknown);
    expect(replaceOptions(replaced, {})).toEqual(replaced);
    expect(replaceOptions(extensionOf({ webhookOrigin: 1 }), { webhookOrigin: undefined })).toBeNull();
  });

  it('of a later version: unknown types and a torn end are ignored', () => {
    const known = extensionOf({ maxAttempts: 3 }) as Buffer;
    const unknown = Buffer.from([200, 2, 1, 1]);
    expect(optionsIn(Buffer.concat([unknown, known]))).toEqual({ maxAttempts: 3 });
    expect(optionsIn(Buffer.concat([known, unknown.subarray(0, 3)]))).toEqual({ maxAttempts: 3 });
    expect(optionsIn(Buffer.concat([known, Buffer.from([3, 2, 9, 9])]))).toEqual({ maxAttempts: 3 });
    expect(optionsIn(Buffer.from([1, 2, 0, 0]))).toEqual({});
  });
});

it('withAgain: replaces the number of snoozes, and keeps everything else but a torn end', () => {
  const unknown = Buffer.from([200, 2, 1, 1]);
  const known = extensionOf({ maxAttempts: 3, again: 7 }) as Buffer;
  expect(withAgain(undefined, 1).toString('hex')).toBe('070400000001');
  expect(withAgain(Buffer.concat([unknown, known, unknown]), 70_000).toString('hex')).toBe(
    `${'c8020101'}020103${'c8020101'}070400011170`,
  );
  expect(optionsIn(withAgain(Buffer.concat([known, unknown.subarray(0, 3)]), 9))).toEqual({
    ...{ maxAttempts: 3, again: 9 },
  });
});

it('pushedExtension: drops the number of snoozes alone', () => {
  const pushed = extensionOf({ maxAttempts: 3, deadline: 5 }) as Buffer;
  expect(pushedExtension(withAgain(pushed, 7))).toEqual(pushed);
  expect(pushedExtension(withAgain(undefined, 7))).toBeNull();
  expect(pushedExtension(null)).toBeNull();
});

it('options of a job replace those of its topic', () => {
  const topic = { maxAttempts: 10, backoff: { type: 'odd' }, jitter: 0 } as const;
  expect(withOptions(topic, {})).toBe(topic);
  expect(withOptions(topic, { maxAttempts: 1 })).toEqual({ ...topic, maxAttempts: 1 });
  expect(withOptions(topic, { backoff: ladder })).toEqual({ ...topic, backoff: ladder });
});

it('a deadline counts unless the job was made due after it', () => {
  const deadline = 9;
  expect(deadlineOf({}, { dueAt: 5 })).toBe(Number.POSITIVE_INFINITY);
  expect(deadlineOf({ deadline }, { dueAt: 9, version: 2, origin: 1 })).toBe(9);
  expect(deadlineOf({ deadline }, { dueAt: 10, version: 2, origin: 1 })).toBe(Number.POSITIVE_INFINITY);
  expect(deadlineOf({ deadline }, { dueAt: 10 })).toBe(Number.POSITIVE_INFINITY);
  // A push that took longer than its deadline.
  expect(deadlineOf({ deadline }, { dueAt: 10, version: 1, origin: 1 })).toBe(9);
});
