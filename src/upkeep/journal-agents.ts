// Makes the agents of dq-upkeep that ship the journal, notice losses of the store, heal it, and compare both,
// and connects them. Each runs in one process of an instance at a time.

import { hostname } from 'node:os';
import { Auditor } from '../journal/heal/auditor.ts';
import { JournalFsck } from '../journal/heal/journal-fsck.ts';
import { Looker } from '../journal/heal/looker.ts';
import { Restorer } from '../journal/heal/restorer.ts';
import { Surveyor } from '../journal/heal/surveyor.ts';
import { Recorder } from '../journal/ship/recorder.ts';
import type { JournalParts, RoleContext } from '../process/role.ts';
import type { Service } from '../runtime/service.ts';
import { wallNow } from '../runtime/time.ts';
import type { Incidents } from './alerts/incidents.ts';
import { JournalWatch } from './journal-watch.ts';
import type { LivingProcesses } from './living-processes.ts';

export interface JournalAgents {
  readonly looker: Looker;
  readonly recorder: Recorder;
  readonly restorer: Restorer;
  readonly fsck: JournalFsck;
  /** in the order of their start */
  readonly all: readonly Service[];
}

export function journalAgents(
  {
    store,
    owner,
    config,
    log,
    metrics,
    shards,
  }: Pick<RoleContext, 'store' | 'owner' | 'config' | 'log' | 'metrics' | 'shards'>,
  { db, spool, record, rejectReason }: JournalParts,
  living: LivingProcesses,
  incidents: Incidents,
  everyMs: number,
): JournalAgents {
  const { healing, jobs } = store;
  if (healing === undefined) throw new Error('this store keeps no numbers: it cannot have a journal');
  const common = {
    journal: db,
    instance: owner.instance,
    log,
    healing,
    record,
    refresh: async () => shards?.refresh(),
    retentionMs: config['journal.retention'],
    spoolBytes: config['journal.spoolBytes'],
  };
  const looker = new Looker({
    ...common,
    partitions: () => jobs.partitions(),
    deadBelow() {
      const [alive, unshipped] = [living.lowest(), recorder.lowestOpen];
      return alive === null || unshipped === null ? null : Math.min(alive, unshipped);
    },
  });
  const watch = new JournalWatch({
    ...common,
    recorder: () => recorder.state,
    looker,
    spool,
    rejectReason,
    incidents,
    metrics,
    everyMs,
    nameOf(shard) {
      const url = shards?.servers.list.shards.find(({ id }) => id === shard)?.url;
      return url === undefined ? shard : (shards?.servers.nameOf(url) ?? shard);
    },
  });
  const restorer: Restorer = new Restorer({
    ...common,
    looker,
    watch,
    peerWaitMs: config['journal.peerWait'],
    isListed: (shard) => shards?.servers.list.shards.some(({ id }) => id === shard) ?? true,
  });
  const recorder: Recorder = new Recorder({
    ...common,
    spool,
    looker,
    host: hostname(),
    titleOf: (incarnation) => living.titleOf(incarnation),
    async onWentBack() {
      // Rows that have ended since may be open again: the audit leaves them out.
      await db.raiseSince(wallNow());
      log.error('recorder: MySQL went back to an older state; the spool of the last hour is shipped again');
      surveyor.again();
    },
  });
  const auditor = new Auditor({ ...common, looker });
  const surveyor = new Surveyor({ ...common, looker, recorder: () => recorder.state });
  const fsck = new JournalFsck({ store, healing, journal: db, spool });
  const all = [looker, recorder, restorer, auditor, surveyor, watch];
  return { looker, recorder, restorer, fsck, all };
}
