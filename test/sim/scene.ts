// What all parts of a world share.

import type { Config } from '../../src/config/options.ts';
import type { Registry } from '../../src/ports/registry.ts';
import type { Database } from '../../src/runtime/database.ts';
import type { Calls } from './calls.ts';
import type { Port } from './channel.ts';
import type { Deadlines } from './deadlines.ts';
import type { Disk } from './disk.ts';
import type { Follower } from './follow-engine.ts';
import type { JournalSide } from './journal/journal-side.ts';
import type { Judge } from './judge.ts';
import type { Lead } from './lead.ts';
import type { Ledgers } from './ledgers.ts';
import type { Loop } from './loop.ts';
import type { MailServer } from './mail.ts';
import type { Network } from './network.ts';
import type { Occasions } from './occasions.ts';
import type { OperationRules } from './operation-rules.ts';
import type { LeftJobs } from './redis/left-jobs.ts';
import type { RedisSide } from './redis/redis-side.ts';
import type { Single } from './single.ts';
import type { TopicTable } from './topics.ts';
import type { UpkeepFiles } from './upkeep-files.ts';
import type { Verdicts } from './verdicts.ts';
import type { Windows } from './windows.ts';

/** Numbers of the next processes of dq: each is drawn once in a world, so one number names one process. */
export interface Incarnations {
  masters: number;
  workers: number;
}

/** The instances of a world have some parts of their own. */
export interface Scene {
  readonly instance: number;
  /** of the names of its processes; empty in a world with one instance */
  readonly prefix: string;
  readonly incarnations: Incarnations;
  readonly loop: Loop;
  readonly judge: Judge;
  readonly deadlines: Deadlines;
  readonly windows: Windows;
  readonly verdicts: Verdicts;
  readonly topics: TopicTable;
  readonly ledger: Ledgers;
  readonly calls: Calls;
  readonly operations: OperationRules;
  readonly follower: Follower;
  readonly disk: Disk;
  readonly network: Network;
  readonly occasions: Occasions;
  readonly single: Single;
  /** of dq-store */
  readonly port: Port;
  /** Nothing goes wrong in this world: workers are replaced in order. */
  readonly isOrderly: boolean;
  /** The faults are over. */
  readonly isCalm: () => boolean;
  readonly config: Config;
  readonly registry: Registry;
  /** of dq-upkeep */
  readonly files: UpkeepFiles;
  readonly mails: MailServer;
  /** survives its owners */
  readonly db: Database;
  /** null: no instance has the option `standby` */
  readonly lead: Lead | null;
  /** null: without one */
  readonly journal: JournalSide | null;
  /** in jobs.db, from before Redis; null: none */
  left: LeftJobs | null;
  /** null: the jobs are in the embedded store */
  readonly redis: RedisSide | null;
}
