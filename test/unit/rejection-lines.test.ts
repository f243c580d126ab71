import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RefusalLines } from '../../src/api/http/rejection-lines.ts';
import type { RequestLine } from '../../src/api/http/request-log.ts';
import { apiLimits } from '../../src/api/limits.ts';
import { type LogFields, silentLog } from '../../src/telemetry/log.ts';
import { formatLine } from '../../src/telemetry/log-line.ts';

const most = apiLimits.refusedLinesPerSecond;
let lines: LogFields[] = [];
let refusals: RefusalLines;
beforeEach(() => {
  vi.useFakeTimers();
  lines = [];
  refusals = new RefusalLines({ ...silentLog, request: (fields) => lines.push(fields) });
});
afterEach(() => {
  vi.useRealTimers();
});

const refusal = (more: Partial<RequestLine> = {}): RequestLine => ({
  ...{ method: 'POST', topic: 't', id: null, status: 401, code: 'unauthorized' },
  ...{ version: null, dueAt: null, bytes: 0, ms: null },
  ...more,
});
const many = (n: number, more: Partial<RequestLine> = {}) => {
  for (let i = 0; i < n; i++) refusals.write(refusal(more));
};

it('writes a few lines of each kind in a second, then how many it left out', () => {
  many(1_000);
  many(1_000, { status: 403, code: 'forbidden' });
  many(most, { status: 400, code: 'invalid' });
  expect(lines).toHaveLength(3 * most);
  vi.advanceTimersByTime(1_000);
  expect(lines.slice(3 * most)).toEqual([
    { status: 401, code: 'unauthorized', leftOut: 1_000 - most },
    { status: 403, code: 'forbidden', leftOut: 1_000 - most },
  ]);
  many(1);
  expect(lines).toHaveLength(3 * most + 3);
});

it('close writes the counts that are still owed', () => {
  many(most + 3);
  refusals.close();
  expect(lines.at(-1)).toEqual({ status: 401, code: 'unauthorized', leftOut: 3 });
  vi.advanceTimersByTime(10_000);
  expect(lines).toHaveLength(most + 1);
});

it('shortens what strangers sent', () => {
  refusals.write(refusal({ topic: 'x'.repeat(10_000), id: '"'.repeat(10_000) }));
  expect(formatLine(lines[0] ?? {}).length).toBeLessThan(500);
  refusals.write(refusal({ topic: 'order.close', id: 'a'.repeat(apiLimits.refusedTextMax) }));
  expect(lines[1]).toMatchObject({ topic: 'order.close', id: 'a'.repeat(apiLimits.refusedTextMax) });
});
