// The smoke run of the total-queue checker: a real daemon on the embedded store, a producer and receivers in
// processes of their own, and overlapping faults of every role.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { environment } from '../support/daemon.ts';

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

it('total queue: no promise is broken on the embedded store', { timeout: 300_000 }, async () => {
  const { code, output } = await runFaults(['smoke', '--store', 'sqlite', '--seed', '7']);
  expect(output.trimEnd().split('\n').at(-1), output).toMatch(/^faults: .* faults, 0 violations$/);
  expect(code, output).toBe(0);
});
