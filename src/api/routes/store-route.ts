// GET /v1/store shows how the job store is doing: durability, files and disk of the embedded store, or each
// Redis. Its reply is kept for apiLimits.storeFactsMs, so that many viewers cost as much as one. A silent
// store or shard is reported as such; the last values of a silent shard stay.

import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { Type } from 'typebox';
import { journalModeOf } from '../../config/options.ts';
import { durabilityOf, type JournalMode } from '../../core/durability.ts';
import { formatInstant } from '../../core/duration.ts';
import type { ShardRecord } from '../../core/shard-list.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/mysql-url.ts';
import type { StoreHealth } from '../../ports/job-store.ts';
import type { ShardInfo, ShardServers } from '../../ports/shard-servers.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow, wallNow } from '../../runtime/time.ts';
import { within } from '../../runtime/timeout.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, count, instant, nullable, problems, reply, text } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import { type ShardFacts, shardFields, shardJson } from './shard-routes.ts';

const Embedded = closed(
  {
    path: text('file of the jobs', '/var/lib/dq/jobs.db'),
    fileBytes: count('size of the file', 1_048_576),
    walBytes: count('size of its log', 4_194_304),
    freeBytes: count('free space of its disk', 1_073_741_824),
    diskBytes: count('size of its disk', 10_737_418_240),
    fsyncP99Ms: nullable('number', {
      description: '99 of 100 of the last commits took at most so long, fsync included; null: none yet',
      examples: [2.4],
    }),
  },
  { title: 'EmbeddedStore' },
);
const Info = closed(
  {
    version: text('version of Redis or Valkey', '7.2.5'),
    usedBytes: count('memory in use', 1_048_576),
    maxBytes: nullable('integer', {
      description: 'most memory that it may use; null: no limit',
      examples: [4_294_967_296],
    }),
    eviction: nullable('string', {
      description: 'maxmemory-policy; null: unreadable',
      examples: ['noeviction'],
    }),
    persistence: Type.Enum(['always', 'everysec', 'no', 'snapshots', 'memory', 'unknown'], {
      description: 'appendfsync of its append-only file; `snapshots`, `memory`: it has none',
    }),
    durability: text('which failures its jobs survive', 'Redis, appendfsync everysec: …'),
    warnings: Type.Array(Type.String(), { description: 'dangerous settings', examples: [[]] }),
    clients: count('connections', 12),
    opsPerSecond: count('commands per second, of all clients', 840),
    latencyMs: Type.Number({ description: 'from INFO to its answer', examples: [0.3] }),
    nodes: count('masters that answered', 1),
    quarantined: count('records in quarantine', 0),
    readAt: instant('when it was read'),
  },
  { title: 'ShardInfo' },
);
const schema = {
  operationId: 'store',
  tags: ['operation'],
  summary: 'How the job store is doing: durability, disk or servers',
  description: `Kept for ${apiLimits.storeFactsMs / 1_000} s.`,
  response: {
    200: reply(
      'the store',
      closed(
        {
          kind: Type.Enum(['embedded', 'redis'], { description: 'where the jobs are' }),
          ok: Type.Boolean({ description: 'it answers and accepts pushes', examples: [true] }),
          durability: nullable('string', {
            description: 'which failures stored jobs survive; null: the store does not answer',
            examples: ['an acknowledged push survives …'],
          }),
          journal: Type.Enum(['off', 'sync'], { description: '`off`: there is no journal' }),
          warnings: Type.Array(Type.String(), {
            description: 'why it is not ok; dangerous settings',
            examples: [[]],
          }),
          quarantined: count('unreadable or ownerless records', 0),
          registry: text('where topics and tokens are: `embedded`, or the MySQL server', 'embedded'),
          embedded: Type.Union([Type.Null(), Embedded], {
            description: 'null: Redis, or unreadable',
            examples: [null],
          }),
          list: nullable('integer', {
            description: 'number of the shard list; null: no shards',
            examples: [null],
          }),
          shards: Type.Array(
            closed(
              {
                ...shardFields,
                info: Type.Union([Type.Null(), Info], {
                  description: 'of the last answer; null: none yet',
                  examples: [null],
                }),
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

type KeptInfo = ShardInfo & { readonly readAt: string };

export function storeRoute(api: Api, { role }: ApiContext): void {
  const infos = new Map<string, KeptInfo>();
  let kept: { readonly at: number; readonly state: Promise<object> } | null = null;
  api.get('/v1/store', { schema, config: { access: { scope: 'read', topics: 'every' } } }, () => {
    const now = monotonicNow();
    if (kept === null || now - kept.at >= apiLimits.storeFactsMs)
      kept = { at: now, state: stateOf(role, infos) };
    return kept.state;
  });
}

/** Never rejects with a StoreError, and is ready within about apiLimits.readyMs. */
async function stateOf(role: RoleContext, infos: Map<string, KeptInfo>): Promise<object> {
  const { config, store, shards } = role;
  const mysql = parseMysqlUrl(config['mysql.url']);
  const common = {
    registry: mysql.ok ? `MySQL ${placeOf(mysql.value)}` : 'embedded',
    journal: journalModeOf(config),
    at: formatInstant(role.clock.now()),
  };
  if (shards === undefined) {
    const [health, files] = await Promise.all([inTime(store.admin.health()), filesOf(config.dataDir)]);
    const { ok, durability, warnings, quarantined = 0, commitP99Ms = null } = health ?? silentStore;
    const embedded = files === null ? null : { ...files, fsyncP99Ms: commitP99Ms };
    return {
      kind: 'embedded',
      ok,
      durability,
      warnings,
      quarantined,
      embedded,
      list: null,
      shards: [],
      ...common,
    };
  }
  const { list } = shards.servers;
  for (const id of infos.keys()) if (!list.shards.some((shard) => shard.id === id)) infos.delete(id);
  const states = await Promise.all(
    list.shards.map((shard) => shardState(shards.servers, shard, infos, common.journal)),
  );
  const unknown = store.jobs.whyUnknown?.() ?? null;
  const answering = states.flatMap(({ info, trouble }) => (info === null || trouble !== null ? [] : [info]));
  return {
    kind: 'redis',
    ok: answering.length > 0,
    durability: [...new Set(answering.map((info) => info.durability))].join('; ') || null,
    warnings: [
      ...(unknown === null ? [] : [unknown.why ?? unknown.code]),
      ...states.flatMap(({ url, trouble, info }) =>
        trouble === null
          ? (info?.warnings ?? []).map((text) => `${url}: ${text}`)
          : [`Redis at ${url} ${trouble}`],
      ),
    ],
    quarantined: answering.reduce((sum, one) => sum + one.quarantined, 0),
    embedded: null,
    list: list.number,
    shards: states,
    ...common,
  };
}

type Health = Pick<StoreHealth, 'ok' | 'warnings' | 'quarantined' | 'commitP99Ms'>;
const silentStore: Health & { readonly durability: null } = {
  ok: false,
  durability: null,
  warnings: ['the store does not answer'],
};

/** null = no answer in time, or a failure of the store. */
async function inTime<T>(work: Promise<T>): Promise<T | null> {
  const late = () => new StoreError({ kind: 'not_stored', code: 'no_answer' });
  try {
    return await within(apiLimits.readyMs, work, late);
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}

async function filesOf(dataDir: string): Promise<object | null> {
  const path = join(dataDir, 'jobs.db');
  try {
    const [file, wal, disk] = await Promise.all([
      stat(path),
      stat(`${path}-wal`).catch(() => ({ size: 0 })), // no log yet
      statfs(dataDir),
    ]);
    return {
      path,
      fileBytes: file.size,
      walBytes: wal.size,
      freeBytes: disk.bavail * disk.bsize,
      diskBytes: disk.blocks * disk.bsize,
    };
  } catch {
    return null; // being created; the health says what is wrong
  }
}

async function shardState(
  servers: ShardServers,
  shard: ShardRecord,
  infos: Map<string, KeptInfo>,
  journal: JournalMode,
) {
  const { id, url, active, buckets, addedAt } = shard;
  const [facts, info] = await Promise.all([inTime(shardJson({ servers }, shard)), inTime(servers.info(id))]);
  if (info !== null) {
    const durability = durabilityOf(info.durability, journal);
    infos.set(id, { ...info, durability, readAt: formatInstant(wallNow()) });
  }
  const silent: ShardFacts = {
    id,
    url: servers.nameOf(url),
    state: active ? 'active' : 'draining',
    buckets,
    addedAt: formatInstant(addedAt),
    jobs: null,
    alerts: null,
    list: null,
    trouble: 'does not answer',
  };
  return { ...(facts ?? silent), info: infos.get(id) ?? null };
}
