// A daemon in the background whose dq.yaml a test changes between two starts: other stores for the same data
// directory.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { type RunningDaemon, runningDaemon } from './daemon-process.ts';
import { runDq } from './run-dq.ts';

export function switchedDaemon() {
  const directory = mkdtempSync(join(tmpdir(), 'dq-switched-'));
  const [dataDir, logDir, file] = ['data', 'logs', 'dq.yaml'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  const dq = (...args: string[]) => runDq([...args, '-c', file], { cwd: directory });
  onTestFinished(async () => {
    await dq('stop');
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    ...{ directory, dataDir, logDir, file, dq },
    /** Each call of the API finds the daemon of this moment. */
    get now(): RunningDaemon {
      const { url, pid } = JSON.parse(readFileSync(join(dataDir, 'run/dq.json'), 'utf8')) as {
        readonly url: string;
        readonly pid: number;
      };
      return runningDaemon({ ...{ url, pid, directory, dataDir, logDir } });
    },
    configure(stores: Readonly<Record<string, unknown>>): void {
      const common = { dataDir, logDir, console: { enabled: false }, server: { port: 0 } };
      writeFileSync(file, stringify({ ...common, ...stores }));
    },
  };
}
