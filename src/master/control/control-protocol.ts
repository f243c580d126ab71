// What commands say to a running master: one JSON request on one line, answered by JSON lines, the last one `done`.
// Both ends live here; a request or a member that the other end does not know is an error, or is ignored.

import type { ProcessInfo } from '../../process/messages.ts';

export type ControlRequest =
  | { readonly cmd: 'status' }
  /** timeoutMs instead of shutdownTimeout; answered when everything has ended and the data directory is free */
  | { readonly cmd: 'stop'; readonly timeoutMs?: number }
  /** answered with a message for each step, and when it is over */
  | { readonly cmd: 'reload' }
  /** as `stop`, and the daemon is started again; or refused, and nothing has ended */
  | { readonly cmd: 'restart' }
  | { readonly cmd: 'reopen_logs' }
  | { readonly cmd: 'where' };

export interface DaemonStatus {
  readonly version: string;
  readonly state: ProcessInfo['state'];
  /** epoch ms */
  readonly startedAt: number;
  /** null before a server listens */
  readonly url: string | null;
  readonly dataDir: string;
  /** null while there is no store */
  readonly durability: string | null;
  readonly processes: readonly ProcessInfo[];
}

export type ControlAnswer =
  | { readonly status: DaemonStatus }
  | { readonly url: string | null }
  | { readonly message: string }
  /** why a reload has changed nothing, or a restart ended nothing */
  | { readonly refused: string }
  | { readonly done: true; readonly exit: number };
