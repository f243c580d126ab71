// Defines the messages of the control socket: one JSON request on one line, answered by JSON lines, the last
// one `done`. An unknown request is an error; unknown members are ignored.

import type { ProcessInfo } from '../../process/messages.ts';
import type { CompatAddresses } from '../workers/compat-addresses.ts';

export type ControlRequest =
  | { readonly cmd: 'status' }
  /** timeoutMs replaces shutdownTimeout; answered when everything has ended and the data directory is free */
  | { readonly cmd: 'stop'; readonly timeoutMs?: number }
  /** answered with a message for each step, and at the end */
  | { readonly cmd: 'reload' }
  /** as `stop`, then the daemon starts again; or rejected, and nothing has ended */
  | { readonly cmd: 'restart' }
  /** copies registry.db to the MySQL of the configuration, then as `restart`; `moved` and no end where MySQL
   *  is in force already */
  | { readonly cmd: 'move' }
  | { readonly cmd: 'reopen_logs' }
  | { readonly cmd: 'where' };

interface MeasuredProcess extends ProcessInfo {
  /** RSS, of which pages in common with other processes count in part; null: not known */
  readonly pssBytes: number | null;
}

export interface DaemonStatus {
  readonly version: string;
  readonly state: ProcessInfo['state'];
  /** epoch ms */
  readonly startedAt: number;
  /** null before a server listens */
  readonly url: string | null;
  /** address of the console; null = none listens */
  readonly console: string | null;
  /** addresses for clients of other queues */
  readonly compat: CompatAddresses;
  readonly dataDir: string;
  /** null before dq-store is ready */
  readonly durability: string | null;
  /** with `standby`: what this instance does; null: without */
  readonly leadership: string | null;
  /** started with --no-deliveries */
  readonly noDeliveries: boolean;
  readonly processes: readonly MeasuredProcess[];
}

export type ControlAnswer =
  | { readonly status: DaemonStatus }
  | { readonly url: string | null }
  | { readonly message: string }
  /** of the next start, where a restart begins on another one */
  | { readonly dataDir: string }
  /** configuration file that a reload or restart reads; null: none */
  | { readonly file: string | null }
  | { readonly moved: true }
  /** why the reload has changed nothing, or the restart has ended nothing */
  | { readonly refused: string }
  | { readonly done: true; readonly exit: number };
