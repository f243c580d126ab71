// GET /v1/store shows how the job store is doing: durability, files and disk of the embedded store, or each
// Redis. Its reply is kept for contractLimits.storeFactsMs, so that many viewers cost as much as one. A
// silent store or shard is reported as such; the last values of a silent shard stay.

import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { journalModeOf } from '../../config/options.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import {
  type EmbeddedStoreJson,
  type ShardInfoJson,
  type StoreJson,
  storeSchema,
} from '../../contract/api/store.ts';
import { durabilityOf, type JournalMode } from '../../core/durability.ts';
import { formatInstant } from '../../core/duration.ts';
import type { ShardRecord } from '../../core/shard-list.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import type { StoreHealth } from '../../ports/job-store.ts';
import type { ShardServers } from '../../ports/shard-servers.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow, wallNow } from '../../runtime/time.ts';
import { within } from '../../runtime/timeout.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';
import { shardJson, silentShard } from './shard-routes.ts';

export function storeRoute(api: Api, { role }: ApiContext): void {
  const infos = new Map<string, ShardInfoJson>();
  let kept: { readonly at: number; readonly state: Promise<StoreJson> } | null = null;
  api.get('/v1/store', { schema: storeSchema, config: needs('read', 'every') }, () => {
    const now = monotonicNow();
    if (kept === null || now - kept.at >= contractLimits.storeFactsMs)
      kept = { at: now, state: stateOf(role, infos) };
    return kept.state;
  });
}

/** Never rejects with a StoreError, and is ready within about apiLimits.readyMs. */
async function stateOf(role: RoleContext, infos: Map<string, ShardInfoJson>): Promise<StoreJson> {
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
export async function inTime<T>(work: Promise<T>): Promise<T | null> {
  const late = () => new StoreError({ kind: 'not_stored', code: 'no_answer' });
  try {
    return await within(apiLimits.readyMs, work, late);
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}

async function filesOf(dataDir: string): Promise<Omit<EmbeddedStoreJson, 'fsyncP99Ms'> | null> {
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
  infos: Map<string, ShardInfoJson>,
  journal: JournalMode,
) {
  const { id } = shard;
  const [facts, info] = await Promise.all([inTime(shardJson(servers, shard)), inTime(servers.info(id))]);
  if (info !== null) {
    const durability = durabilityOf(info.durability, journal);
    infos.set(id, { ...info, durability, readAt: formatInstant(wallNow()) });
  }
  const known = facts ?? silentShard(servers, shard, 'does not answer');
  return { ...known, info: infos.get(id) ?? null };
}
