// Reads CPU time and memory of processes from /proc: of the measured ones by role, and of all programs that
// do not belong to the benchmark.
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';

export interface Measured {
  /** `server`, `store`, `redis-server`; processes of one role are summed up */
  readonly role: string;
  readonly pid: number;
}

export interface Reading {
  readonly seconds: number;
  /** CPU seconds by role */
  readonly cpu: ReadonlyMap<string, number>;
  /** CPU seconds of children of this process that ended meanwhile: the load generator */
  readonly generator: number;
  /** share of the whole machine that other programs took, 0 … 1 */
  readonly others: number;
}

/** Starts to measure; each call of the result reads the time since then. */
export function startMeter(measured: readonly Measured[]): () => Reading {
  const from = performance.now();
  const before = measured.map(({ pid }) => cpuSeconds(pid));
  const generatorBefore = endedChildrenSeconds();
  const othersBefore = othersSeconds();
  return () => {
    const cpu = new Map<string, number>();
    for (const [n, { role, pid }] of measured.entries())
      cpu.set(role, (cpu.get(role) ?? 0) + cpuSeconds(pid) - (before[n] ?? 0));
    const generator = endedChildrenSeconds() - generatorBefore;
    const seconds = (performance.now() - from) / 1000;
    const others = Math.max(0, othersSeconds() - othersBefore) / (seconds * cpus().length);
    return { seconds, cpu, generator, others };
  };
}

/** CPU time of the threads that run now, exact: /proc/PID/stat counts in steps of 10 ms, which are 0.1 % of a
 *  core in 10 s. */
export function cpuSeconds(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const ns = threads.map((id) => Number(readOrEmpty(`/proc/${pid}/task/${id}/schedstat`).split(' ')[0]));
  return ns.reduce((sum, each) => sum + each, 0) / 1e9;
}

/** Proportional set size: shared memory counts once over all processes. */
export function pssBytes(pid: number): number {
  return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) * 1024;
}

/** of /proc/PID/stat, which counts in these on every Linux */
const ticksPerSecond = 100;

interface Stat {
  readonly parent: number;
  /** of the process and its ended children */
  readonly ticks: number;
  readonly endedTicks: number;
}

function statOf(pid: number | 'self'): Stat | null {
  // The name of the program can contain spaces; the fields follow its last bracket.
  const text = readOrEmpty(`/proc/${pid}/stat`);
  if (text === '') return null;
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11, 15).map(Number);
  const endedTicks = cutime + cstime;
  return { parent: Number(fields[1]), ticks: utime + stime + endedTicks, endedTicks };
}

/** A process or thread can end between the listing and the reading. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

const endedChildrenSeconds = (): number => (statOf('self')?.endedTicks ?? 0) / ticksPerSecond;

/** CPU seconds of all programs outside the tree of this process, and time that the hypervisor took: those
 *  of the machine less ours. Interrupts and kernel threads do not count: they also work for us. */
function othersSeconds(): number {
  const stats = new Map<number, Stat>();
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    const stat = pid > 0 ? statOf(pid) : null;
    if (stat !== null) stats.set(pid, stat);
  }
  const isOurs = (pid: number): boolean => {
    for (let at = pid; at > 0; at = stats.get(at)?.parent ?? 0)
      if (at === process.pid || at === kthreadd) return true;
    return false;
  };
  const ours = [...stats].reduce((sum, [pid, { ticks }]) => sum + (isOurs(pid) ? ticks : 0), 0);
  const line = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0] ?? '';
  const [user = 0, nice = 0, system = 0, , , , , steal = 0] = line.trim().split(/ +/).slice(1).map(Number);
  return (user + nice + system + steal - ours) / ticksPerSecond;
}

/** the parent of all kernel threads */
const kthreadd = 2;
