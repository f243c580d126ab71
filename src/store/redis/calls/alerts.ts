// Alert outbox of the port, by scripts. Remembers in which partition this process claimed each version,
// because two shards may give the same version to two jobs.

import type { SettledAlert, Version } from '../../../core/job.ts';
import { inBatches } from '../../../core/lists.ts';
import { alertCodes } from '../../../core/stored-codes.ts';
import type { AlertEntry, AlertOutbox, Partition } from '../../../ports/job-store.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { byDeath, mergedPage, newest, placeOf } from '../../pages.ts';
import { redisLimits } from '../limits.ts';
import { readAlert } from '../scripts/records.ts';
import { askAll, lookUp, namingMissing, type Shards } from '../shard/shards.ts';

type DueReply = readonly [topic: Buffer, deadAt: number, version: number];
type AlertReply = readonly [topic: Buffer, version: number, record: Buffer];

export function alertCalls(shards: Shards): AlertOutbox {
  const claims = new Claims(shards);
  return {
    due: (windowMs) => topicsDue(shards, windowMs),
    claim: (topic, claimMs, max) => claims.claim(topic, claimMs, max),
    settle: (versions, as) => claims.settle(versions, as),
    stateOf: (job) =>
      lookUp(shards, job, async (partition, list) => {
        const reply = await shards.run('alertState', partition, [job.version], list);
        const [now, topic, record] = reply as [number, Buffer, Buffer];
        if (record.length === 0) return null;
        const found = readAlert(topic.toString(), job.version, record, now);
        return found.topic === job.topic && found.id === job.id ? found.state : null;
      }),
    async list(limit, cursor) {
      const from = placeOf(cursor, newest);
      const { answers, missing } = await askAll(shards, async (partition) => {
        const reply = await shards.run('alertList', partition, [limit, from.at, from.version]);
        const [now, more, total, ...found] = reply as [number, number, number, ...AlertReply[]];
        const items = found.map(([topic, version, record]) =>
          readAlert(topic.toString(), version, record, now),
        );
        const last = items.at(-1);
        return { items, total, edge: more === 1 && last !== undefined ? byDeath.place(last) : null };
      });
      const total = answers.reduce((sum, answer) => sum + answer.total, 0);
      return {
        ...mergedPage<AlertEntry>(answers, byDeath, limit),
        total,
        ...namingMissing(missing),
      };
    },
  };
}

async function topicsDue(shards: Shards, windowMs: number): Promise<readonly string[]> {
  const { answers } = await askAll(shards, async (partition): Promise<[DueReply[], Buffer[]]> => {
    if (!(await shards.has(partition, 'o', 'oc', 'ot'))) return [[], []];
    return (await shards.run('alertDue', partition, [windowMs])) as [DueReply[], Buffer[]];
  });
  // One mail covers a topic, in whichever partitions its jobs are.
  const mailed = new Set(answers.flatMap(([, topics]) => topics.map(String)));
  const owed = answers.flatMap(([topics]) => topics).sort(([, aAt, a], [, bAt, b]) => aAt - bAt || a - b);
  const names = new Set(owed.map(([topic]) => topic.toString()));
  return [...names].filter((name) => !mailed.has(name));
}

/** In which partition this process claimed each version. */
class Claims {
  readonly #shards: Shards;
  readonly #claims = new Map<Version, Partition>();

  constructor(shards: Shards) {
    this.#shards = shards;
  }

  async claim(topic: string, claimMs: number, max: number): Promise<readonly AlertEntry[]> {
    const claimed: AlertEntry[] = [];
    let failed: StoreError | null = null;
    for (const partition of this.#shards.partitions) {
      try {
        for (let all = false; !all && claimed.length < max; ) {
          const want = Math.min(max - claimed.length, redisLimits.stepMax);
          const found = await this.#claimIn(partition, topic, claimMs, want);
          claimed.push(...found.entries);
          all = found.all || found.entries.length === 0;
        }
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        failed ??= error;
      }
    }
    if (failed !== null && claimed.length === 0) throw failed;
    return claimed;
  }

  async settle(versions: readonly Version[], as: SettledAlert): Promise<void> {
    const versionsIn = new Map<Partition, Version[]>();
    for (const version of versions) {
      const claim = this.#partitionOf(version);
      for (const partition of claim === undefined ? this.#shards.partitions : [claim]) {
        const list = versionsIn.get(partition);
        if (list === undefined) versionsIn.set(partition, [version]);
        else list.push(version);
      }
    }
    await Promise.all(
      [...versionsIn].map(async ([partition, list]) => {
        await this.#settleIn(partition, list, as);
        for (const version of list) this.#claims.delete(version);
      }),
    );
  }

  /** undefined: not claimed here, or its partition is gone because the shard got another address. */
  #partitionOf(version: Version): Partition | undefined {
    const partition = this.#claims.get(version);
    return partition !== undefined && this.#shards.openPartitions.includes(partition) ? partition : undefined;
  }

  async #claimIn(partition: Partition, topic: string, claimMs: number, max: number) {
    const args = [topic, Math.ceil(claimMs), max];
    const reply = (await this.#shards.run('alertClaim', partition, args)) as unknown[];
    const claimed = inBatches(reply, 2) as readonly (readonly [version: number, record: Buffer])[];
    const entries: AlertEntry[] = [];
    for (const [version, record] of claimed) {
      const other = this.#partitionOf(version);
      if (other !== undefined && other !== partition) {
        // Two claims of one version could not be settled apart: this one waits until the other is settled.
        await this.#settleIn(partition, [version], 'owed');
        continue;
      }
      this.#claims.set(version, partition);
      // With now = 0 a claim has never ended: this one was made a moment ago.
      entries.push(readAlert(topic, version, record, 0));
    }
    return { entries, all: claimed.length < max };
  }

  async #settleIn(
    partition: Partition,
    versions: readonly Version[],
    as: AlertEntry['state'],
  ): Promise<void> {
    for (const batch of inBatches(versions, redisLimits.stepMax))
      await this.#shards.run('alertSettle', partition, [alertCodes.indexOf(as), ...batch]);
  }
}
