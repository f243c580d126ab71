// Computes and prints the figures: each is the median of several runs with its spread (lowest … highest),
// because one number of a shared machine says little.
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  fdatasyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Nearest rank; `share` 0.99 = p99. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))] ?? Number.NaN;
}

const round = (value: number) =>
  value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);

export function print(name: string, values: readonly number[], unit: string): void {
  const spread = `${round(Math.min(...values))} … ${round(Math.max(...values))}`;
  console.log(
    `  ${name.padEnd(46)} ${round(median(values)).padStart(9)} ${unit.padEnd(10)} (${spread}; n=${values.length})`,
  );
}

export function printMachine(): void {
  const model = cpus()[0]?.model ?? 'unknown CPU';
  console.log(
    `${cpus().length} × ${model}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`,
  );
  const git = () =>
    execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  try {
    console.log(`revision ${git()}`);
  } catch {
    // Outside a checkout the figures have no revision.
  }
}

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

/** CPU time of the threads that run now, exact: /proc/PID/stat counts in steps of 10 ms, which are 0.1 % of a
 *  core in 10 s. */
export function cpuSeconds(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const ns = threads.map((id) =>
    Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]),
  );
  return ns.reduce((sum, each) => sum + each, 0) / 1e9;
}

/** Proportional set size: shared memory counts once over all processes. */
export function pssBytes(pid: number): number {
  return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) * 1024;
}
