// Reloads a daemon and reads its processes.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { ProcessInfo } from '../../src/process/messages.ts';
import type { Daemon } from './daemon.ts';
import { type Run, runDq } from './run-dq.ts';

/** `dq reload`, with a deadline for a busy machine. */
export function reload(daemon: Daemon): Promise<Run> {
  return runDq(['reload', '--data-dir', daemon.dataDir], { cwd: daemon.directory });
}

/** The master's processes, itself first. */
export async function processesOf(daemon: Daemon): Promise<readonly ProcessInfo[]> {
  const { stdout } = await runDq(['status', '--json', '--data-dir', daemon.dataDir], {
    cwd: daemon.directory,
  });
  return (JSON.parse(stdout) as { processes: ProcessInfo[] }).processes;
}

export function writeConfig(daemon: Daemon, config: Readonly<Record<string, unknown>> | string): void {
  const text = typeof config === 'string' ? config : stringify(config);
  writeFileSync(join(daemon.directory, 'dq.yaml'), text);
}

/** Consoles that died or were ended so far. On a busy machine the master ends one that is not ready in time,
 *  and with it its connections: a test of a reload then looks at the next one. */
export const endedConsoles = (daemon: Daemon): number =>
  daemon.log('error').filter(({ message }) => String(message).startsWith('dq-console')).length;
