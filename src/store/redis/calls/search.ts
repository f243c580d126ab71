// Searches for jobs: asks each partition and merges the pages. An id is looked up in every topic of the
// partition; an id of one topic only where it may be.

import type { EndState, FoundJob, JobState } from '../../../core/job.ts';
import { endCodes, stateCodes } from '../../../core/stored-codes.ts';
import type { Page, Partition, SearchFilter } from '../../../ports/job-store.ts';
import { numberOf } from '../../batches.ts';
import { storeLimits } from '../../limits.ts';
import {
  isEnd,
  matches,
  mergedPage,
  type Order,
  orderOf,
  type Part,
  type Place,
  placeOf,
} from '../../pages.ts';
import { idOf, tidOf } from '../scripts/keys.ts';
import { type FoundReply, readEnded, readFound } from '../scripts/records.ts';
import { type Arg, askAll, knowAllOf, namingMissing, type Shards } from '../shard/shards.ts';

export async function search(
  shards: Shards,
  filter: SearchFilter,
  limit: number,
  cursor: string | null,
): Promise<Page<FoundJob>> {
  const order = orderOf(filter.state);
  const from = placeOf(cursor, order.start);
  const part = filter.id !== undefined ? lookUp : isEnd(filter.state) ? walkEnded : walkLive;
  const { topic, id, before } = filter;
  await knowAllOf(shards, before);
  const partitions =
    topic === undefined || id === undefined ? shards.partitions : shards.everywhere({ topic, id });
  const asked = { partitions, nameOf: (partition: Partition) => shards.nameOf(partition) };
  const { answers, missing } = await askAll(asked, async (partition) => {
    const { items, edge } = await part(shards, partition, filter, order, from, limit);
    const below = numberOf(before, shards.lastingNameOf(partition)) ?? Number.POSITIVE_INFINITY;
    return { items: items.filter(({ version }) => version < below), edge };
  });
  return { ...mergedPage(answers, order, limit), ...namingMissing(missing) };
}

type Read = (
  shards: Shards,
  partition: Partition,
  filter: SearchFilter,
  order: Order<FoundJob>,
  from: Place,
  limit: number,
) => Promise<Part<FoundJob>>;

const walkLive: Read = async (shards, partition, filter, order, from, limit) => {
  const state = filter.state === undefined ? '' : stateCodes.indexOf(filter.state as JobState);
  const [more, ...found] = (await shards.run('searchLive', partition, [
    filter.topic ?? '',
    state,
    ...range(filter),
    from.at,
    from.version,
    limit,
  ])) as [number, ...FoundReply[]];
  const items = found.map(readFound);
  const last = items.at(-1);
  return { items, edge: more === 1 && last !== undefined ? order.place(last) : null };
};

const walkEnded: Read = async (shards, partition, filter, _order, from, limit) => {
  const [at, version, ...found] = (await shards.run('searchEnded', partition, [
    filter.topic ?? '',
    endCodes.indexOf(filter.state as EndState),
    ...range(filter),
    // One more than the page holds: it tells whether a match follows.
    from.at,
    from.version,
    limit + 1,
    storeLimits.searchRowsMax,
  ])) as [number, number, ...EndedReply[]];
  return { items: found.map(foundEnded), edge: at < 0 ? null : { at, version } };
};

const lookUp: Read = async (shards, partition, filter, order, from) => {
  const isEntry = isEnd(filter.state);
  const args = [filter.topic ?? '', tidOf(filter.id ?? ''), isEntry ? 'entry' : 'job'];
  const reply = (await shards.run('searchId', partition, args)) as unknown[];
  const found = isEntry ? (reply as EndedReply[]).map(foundEnded) : (reply as FoundReply[]).map(readFound);
  const items = found.filter((job) => matches(filter, job) && order.isAfter(order.place(job), from));
  return { items, edge: null };
};

type EndedReply = readonly [topic: Buffer, tid: Buffer, record: Buffer];

function foundEnded([topic, tid, record]: EndedReply): FoundJob {
  return { ...readEnded({ topic: topic.toString(), id: idOf(tid) }, record), deadAt: null };
}

function range({ since = 0, until = Number.MAX_SAFE_INTEGER }: SearchFilter): readonly Arg[] {
  return [Math.max(0, since), until];
}
