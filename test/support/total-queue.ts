// Runs the total-queue checker (scripts/faults): a real daemon, a producer and receivers in processes of
// their own, and overlapping faults of every role and server.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect } from 'vitest';
import { environment } from './daemon.ts';

const root = join(import.meta.dirname, '../..');

interface Ended {
  readonly code: number;
  readonly output: string;
}

function runFaults(args: readonly string[]): Promise<Ended> {
  const command = ['--import', 'tsx', join(root, 'scripts/faults/main.ts'), ...args];
  return new Promise((resolve) => {
    execFile(process.execPath, command, { cwd: root, env: environment() }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), output: stdout + stderr }),
    );
  });
}

/** `args`: as of `npm run faults`. */
export async function expectKeptPromises(...args: readonly string[]): Promise<void> {
  const { code, output } = await runFaults(args);
  expect(output.trimEnd().split('\n').at(-1), output).toMatch(/^faults: .* faults, 0 violations$/);
  expect(code, output).toBe(0);
}
