// /v1/shards: list, add, drain and remove the Redis servers that hold the jobs. use-cases/change-shards.ts
// defines the effects.

import type { ShardJson } from '../../contract/api/shard.ts';
import {
  addShardSchema,
  drainShardSchema,
  listShardsSchema,
  removeShardSchema,
} from '../../contract/api/shard.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { ShardRecord } from '../../core/shard-list.ts';
import { parseRedisUrl } from '../../core/url/redis-url.ts';
import type { ShardServers } from '../../ports/shard-servers.ts';
import { StoreError } from '../../ports/store-error.ts';
import { addShard, drainShard, knownShard, removeShard, type Shards } from '../../use-cases/change-shards.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { needs } from '../http/route-access.ts';

export function shardRoutes(api: Api, { role }: ApiContext): void {
  const { registry } = role;
  const admin = needs('admin', 'every');

  const shards = (): Shards => {
    if (role.shards === undefined)
      throw new DqError(
        'no_shards',
        'shards: the jobs are in the embedded store; shards need the option redis',
      );
    return { registry, ...role.shards, journal: role.journal?.db };
  };

  api.get('/v1/shards', { schema: listShardsSchema, config: needs('read', 'every') }, async () => {
    const all = shards();
    await all.refresh();
    const { number, shards: records } = all.servers.list;
    return { number, items: await Promise.all(records.map((record) => shardJson(all.servers, record))) };
  });

  api.post('/v1/shards', { schema: addShardSchema, config: admin }, async (request, answer) => {
    const { url, buckets } = request.body;
    const all = shards();
    const parsed = parseRedisUrl(url);
    if (!parsed.ok) throw invalidField('url', parsed.message);
    auditNote(request, { detail: { filter: { url: all.servers.nameOf(url) } } });
    const { id } = await addShard(all, url, buckets ?? all.servers.bucketsOf(url));
    return answer.code(201).send(await shardJson(all.servers, knownShard(all.servers.list, id)));
  });

  api.post('/v1/shards/:id/drain', { schema: drainShardSchema, config: admin }, async (request) => {
    const { id } = request.params;
    const all = shards();
    await drainShard(all, id);
    return shardJson(all.servers, knownShard(all.servers.list, id));
  });

  api.delete('/v1/shards/:id', { schema: removeShardSchema, config: admin }, async (request) => {
    const { id } = request.params;
    const { lost } = await removeShard(shards(), id, request.query.jobs === 'lost');
    if (lost !== null)
      role.log.error(
        role.journal === undefined
          ? 'a shard was removed as lost: dq delivers its jobs only after dq shard add adds it again'
          : 'a shard was removed as lost: dq restores its jobs from the journal on the other shards',
        undefined,
        { shard: id, redis: lost },
      );
    return { deleted: true, restores: lost !== null && role.journal !== undefined };
  });
}

/** Of a server without an answer. */
export const silentShard = (
  servers: ShardServers,
  { id, url, active, buckets, addedAt }: ShardRecord,
  trouble: string,
): ShardJson => ({
  id,
  url: servers.nameOf(url),
  state: active ? 'active' : 'draining',
  buckets,
  addedAt: formatInstant(addedAt),
  jobs: null,
  alerts: null,
  list: null,
  trouble,
});

/** Jobs and alerts as the server answers now, not as this process last saw them. */
export async function shardJson(servers: ShardServers, shard: ShardRecord): Promise<ShardJson> {
  const { id } = shard;
  const [held, trouble] = await Promise.all([orFailure(servers.holds(id)), orFailure(servers.trouble(id))]);
  if (held instanceof StoreError) {
    // It works again, or is not open yet.
    const why = typeof trouble === 'string' ? trouble : `does not answer (${held.failure.code})`;
    return silentShard(servers, shard, why);
  }
  const { jobs, alerts, list } = held;
  const wrong = trouble instanceof StoreError ? null : trouble;
  return { ...silentShard(servers, shard, ''), jobs, alerts, list, trouble: wrong };
}

async function orFailure<T>(call: Promise<T>): Promise<T | StoreError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
}
