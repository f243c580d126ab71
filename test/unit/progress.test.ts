import { afterEach, expect, it, vi } from 'vitest';
import { startProgress } from '../../src/cli/output/progress.ts';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

it('progress: without a terminal prints a line every 10 s in which something happened', () => {
  vi.useFakeTimers();
  const written: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  const wasTerminal = process.stderr.isTTY;
  process.stderr.isTTY = false;
  try {
    const known = startProgress('requeued', 400);
    const unknown = startProgress('pushed', null);
    known.add(100);
    unknown.add(7);
    vi.advanceTimersByTime(9_999);
    expect(written).toEqual([]);
    vi.advanceTimersByTime(1);
    known.add(50);
    unknown.stop();
    vi.advanceTimersByTime(30_000);
    known.add(1);
    known.stop();
    vi.advanceTimersByTime(60_000);
    expect(written).toEqual(['dq: 100 of 400 requeued\n', 'dq: 7 pushed\n', 'dq: 150 of 400 requeued\n']);
  } finally {
    process.stderr.isTTY = wasTerminal;
  }
});
