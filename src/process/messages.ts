// Declares the messages between the master and its workers: JSON over the cluster channel.
// Invariant: a receiver ignores unknown kinds, because after an upgrade on disk an old master talks to new
// workers.

import type { AddressInfo } from 'node:net';
import type { Config } from '../config/options.ts';
import type { TopicFailures } from '../core/endpoint.ts';
import type { StatDelta } from '../ports/registry.ts';
import type { MetricReport } from '../telemetry/metrics.ts';
import type { AnswerOf, AskedRole, AttemptSample, Question } from './questions.ts';

export type RoleName = 'store' | 'server' | 'console' | 'timer' | 'notifier' | 'upkeep';

/** Why the master ends a worker: the whole daemon ends, a newer generation replaces it, or it is a console
 *  that no page uses, or that got SIGTERM. */
export type DrainCause = 'stop' | 'reload' | 'unused' | 'terminated';

export type ToWorker =
  /** The first message: what this worker is. It holds the configuration, so that all workers of a
   *  generation have the same one and /proc/PID/environ shows no secret. */
  | {
      readonly kind: 'init';
      readonly role: RoleName;
      /** number of this worker within its role, 0 … count - 1 */
      readonly index: number;
      readonly count: number;
      /** earlier processes of this slot; 0 in a start or a reload, where a failed start does no harm */
      readonly restarts: number;
      readonly instance: number;
      readonly incarnation: number;
      readonly config: Config;
      /** of dq-store; paths in `config` are absolute */
      readonly socketPath: string;
      /** admin token of this start, for the command line */
      readonly adminToken: string;
      /** for a server: the port that clients know; it needs it where the option is 0. Absent: none listens
       *  yet */
      readonly port?: number | undefined;
      /** for the console: where the master accepts its connections */
      readonly door?: AddressInfo | undefined;
      /** An older process of this role still works (a reload), and does what only one of them may do until
       *  `take_over`. For dq-store, dq-upkeep and a notifier on trial; false for the others. */
      readonly takesOver: boolean;
      /** One of the first workers of a reload: if it cannot start, the older ones go on. */
      readonly isOnTrial: boolean;
      /** The daemon has been ready: a failure that a restart does not mend is a state, and no end. */
      readonly isRunning: boolean;
    }
  /** To a worker with `takesOver`: the older process has exited. To a notifier: the old ones take no new
   *  jobs. */
  | { readonly kind: 'take_over' }
  /** Take no new work, finish or release the rest within deadlineMs, then exit 0. A second one may shorten
   *  the time: a stop during a reload. */
  | { readonly kind: 'drain'; readonly deadlineMs: number; readonly why: DrainCause }
  | { readonly kind: 'reopen_logs' }
  /** to a console: a connection comes with it, of which nothing was read */
  | { readonly kind: 'connection' }
  /** to dq-store: copy registry.db to this MySQL, then reject changes of it; `undo`: remove the copy, and
   *  take changes again. `call`: as in the answer */
  | {
      readonly kind: 'move_registry';
      readonly call: number;
      readonly url: string;
      readonly step: 'copy' | 'undo';
    }
  /** to a notifier or server: a port of this instance, where the option is 0 or unset. No callback may go
   *  there. `host`: as configured; absent: that of the servers */
  | { readonly kind: 'listening'; readonly port: number; readonly host?: string }
  /** to a notifier: the port of the trial's receiver on 127.0.0.1; null: no trial runs */
  | { readonly kind: 'trial'; readonly port: number | null }
  /** to upkeep: the process of this notifier has exited */
  | { readonly kind: 'owner_dead'; readonly incarnation: number }
  /** to upkeep: the answer to `who_lives`. `incarnations`: of living notifiers; `processes`: of all roles,
   *  by incarnation the title. Both with the next process of each slot */
  | {
      readonly kind: 'living';
      readonly incarnations: readonly number[];
      readonly processes: readonly (readonly [incarnation: number, title: string])[];
    }
  /** to upkeep: a process of this role died again after too many deaths, while others of its role live.
   *  `how`: "died 10 times …"; `reason`: of the last death */
  | {
      readonly kind: 'crash_loop';
      readonly role: RoleName;
      readonly how: string;
      readonly reason: string;
    }
  /** to upkeep: the master gives up and ends the daemon; a drain follows */
  | { readonly kind: 'gave_up'; readonly reason: string }
  /** to upkeep: samples of attempts of a notifier */
  | { readonly kind: 'attempts'; readonly attempts: readonly AttemptSample[] }
  /** to upkeep: counters of the other workers */
  | { readonly kind: 'counters'; readonly deltas: readonly StatDelta[] }
  /** to upkeep: what notifiers observed: pairs of topic and packFacts() */
  | { readonly kind: 'observed'; readonly topics: readonly (readonly [string, string])[] }
  /** to upkeep: what changed in the failures in a row of a notifier */
  | { readonly kind: 'failing'; readonly news: FailingNews }
  /** to a server: the processes of this instance, the answer to `processes` with the same number */
  | { readonly kind: 'processes'; readonly call: number; readonly processes: readonly ProcessInfo[] }
  /** to a server: the answer to `scrape` with the same number */
  | { readonly kind: 'scrape'; readonly call: number; readonly text: string }
  /** to a server or console: the answer to `reload` with the same number */
  | { readonly kind: 'reload'; readonly call: number; readonly reload: ReloadState }
  /** to a server or console: the answer to `config` with the same number */
  | { readonly kind: 'config'; readonly call: number; readonly config: ConfigState }
  /** to a notifier or upkeep: asks for an `answer` with the same number */
  | { readonly kind: 'ask'; readonly call: number; readonly question: Question }
  /** to a server, console or upkeep: the answers to its `ask` with the same number, one for each process that
   *  was asked */
  | { readonly kind: 'answers'; readonly call: number; readonly answers: readonly AnswerOf<unknown>[] };

/** Of the topics that a notifier called since its last one. */
export interface FailingNews {
  /** its incarnation */
  readonly run: number;
  /** topics whose last call failed */
  readonly failing: readonly TopicFailures[];
  /** topics whose last call succeeded, and when, epoch ms by the storage clock */
  readonly answered: readonly (readonly [topic: string, at: number])[];
}

export interface RegistryMove {
  /** one sentence; null: done */
  readonly why: string | null;
  /** MySQL is the registry of this daemon already */
  readonly isInForce: boolean;
}

/** The first message of a worker. */
export type Init = Extract<ToWorker, { kind: 'init' }>;

export type ToMaster =
  /** This worker receives messages now; the answer is `init`. An earlier message would be lost:
   *  node:cluster reads the channel before the first line of a worker runs. */
  | { readonly kind: 'awake' }
  | {
      readonly kind: 'ready';
      readonly version: string;
      readonly url: string | null;
      readonly note: string | null;
    }
  /** the answer to `take_over`: it does now what only one of its role may do; `note` as in `ready`;
   *  `warnings`: parts of the configuration that are not in force, one sentence each */
  | { readonly kind: 'took_over'; readonly note: string | null; readonly warnings?: readonly string[] }
  /** replaces the note of `ready` or `took_over` */
  | { readonly kind: 'note'; readonly note: string }
  /** of dq-store, the answer to `move_registry` */
  | ({ readonly kind: 'registry_moved'; readonly call: number } & RegistryMove)
  /** this worker cannot start, and neither could another try: a port in use, an unreadable file */
  | { readonly kind: 'failed'; readonly message: string; readonly exitCode: number }
  /** this process ends by an exception */
  | { readonly kind: 'crashed'; readonly message: string }
  | { readonly kind: 'report'; readonly report: WorkerReport }
  | { readonly kind: 'counters'; readonly deltas: readonly StatDelta[] }
  /** of a notifier, for upkeep; lost while upkeep is unavailable */
  | { readonly kind: 'observed'; readonly topics: readonly (readonly [string, string])[] }
  /** the increments since the last one; sent with the report */
  | { readonly kind: 'metrics'; readonly metrics: MetricReport }
  /** of a notifier, for upkeep: lost while upkeep is unavailable */
  | { readonly kind: 'attempts'; readonly attempts: readonly AttemptSample[] }
  /** of a notifier, for upkeep, once a second and at its end */
  | { readonly kind: 'failing'; readonly news: FailingNews }
  | { readonly kind: 'who_lives' }
  /** of the console, for each `connection`: it has it */
  | { readonly kind: 'taken' }
  /** of the console, once a second: no page uses it, and it may end */
  | { readonly kind: 'unused' }
  /** of the console: it got SIGTERM, and drains when the master says so: behind the connections that it has
   *  passed already */
  | { readonly kind: 'terminated' }
  /** of the console: its trial begins or ends; the end of its process ends it, too */
  | { readonly kind: 'trial'; readonly port: number | null }
  | { readonly kind: 'processes'; readonly call: number }
  /** asks for the metrics of this instance */
  | { readonly kind: 'scrape'; readonly call: number }
  /** of a server, console or upkeep: asks the ready processes of a role. `waitMs`: time for the answers
   *  (absent: masterLimits.askMs); `toOne`: only one of them is asked */
  | {
      readonly kind: 'ask';
      readonly call: number;
      readonly to: AskedRole;
      readonly question: Question;
      readonly waitMs?: number;
      readonly toOne?: boolean;
    }
  /** asks for the state of reloads; `begins`: after beginning one */
  | { readonly kind: 'reload'; readonly call: number; readonly begins: boolean }
  /** asks for the configuration in force */
  | { readonly kind: 'config'; readonly call: number }
  /** of a notifier or upkeep: the answer to `ask` with the same number; null: it has none */
  | { readonly kind: 'answer'; readonly call: number; readonly answer: unknown };

/** A finished reload. Times: epoch ms. */
export interface ReloadRun {
  readonly startedAt: number;
  readonly endedAt: number;
  /** `partly`: in force, but a part does not work yet · `rejected`: nothing has changed */
  readonly outcome: 'reloaded' | 'partly' | 'rejected';
  /** null = reloaded */
  readonly reason: string | null;
  /** its progress, one sentence each */
  readonly lines: readonly string[];
  /** in force after it */
  readonly generation: number;
}

export interface ReloadState {
  readonly running: Pick<ReloadRun, 'startedAt' | 'lines'> | null;
  /** another one follows */
  readonly waiting: boolean;
  readonly last: ReloadRun | null;
  readonly generation: number;
  /** why the daemon needs `dq restart`, one sentence; null = it does not */
  readonly restart: string | null;
}

/** The options in force; secrets are masked. */
export interface ConfigState {
  /** null = no file */
  readonly file: string | null;
  /** why a reload would reject what is on disk; null = it would not */
  readonly problem: string | null;
  readonly items: readonly {
    readonly name: string;
    readonly value: string;
    /** `--port`, `DQ_SERVER__PORT`, `dq.yaml:3:5`, `default` */
    readonly origin: string;
    readonly source: 'flag' | 'environment' | 'file' | 'default';
    readonly defaultValue: string;
    readonly needsRestart: boolean;
    /** value after the next reload; null = the same */
    readonly next: string | null;
    readonly help: string;
  }[];
}

/** Sent about once a second. */
export interface WorkerReport {
  /** running units of the role's work: requests, callbacks, calls */
  readonly inFlight: number;
  readonly rssBytes: number;
  /** of one core, since the last report */
  readonly cpuPercent: number;
  /** processor time since the last report, ms */
  readonly cpuMs: number;
}

export interface ProcessInfo {
  readonly title: string;
  readonly role: RoleName | 'master';
  /** further roles of this process (role.ts); absent: none */
  readonly alsoRuns?: readonly RoleName[];
  readonly pid: number;
  readonly version: string;
  /** 1 for the start, one more for each successful reload; of the master: the current one */
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'draining';
  readonly startedAt: number;
  readonly restarts: number;
  readonly inFlight: number;
  readonly rssBytes: number;
  readonly cpuPercent: number;
}
