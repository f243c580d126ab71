import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RejectionLines, type RequestLine } from '../../src/api/http/request-log.ts';
import { apiLimits } from '../../src/api/limits.ts';
import { type LogFields, silentLog } from '../../src/telemetry/log.ts';
import { formatLine } from '../../src/telemetry/log-line.ts';

const most = apiLimits.rejectedLinesPerSecond;
let lines: LogFields[] = [];
let rejections: RejectionLines;
beforeEach(() => {
  vi.useFakeTimers();
  lines = [];
  rejections = new RejectionLines({ ...silentLog, request: (fields) => lines.push(fields) });
});
afterEach(() => {
  vi.useRealTimers();
});

const rejection = (more: Partial<RequestLine> = {}): RequestLine => ({
  ...{ method: 'POST', topic: 't', id: null, status: 401, code: 'unauthorized' },
  ...{ version: null, dueAt: null, bytes: 0, ms: null },
  ...more,
});
const many = (n: number, more: Partial<RequestLine> = {}) => {
  for (let i = 0; i < n; i++) rejections.write(rejection(more));
};

it('RejectionLines: writes a few lines per code and second, then the suppressed count', () => {
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

it('RejectionLines: close writes the current counts', () => {
  many(most + 3);
  rejections.close();
  expect(lines.at(-1)).toEqual({ status: 401, code: 'unauthorized', leftOut: 3 });
  vi.advanceTimersByTime(10_000);
  expect(lines).toHaveLength(most + 1);
});

it('RejectionLines: shortens the texts of callers', () => {
  rejections.write(rejection({ topic: 'x'.repeat(10_000), id: '"'.repeat(10_000) }));
  expect(formatLine(lines[0] ?? {}).length).toBeLessThan(500);
  rejections.write(rejection({ topic: 'order.close', id: 'a'.repeat(apiLimits.rejectedTextMax) }));
  expect(lines[1]).toMatchObject({ topic: 'order.close', id: 'a'.repeat(apiLimits.rejectedTextMax) });
});
