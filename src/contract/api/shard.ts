// Shards: the Redis servers that hold the jobs.

import { Type } from 'typebox';
import { contractLimits } from './limits.ts';
import {
  closed,
  count,
  countOrNull,
  flag,
  instant,
  type JsonOf,
  problems,
  reply,
  text,
  textOrNull,
  yes,
} from './schema.ts';

const tags = ['operation'];
const ShardId = text('id of the shard', '0f1e2d3c4b5a6978');

export const shardFields = {
  id: text('id of the shard; jobs are placed by it, whatever the address', '0f1e2d3c4b5a6978'),
  url: text('address without user and password', 'redis://10.0.0.5:6379/0'),
  state: Type.Enum(['active', 'draining'], {
    description: 'draining: it takes no new ids; dq serves its jobs until it is empty',
  }),
  buckets: count('number of its buckets', 1),
  addedAt: instant('when it was added'),
  jobs: countOrNull('jobs in any state; null: it does not answer', 4711),
  alerts: countOrNull('alerts not yet sent; null: it does not answer', 0),
  list: countOrNull('newest shard list that it has seen: it rejects pushes by an older one', 2),
  trouble: textOrNull('why it does not work or rejects pushes, as in /readyz; null: it works'),
};

const Shard = closed(shardFields, { title: 'Shard' });
export type ShardJson = JsonOf<typeof Shard>;
const params = closed({ id: ShardId });

export const listShardsSchema = {
  operationId: 'listShards',
  tags,
  summary: 'The Redis servers that hold the jobs, oldest first',
  response: {
    200: reply(
      'all shards',
      closed({
        number: count('number of the shard list; grows when a shard starts or stops to take ids', 2),
        items: Type.Array(Shard),
      }),
    ),
    ...problems(409, 503),
  },
};

export const addShardSchema = {
  operationId: 'addShard',
  tags,
  summary: 'Add a shard, change the address of one, or end its draining',
  body: closed({
    url: text('address as in the option redis', 'redis://10.0.0.5:6379/0'),
    buckets: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: contractLimits.shardBucketsMax,
        description: 'number of buckets, never changed later; default: 1, on a Cluster 32',
        examples: [1],
      }),
    ),
  }),
  response: { 201: reply('the shard', Shard), ...problems(409, 413, 415, 503) },
};

export const drainShardSchema = {
  operationId: 'drainShard',
  tags,
  summary: 'Place no new ids on a shard; dq serves its jobs',
  params,
  response: { 200: reply('the shard', Shard), ...problems(404, 409, 413, 503) },
};

export const removeShardSchema = {
  operationId: 'removeShard',
  tags,
  summary: 'Remove a draining shard that is empty, or lost',
  params,
  querystring: closed({
    jobs: Type.Optional(
      Type.Enum(['lost'], {
        description:
          'allow a shard that does not answer; with a journal dq restores its jobs on the other shards, else it delivers them only if the shard is added again',
      }),
    ),
  }),
  response: {
    200: reply(
      'removed',
      closed({
        deleted: yes,
        restores: flag('dq restores its jobs from the journal'),
      }),
    ),
    ...problems(404, 409, 413, 503),
  },
};
