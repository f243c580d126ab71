// /v1/shards: the Redis servers that jobs are spread over: list, add, drain, remove. What a change means is change-shards.ts's.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { ShardRecord } from '../../core/shard-list.ts';
import { parseRedisUrl } from '../../core/url/redis-url.ts';
import { StoreError } from '../../ports/job-store.ts';
import { addShard, drainShard, known, removeShard, type Shards } from '../../use-cases/change-shards.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, Instant, nullable, problems, reply } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';

const tags = ['operation'];
const Shard = closed({
  id: Type.String({ description: 'by which jobs are placed, whatever the address' }),
  url: Type.String({ description: 'without user and password' }),
  state: Type.Enum(['active', 'draining'], {
    description: 'draining: it takes no new ids, and is served until it is empty',
  }),
  buckets: Type.Integer(),
  addedAt: Instant,
  jobs: nullable('integer', { description: 'in any state; null: it does not answer' }),
  alerts: nullable('integer', { description: 'that are to be sent' }),
  list: nullable('integer', {
    description: 'number of the newest list that it has heard of: it refuses pushes by an older one',
  }),
  trouble: nullable('string', { description: 'why it does not answer; null: it does' }),
});
const params = closed({ id: Type.String({ description: 'of the shard' }) });

export function shardRoutes(api: Api, { role }: ApiContext): void {
  const { registry } = role;

  const shards = (): Shards => {
    if (role.shards === undefined)
      throw new DqError('no_shards', 'the jobs are in the embedded store; shards need `redis`');
    return { registry, ...role.shards };
  };

  /** As the registry has them now, not as this process does: who has changed them wants to see that. */
  const itemOf = async ({ servers }: Shards, shard: ShardRecord) => {
    const { id, url, active, buckets, addedAt } = shard;
    const state = active ? 'active' : 'draining';
    const facts = { id, url: servers.nameOf(url), state, buckets, addedAt: formatInstant(addedAt) };
    try {
      return { ...facts, ...(await servers.holds(id)), trouble: null };
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return {
        ...facts,
        jobs: null,
        alerts: null,
        list: null,
        trouble: `does not answer (${error.failure.code})`,
      };
    }
  };
  const one = async (id: string) => {
    const all = shards();
    return itemOf(all, known(all.servers.list, id));
  };

  api.get(
    '/v1/shards',
    {
      schema: {
        operationId: 'listShards',
        tags,
        summary: 'The Redis servers that jobs are spread over, by age',
        response: {
          200: reply(
            'all of them',
            closed({
              number: Type.Integer({
                description: 'of the list; rises whenever one begins or ceases to take ids',
              }),
              items: Type.Array(Shard),
            }),
          ),
          ...problems(409, 503),
        },
      },
      config: { access: { scope: 'read', topics: 'every' } },
    },
    async () => {
      const all = shards();
      await all.refresh();
      const { number, shards: records } = all.servers.list;
      return { number, items: await Promise.all(records.map((record) => itemOf(all, record))) };
    },
  );

  api.post(
    '/v1/shards',
    {
      schema: {
        operationId: 'addShard',
        tags,
        summary: 'Add a server, tell another address of one, or have one that drains take ids again',
        body: closed({
          url: Type.String({ description: 'as in the option redis' }),
          buckets: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: apiLimits.shardBucketsMax,
              description: 'parts of it, fixed for ever; when not given 1, and 32 on a Cluster',
            }),
          ),
        }),
        response: { 201: reply('the shard', Shard), ...problems(409, 413, 415, 503) },
      },
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (request, answer) => {
      const { url, buckets } = request.body;
      const all = shards();
      const parsed = parseRedisUrl(url);
      if (!parsed.ok) throw invalidField('url', parsed.message);
      const { id } = await addShard(all, url, buckets ?? all.servers.bucketsOf(url));
      return answer.code(201).send(await one(id));
    },
  );

  api.post(
    '/v1/shards/:id/drain',
    {
      schema: {
        operationId: 'drainShard',
        tags,
        summary: 'No new ids from now on; what it holds is served',
        params,
        response: { 200: reply('the shard', Shard), ...problems(404, 409, 413, 503) },
      },
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (request) => {
      await drainShard(shards(), request.params.id);
      return one(request.params.id);
    },
  );

  api.delete(
    '/v1/shards/:id',
    {
      schema: {
        operationId: 'removeShard',
        tags,
        summary: 'Remove a shard that drains and is empty, or one that is lost',
        params,
        querystring: closed({
          jobs: Type.Optional(
            Type.Enum(['lost'], {
              description:
                'it may be one that does not answer; what it holds is not delivered unless it is added again',
            }),
          ),
        }),
        response: {
          200: reply('removed', closed({ deleted: Type.Literal(true) })),
          ...problems(404, 409, 413, 503),
        },
      },
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (request) => {
      const { id } = request.params;
      const { lost } = await removeShard(shards(), id, request.query.jobs === 'lost');
      if (lost !== null)
        role.log.error(
          'a shard was removed as lost: what it holds is not delivered, also when it comes back, unless dq shard add brings it back',
          undefined,
          { shard: id, redis: lost },
        );
      return { deleted: true };
    },
  );
}
