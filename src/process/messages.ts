// What the master and its workers say to each other: JSON over the cluster channel. A kind that the receiver does not know
// is ignored: after an upgrade on disk, an old master talks to new workers.

import type { Config } from '../config/options.ts';
import type { StatDelta } from '../ports/registry.ts';
import type { MetricReport } from '../telemetry/metrics.ts';

export type RoleName = 'store' | 'server' | 'timer' | 'notifier' | 'upkeep';

export type ToWorker =
  /** the first message: who this worker is. Configuration travels here, not in the environment: all workers of one
   *  generation have the same one, and /proc/PID/environ shows no secret. */
  | {
      readonly kind: 'init';
      readonly role: RoleName;
      /** number of this worker within its role, 0 … count - 1 */
      readonly index: number;
      readonly count: number;
      /** lives of this place before this one; 0 in a start or a reload, where a refusal does no harm */
      readonly restarts: number;
      readonly instance: number;
      readonly incarnation: number;
      readonly config: Config;
      /** of the embedded store's owner; paths in config are absolute already */
      readonly socketPath: string;
      /** admin token of this start, for the command line */
      readonly adminToken: string;
      /** An older process of this role is at work still (a reload): what only one of them may do is left to it until
       *  `take_over`. Of dq-store, dq-upkeep and a notifier on trial; false for the others. */
      readonly takesOver: boolean;
      /** One of the first workers of a reload: if it cannot do its work, the older ones go on. Absent: from an older master. */
      readonly isOnTrial?: boolean;
    }
  /** to one that takes over: the older process has exited; to a notifier: the old ones take no new jobs any more */
  | { readonly kind: 'take_over' }
  /** Take no new work, finish or hand back the current within deadlineMs, then exit 0. Said again it may shorten the time:
   *  a stop during a reload. */
  | { readonly kind: 'drain'; readonly deadlineMs: number; readonly why: 'stop' | 'reload' }
  | { readonly kind: 'reopen_logs' }
  /** to a notifier: the port that the servers of this instance got where 0 was asked for. No callback may go there. */
  | { readonly kind: 'listening'; readonly port: number }
  /** to upkeep: this notifier's process has exited */
  | { readonly kind: 'owner_dead'; readonly incarnation: number }
  /** to upkeep: the incarnations of notifiers that live now; the answer to `who_lives` */
  | { readonly kind: 'living'; readonly incarnations: readonly number[] }
  /** to upkeep: a role whose others live has died too often, once more; told at every further death. `how`: "died 10 times …"
   *  (an older master does not say it); `reason`: of the last time */
  | {
      readonly kind: 'crash_loop';
      readonly role: RoleName;
      readonly how?: string;
      readonly reason: string;
    }
  /** to upkeep: the master ends the daemon by itself; a drain follows */
  | { readonly kind: 'gave_up'; readonly reason: string }
  /** to upkeep: counters of the other workers */
  | { readonly kind: 'counters'; readonly deltas: readonly StatDelta[] }
  /** to a server: the processes of this instance, the answer to `processes` with the same number */
  | { readonly kind: 'processes'; readonly call: number; readonly processes: readonly ProcessInfo[] }
  /** to a server: the answer to `scrape` with the same number */
  | { readonly kind: 'scrape'; readonly call: number; readonly text: string };

export type ToMaster =
  /** this worker listens now; answered by `init`. What was sent before would be lost: node:cluster takes it off the channel
   *  before the first line of a worker has run. */
  | { readonly kind: 'awake' }
  | {
      readonly kind: 'ready';
      readonly version: string;
      readonly url: string | null;
      readonly note: string | null;
    }
  /** the answer to `take_over`, once it does alone what only one may do; `note` as in `ready` */
  | { readonly kind: 'took_over'; readonly note: string | null }
  /** in place of that of `ready` or `took_over`: what it has to say about itself is known better by now */
  | { readonly kind: 'note'; readonly note: string }
  /** this worker cannot start, for a reason that a repetition would meet again: a taken port, an unreadable file */
  | { readonly kind: 'failed'; readonly message: string; readonly exitCode: number }
  /** the last words of a process that dies of an exception */
  | { readonly kind: 'crashed'; readonly message: string }
  | { readonly kind: 'report'; readonly report: WorkerReport }
  | { readonly kind: 'counters'; readonly deltas: readonly StatDelta[] }
  /** what has been counted since the last one; sent with the report */
  | { readonly kind: 'metrics'; readonly metrics: MetricReport }
  | { readonly kind: 'who_lives' }
  | { readonly kind: 'processes'; readonly call: number }
  /** asks for the metrics of this instance */
  | { readonly kind: 'scrape'; readonly call: number };

/** Sent about once a second. */
export interface WorkerReport {
  /** requests being answered, callbacks running, calls being served: whatever the role's work is */
  readonly inFlight: number;
  readonly rssBytes: number;
  /** of one core, since the last report */
  readonly cpuPercent: number;
  /** processor time since the last report */
  readonly cpuMs: number;
}

export interface ProcessInfo {
  readonly title: string;
  readonly role: RoleName | 'master';
  readonly pid: number;
  readonly version: string;
  /** 1 for the start, one more for each reload that succeeded; of the master: the one in force */
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'draining';
  readonly startedAt: number;
  readonly restarts: number;
  readonly inFlight: number;
  readonly rssBytes: number;
  readonly cpuPercent: number;
}
