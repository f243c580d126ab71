// Declares what a role receives and what it provides, and which roles share a process. The compose folder
// builds the context; a role names no adapter.

import type { AddressInfo, Socket } from 'node:net';
import type { Config } from '../config/options.ts';
import type { Owner } from '../core/job.ts';
import type { Change } from '../core/job-change.ts';
import type { StatName } from '../core/series.ts';
import type { JobStore, Store } from '../ports/job-store.ts';
import type { JournalDb } from '../ports/journal.ts';
import type { Arrivals, LeavingJobs } from '../ports/leaving.ts';
import type { LeaderRow, Registry } from '../ports/registry.ts';
import type { ShardServers } from '../ports/shard-servers.ts';
import type { SpooledStreams } from '../ports/spool.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { RoleName, ToMaster, ToWorker } from './messages.ts';
import type { StorageClock } from './store-clock.ts';

/** The cluster channel as a role sees it. */
export interface MasterLink {
  /** Drops the message when the master is gone. */
  send(message: ToMaster): void;
  /** As send; resolves when the message is sent, or the master is gone. */
  sent(message: ToMaster): Promise<void>;
  /** `connection`: comes with the message of that kind; absent: it was closed meanwhile */
  onMessage(listener: (message: ToWorker, connection?: Socket) => void): void;
}

/** Adds to a topic's statistics; buffered in the process and sent every limits.tickMs. */
export interface Counters {
  add(topic: string, name: StatName, n?: number): void;
}

/** The journal of a process, for the agents of dq-upkeep and for the API. */
export interface JournalParts {
  readonly db: JournalDb;
  /** of this host */
  readonly spool: SpooledStreams;
  /** Writes changes to the stream of this process; resolves when they are synced. Rejects with StoreError. */
  readonly record: (changes: readonly Change[]) => Promise<void>;
  /** why the stream of this process rejects pushes; null: it accepts them */
  readonly rejectReason: () => string | null;
}

/** A jobs.db whose jobs move to the store in force. */
export interface LeavingStore {
  readonly calls: LeavingJobs;
  /** its leases, and its reserved jobs */
  readonly jobs: JobStore;
  /** the store in force */
  readonly arrivals: Arrivals;
  /** none: it has no jobs, for ever · held: it has some, and no move is open. Rejects with StoreError. */
  look(): Promise<'none' | 'owing' | 'held' | 'moving'>;
}

export interface RoleContext {
  readonly config: Config;
  readonly log: Log;
  readonly title: string;
  readonly version: string;
  readonly owner: Owner;
  readonly index: number;
  /** workers of this role in this generation */
  readonly count: number;
  readonly store: Store;
  /** absent: the jobs are in the embedded store */
  readonly shards?: { readonly servers: ShardServers; readonly refresh: () => Promise<void> } | undefined;
  /** absent: the jobs are in the embedded store */
  readonly leaving?: LeavingStore | undefined;
  /** of dq-upkeep, dq-server and dq-console with a journal */
  readonly journal?: JournalParts | undefined;
  /** of the store, not of this machine */
  readonly clock: StorageClock;
  readonly registry: Registry;
  /** with the option `standby` */
  readonly leader?: LeaderRow | undefined;
  /** the registered topics, cached in this process */
  readonly topics: TopicBook;
  readonly counters: Counters;
  readonly metrics: Metrics;
  readonly link: MasterLink;
  readonly adminToken: string;
  /** of the registry, for the texts of pull leases. Throws DqError while it is unreadable. */
  readonly leaseKey: () => Buffer;
  /** of a server, and of the console: see `init` in messages.ts */
  readonly port?: number | undefined;
  readonly door?: AddressInfo | undefined;
  /** earlier processes of this slot; 0 in a start or a reload */
  readonly restarts: number;
  /** an older process of this role still works, until takeOver(): see `init` in messages.ts */
  readonly takesOver: boolean;
}

export interface Role extends Service {
  readonly name: RoleName;
  /** http URL of a listening server, once started; null for the others */
  readonly url: string | null;
  /** a short remark beside the url, once started; absent: none */
  readonly note?: string | null;
  /** running units of the role's work: requests, callbacks, calls */
  inFlight(): number;
  /** Starts the work of the older process. Called once after start(), where the context has takesOver; a
   *  drain may come instead. */
  takeOver?(): Promise<void>;
  /** `isLast`: the daemon ends, and the workers that this one outlives have exited. */
  drain(deadlineMs: number, isLast?: boolean): Promise<void>;
}

/** The roles that run in the process of this role, besides it. Small machines run the timer beside upkeep
 *  (`profile: small`): a process less. */
export function joinedRoles(role: RoleName, config: Pick<Config, 'timer.workers'>): readonly 'timer'[] {
  return role === 'upkeep' && config['timer.workers'] === 0 ? ['timer'] : [];
}

/** `first` with further roles in its process; its name and URL are those of the process. Invariant: the roles
 *  start, take over and drain together; the death of the process ends both, and its restart starts both. */
export function joined(first: Role, others: readonly Role[]): Role {
  if (others.length === 0) return first;
  const all = [first, ...others];
  return {
    name: first.name,
    url: first.url,
    inFlight: () => all.reduce((sum, role) => sum + role.inFlight(), 0),
    async start() {
      for (const role of all) await role.start();
    },
    async takeOver() {
      for (const role of all) await role.takeOver?.();
    },
    async drain(deadlineMs, isLast) {
      await Promise.all(all.map((role) => role.drain(deadlineMs, isLast)));
    },
  };
}

const single: ReadonlySet<RoleName> = new Set(['store', 'upkeep', 'console']);

/** As `ps` shows it: `dq-upkeep+timer` where two roles share the process. Roles with one process have no
 *  number. */
export function titleOf(role: RoleName, index: number, config: Pick<Config, 'timer.workers'>): string {
  const name = `dq-${[role, ...joinedRoles(role, config)].join('+')}`;
  return single.has(role) ? name : `${name}-${index}`;
}
