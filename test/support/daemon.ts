// Starts a real daemon for a test or a file: bin/dq on a free port, with its own directories. Ends it with
// the test or the file. A start takes seconds of processor time: only tests of a start, an end, a death or a
// configuration need it, the others use the daemon of the run (shared-daemon.ts).
import { afterAll, onTestFinished } from 'vitest';
import { type Daemon, type DaemonOptions, launchDaemon } from './daemon-process.ts';

export { childrenOf, isAlive } from '../../scripts/services/live-processes.ts';
export {
  type ApiReply,
  type Daemon,
  environment,
  launcher,
  openFilesOf,
  type RunningDaemon,
} from './daemon-process.ts';

interface StartOptions extends DaemonOptions {
  /** `file`: ends with the file, for a call at its top; with the test otherwise */
  readonly scope?: 'test' | 'file';
}

export function startDaemon({ scope = 'test', ...options }: StartOptions = {}): Promise<Daemon> {
  return launchDaemon(options, scope === 'file' ? afterAll : onTestFinished);
}
