// Runs many worlds in several processes of this program: each with its share of the seeds, or each with all.
// Invariant: a process prints what its worlds broke, and the sums of all shares are those of one process.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** What a process has run. */
export interface Sums {
  readonly seeds: number;
  readonly events: number;
  readonly violations: number;
}

/** One of `of` shares, from 0. */
export interface Share {
  readonly index: number;
  readonly of: number;
}

/** Worlds from which on the start of a second process costs less than it saves. */
export const seedsOfTwoJobs = 100;
const sumsLine = /^sim: (\d+) seeds, (\d+) events, (\d+) violations$/;
const numbersLine = /^sim: (\{.*\})$/;

export const shareText = ({ index, of }: Share): string => `${index}/${of}`;

export function readShare(text: string): Share {
  const [index = 0, of = 1] = text.split('/').map(Number);
  return { index, of };
}

export function printSums({ seeds, events, violations }: Sums): void {
  console.log(`sim: ${seeds} seeds, ${events} events, ${violations} violations`);
}

/** Adds the numbers of one world or share. */
export function addNumbers(totals: Record<string, number>, numbers: Readonly<Record<string, number>>): void {
  for (const [name, n] of Object.entries(numbers)) totals[name] = (totals[name] ?? 0) + n;
}

/** Runs this program once for each of `runs`, its flags, all at once, and prints the sums of all of them.
 *  Resolves with the exit code: that of one that failed, else 0. */
export async function runPrograms(runs: readonly (readonly string[])[]): Promise<number> {
  const totals: Record<string, number> = {};
  const all: Sums[] = [];
  const run = async (flags: readonly string[]): Promise<number> => {
    const program = [...process.execArgv, process.argv[1] ?? '', ...flags];
    const child = spawn(process.execPath, program, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exit = once(child, 'close');
    for await (const line of createInterface({ input: child.stdout })) {
      const sums = sumsLine.exec(line);
      const numbers = numbersLine.exec(line)?.[1];
      if (sums !== null) {
        const [seeds = 0, events = 0, violations = 0] = sums.slice(1).map(Number);
        all.push({ seeds, events, violations });
      } else if (numbers !== undefined) addNumbers(totals, JSON.parse(numbers) as Record<string, number>);
      else console.log(line);
    }
    const [code] = (await exit) as [number | null];
    return code ?? 1;
  };
  const codes = await Promise.all(runs.map(run));
  const sum = (name: keyof Sums) => all.reduce((n, sums) => n + sums[name], 0);
  if (Object.keys(totals).length > 0) console.log(`sim: ${JSON.stringify(totals)}`);
  printSums({ seeds: sum('seeds'), events: sum('events'), violations: sum('violations') });
  return codes.find((code) => code !== 0) ?? 0;
}
