// The job store: how it is doing, its backup and its check, the move of the jobs of a jobs.db to Redis. Its
// shards: the Redis servers that hold the jobs.

import { Type } from 'typebox';
import { contractLimits } from './limits.ts';
import {
  closed,
  count,
  countOrNull,
  flag,
  instant,
  type JsonOf,
  numberOrNull,
  orNull,
  problems,
  type ReplyOf,
  reply,
  text,
  textOrNull,
  texts,
  yes,
} from './schema.ts';

const tags = ['operation'];

const work = {
  state: Type.Enum(['none', 'running', 'done', 'failed'], {
    description: 'none: not started since the store started; after running: lost by a restart of the store',
  }),
  startedAt: Type.Optional(instant('when it started')),
  endedAt: Type.Optional(instant('when it ended')),
  reason: Type.Optional(text('why it failed', '/backup exists already')),
};

const directory = text('absolute path of a directory that does not exist yet', '/backup/2030-01-01');

const Backup = closed(
  {
    ...work,
    directory: Type.Optional(
      text(
        'directory of the copy: jobs.db (jobs on Redis: not), registry.db (MySQL: not)',
        '/backup/2030-01-01',
      ),
    ),
    bytes: Type.Optional(count('size of the copy in bytes', 1_048_576)),
    notCopied: Type.Optional(text('what else to back up', 'the jobs are in Redis and not in this copy')),
  },
  { title: 'Backup' },
);
export type BackupJson = JsonOf<typeof Backup>;

const FsckProblem = closed(
  {
    invariant: text('invariant that does not hold', 'one_state'),
    what: text('what is wrong', 'jobs without a body'),
    count: count('how many', 1),
    examples: texts('some of them', ['order.close 4711']),
    awaits: Type.Optional(
      texts(
        'J1, J2: silent instances whose changes the journal lacks. They may explain it, so nothing is broken yet',
        ['instance 5f3a on vm-2'],
      ),
    ),
  },
  { title: 'FsckProblem' },
);

const Fsck = closed(
  {
    ...work,
    jobs: Type.Optional(count('jobs examined', 4711)),
    relinked: Type.Optional(count('entries that were put back into the keys that lost them; with relink', 3)),
    problems: Type.Optional(Type.Array(FsckProblem, { description: 'empty: all invariants hold' })),
  },
  { title: 'Fsck' },
);
export type FsckJson = JsonOf<typeof Fsck>;

export const startBackupSchema = {
  operationId: 'startBackup',
  tags,
  summary: 'Copy the current store and registry into a new directory of this machine',
  body: closed({ directory }),
  response: { 202: reply('started', Backup), ...problems(409, 413, 415, 503) },
};

export const backupSchema = {
  operationId: 'backup',
  tags,
  summary: 'The last backup',
  response: { 200: reply('its state', Backup), ...problems(503) },
};

export const startFsckSchema = {
  operationId: 'startFsck',
  tags,
  summary: "Check the store's invariants; changes nothing without relink",
  querystring: closed({
    relink: Type.Optional(
      Type.Enum(['true'], {
        description: 'Redis: before the check, put jobs back into keys that were lost, by their records',
      }),
    ),
  }),
  response: { 202: reply('started', Fsck), ...problems(409, 413, 503) },
};

export const fsckSchema = {
  operationId: 'fsck',
  tags,
  summary: 'The last check of the invariants',
  response: { 200: reply('its state', Fsck), ...problems(503) },
};

const EmbeddedStore = closed(
  {
    path: text('file of the jobs', '/var/lib/dq/jobs.db'),
    fileBytes: count('size of the file', 1_048_576),
    walBytes: count('size of its log', 4_194_304),
    freeBytes: count('free space of its disk', 1_073_741_824),
    diskBytes: count('size of its disk', 10_737_418_240),
    fsyncP99Ms: numberOrNull(
      '99 of 100 of the last commits took at most so long, fsync included; null: none yet',
      2.4,
    ),
  },
  { title: 'EmbeddedStore' },
);
export type EmbeddedStoreJson = JsonOf<typeof EmbeddedStore>;

const shardFields = {
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

const ShardInfo = closed(
  {
    version: text('version of Redis or Valkey', '7.2.5'),
    usedBytes: count('memory in use', 1_048_576),
    maxBytes: countOrNull('most memory that it may use; null: no limit', 4_294_967_296),
    eviction: textOrNull('maxmemory-policy; null: unreadable', 'noeviction'),
    persistence: Type.Enum(['always', 'everysec', 'no', 'snapshots', 'memory', 'unknown'], {
      description: 'appendfsync of its append-only file; `snapshots`, `memory`: it has none',
    }),
    durability: text('which failures its jobs survive', 'Redis, appendfsync everysec: …'),
    warnings: texts('dangerous settings'),
    clients: count('connections', 12),
    opsPerSecond: count('commands per second, of all clients', 840),
    latencyMs: Type.Number({ description: 'from INFO to its answer', examples: [0.3] }),
    nodes: count('masters that answered', 1),
    quarantined: count('records in quarantine', 0),
    readAt: instant('when it was read'),
  },
  { title: 'ShardInfo' },
);
export type ShardInfoJson = JsonOf<typeof ShardInfo>;

export const storeSchema = {
  operationId: 'store',
  tags,
  summary: 'How the job store is doing: durability, disk or servers',
  description: `Kept for ${contractLimits.storeFactsMs / 1_000} s.`,
  response: {
    200: reply(
      'the store',
      closed(
        {
          kind: Type.Enum(['embedded', 'redis'], { description: 'where the jobs are' }),
          ok: flag('it answers and accepts pushes', true),
          durability: textOrNull(
            'which failures stored jobs survive; null: the store does not answer',
            'an acknowledged push survives …',
          ),
          journal: Type.Enum(['off', 'sync'], { description: '`off`: there is no journal' }),
          warnings: texts('why it is not ok; dangerous settings'),
          quarantined: count('unreadable or ownerless records', 0),
          registry: text('where topics and tokens are: `embedded`, or the MySQL server', 'embedded'),
          embedded: orNull(EmbeddedStore, 'null: Redis, or unreadable'),
          list: countOrNull('number of the shard list; null: no shards'),
          shards: Type.Array(
            closed(
              {
                ...shardFields,
                info: orNull(ShardInfo, 'of the last answer; null: none yet'),
              },
              { title: 'ShardState' },
            ),
            { description: 'oldest first' },
          ),
          at: instant('when it was read'),
        },
        { title: 'StoreState' },
      ),
    ),
    ...problems(503),
  },
};
export type StoreJson = ReplyOf<typeof storeSchema>;

const Move = closed(
  {
    state: Type.Enum(['none', 'held', 'moving'], {
      description:
        '`none`: jobs.db has no jobs, or Redis is not in force · `held`: it has jobs, which dq does not deliver, and no move is open · `moving`: they move',
    }),
    jobs: count('jobs that jobs.db still has', 3_808_331),
    total: countOrNull('its jobs when the move began; null: none is open', 5_012_331),
    startedAt: textOrNull('when the move began; null: none is open', '2030-01-31T09:00:00.000Z'),
    problem: textOrNull('why the move waits; null: it does not, or none is open'),
  },
  { title: 'Move' },
);

export const moveSchema = {
  operationId: 'move',
  tags,
  summary: 'How far the jobs of jobs.db have moved to Redis',
  response: { 200: reply('the move of this instance', Move), ...problems(503) },
};
export type MoveJson = ReplyOf<typeof moveSchema>;

export const beginMoveSchema = {
  operationId: 'beginMove',
  tags,
  summary: 'Moves the jobs of jobs.db to Redis',
  description:
    'The jobs of a jobs.db that was in force before Redis. They are delivered from Redis as soon as they are there; leases of pull clients go on. The move survives every process and has no stop. A repeat changes nothing.',
  response: { 202: reply('the move has begun, or goes on', Move), ...problems(503) },
};

const params = closed({ id: text('id of the shard', '0f1e2d3c4b5a6978') });

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
