// Prints the result of a command that moved one job.

import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { printData, say } from './output.ts';

export interface MovedJob {
  readonly version: string;
  readonly state: string;
  readonly dueAt: string;
}

export function printMoved(text: string, { state, dueAt }: MovedJob, flags: DaemonOptions): void {
  if (flags.json) printData(text);
  say(state === 'delayed' ? `dq: ${state}, due at ${dueAt}` : `dq: ${state}`);
}
