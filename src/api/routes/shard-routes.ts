// /v1/shards: list, add, drain and remove the Redis servers that hold the jobs. use-cases/change-shards.ts
// defines the effects.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { ShardRecord } from '../../core/shard-list.ts';
import { parseRedisUrl } from '../../core/url/redis-url.ts';
import { StoreError } from '../../ports/store-error.ts';
import { addShard, drainShard, known, removeShard, type Shards } from '../../use-cases/change-shards.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { closed, count, instant, nullable, problems, reply, text, yes } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';

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
  jobs: nullable('integer', {
    description: 'jobs in any state; null: it does not answer',
    examples: [4711],
  }),
  alerts: nullable('integer', {
    description: 'alerts not yet sent; null: it does not answer',
    examples: [0],
  }),
  list: nullable('integer', {
    description: 'newest shard list that it has seen: it rejects pushes by an older one',
    examples: [2],
  }),
  trouble: nullable('string', {
    description: 'why it does not work or rejects pushes, as in /readyz; null: it works',
    examples: [null],
  }),
};
const Shard = closed(shardFields, { title: 'Shard' });
const params = closed({ id: ShardId });

const listSchema = {
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
const addSchema = {
  operationId: 'addShard',
  tags,
  summary: 'Add a shard, change the address of one, or end its draining',
  body: closed({
    url: text('address as in the option redis', 'redis://10.0.0.5:6379/0'),
    buckets: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: apiLimits.shardBucketsMax,
        description: 'number of buckets, never changed later; default: 1, on a Cluster 32',
        examples: [1],
      }),
    ),
  }),
  response: { 201: reply('the shard', Shard), ...problems(409, 413, 415, 503) },
};
const drainSchema = {
  operationId: 'drainShard',
  tags,
  summary: 'Place no new ids on a shard; dq serves its jobs',
  params,
  response: { 200: reply('the shard', Shard), ...problems(404, 409, 413, 503) },
};
const removeSchema = {
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
        restores: Type.Boolean({
          description: 'dq restores its jobs from the journal',
          examples: [false],
        }),
      }),
    ),
    ...problems(404, 409, 413, 503),
  },
};

export function shardRoutes(api: Api, { role }: ApiContext): void {
  const { registry } = role;
  const admin = { access: { scope: 'admin', topics: 'every' } } as const;

  const shards = (): Shards => {
    if (role.shards === undefined)
      throw new DqError(
        'no_shards',
        'shards: the jobs are in the embedded store; shards need the option redis',
      );
    return { registry, ...role.shards, journal: role.journal?.db };
  };

  api.get(
    '/v1/shards',
    { schema: listSchema, config: { access: { scope: 'read', topics: 'every' } } },
    async () => {
      const all = shards();
      await all.refresh();
      const { number, shards: records } = all.servers.list;
      return { number, items: await Promise.all(records.map((record) => shardJson(all, record))) };
    },
  );

  api.post('/v1/shards', { schema: addSchema, config: admin }, async (request, answer) => {
    const { url, buckets } = request.body;
    const all = shards();
    const parsed = parseRedisUrl(url);
    if (!parsed.ok) throw invalidField('url', parsed.message);
    auditNote(request, { detail: { filter: { url: all.servers.nameOf(url) } } });
    const { id } = await addShard(all, url, buckets ?? all.servers.bucketsOf(url));
    return answer.code(201).send(await shardJson(all, known(all.servers.list, id)));
  });

  api.post('/v1/shards/:id/drain', { schema: drainSchema, config: admin }, async (request) => {
    const { id } = request.params;
    const all = shards();
    await drainShard(all, id);
    return shardJson(all, known(all.servers.list, id));
  });

  api.delete('/v1/shards/:id', { schema: removeSchema, config: admin }, async (request) => {
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

/** A shard as the API shows it. */
export interface ShardFacts {
  readonly id: string;
  readonly url: string;
  readonly state: 'active' | 'draining';
  readonly buckets: number;
  readonly addedAt: string;
  /** null: it does not answer */
  readonly jobs: number | null;
  readonly alerts: number | null;
  readonly list: number | null;
  /** null: it works */
  readonly trouble: string | null;
}

/** Jobs and alerts as the server answers now, not as this process last saw them. */
export async function shardJson(
  { servers }: Pick<Shards, 'servers'>,
  shard: ShardRecord,
): Promise<ShardFacts> {
  const { id, url, active, buckets, addedAt } = shard;
  const state = active ? ('active' as const) : ('draining' as const);
  const facts = { id, url: servers.nameOf(url), state, buckets, addedAt: formatInstant(addedAt) };
  const [held, trouble] = await Promise.all([orFailure(servers.holds(id)), orFailure(servers.trouble(id))]);
  if (held instanceof StoreError) {
    // It works again, or is not open yet.
    const why = typeof trouble === 'string' ? trouble : `does not answer (${held.failure.code})`;
    return { ...facts, jobs: null, alerts: null, list: null, trouble: why };
  }
  return { ...facts, ...held, trouble: trouble instanceof StoreError ? null : trouble };
}

async function orFailure<T>(call: Promise<T>): Promise<T | StoreError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
}
