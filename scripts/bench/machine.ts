// Describes the machine of a run: its figures mean nothing without it.
import { execFileSync } from 'node:child_process';
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { cpus, release, tmpdir, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { format, median, percentile } from './figures.ts';

export interface Machine {
  readonly cpu: string;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly redis: string;
  readonly fdatasyncMs: { readonly p50: number; readonly p99: number };
}

export function describeMachine(): Machine {
  const times = measureSync();
  return {
    cpu: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}`,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    redis: /v=(\S+)/.exec(run('redis-server', '--version'))?.[1] ?? 'not installed',
    fdatasyncMs: { p50: median(times), p99: percentile(times, 0.99) },
  };
}

export function machineText({ cpu, memoryGiB, kernel, node, redis, fdatasyncMs: sync }: Machine): string {
  return (
    `${cpu}, ${memoryGiB} GiB, Linux ${kernel}, Node ${node}, Redis ${redis}, ` +
    `fdatasync of 4 KiB p50 ${format(sync.p50)} ms, p99 ${format(sync.p99)} ms`
  );
}

/** The short revision of a checkout, or ''. */
export function revisionOf(launcher: string): string {
  return run('git', '-C', dirname(launcher), 'rev-parse', '--short', 'HEAD');
}

function run(command: string, ...args: string[]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    // The program is not installed, or the folder is not a checkout.
    return '';
  }
}

const loopRuns = 20;
const loopSteps = 500_000;

/** Microseconds of a fixed loop, the fastest of some runs: a shared machine changes its speed within minutes,
 *  and figures that were measured beside different ones cannot be compared. Takes about 20 ms. */
export function fixedLoopUs(): number {
  const times = Array.from({ length: loopRuns }, () => {
    const from = performance.now();
    for (let n = 0; n < loopSteps; n++) loopState = (Math.imul(loopState, 31) + n) | 0;
    return performance.now() - from;
  });
  return Math.min(...times) * 1_000;
}

/** Kept, so that the compiler cannot leave the loop out. */
let loopState = 1;

/** Milliseconds of `count` appends of 4 KiB with fdatasync each: the lower bound of every durable reply. */
export function measureSync(count = 300): number[] {
  const directory = mkdtempSync(join(tmpdir(), 'dq-bench-sync-'));
  const file = openSync(join(directory, 'probe'), 'w');
  const block = Buffer.alloc(4096, 1);
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const from = performance.now();
    writeSync(file, block);
    fdatasyncSync(file);
    times.push(performance.now() - from);
  }
  closeSync(file);
  rmSync(directory, { recursive: true });
  return times;
}
