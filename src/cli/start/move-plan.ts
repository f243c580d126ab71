// Finds what `dq move` would do: what registry.db and jobs.db hold, and whether their targets can take it.
// Reads the files, MySQL and Redis itself, and changes nothing.

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/options.ts';
import { messageOf } from '../../core/errors.ts';
import { type RegistryCounts, registryText } from '../../core/left-behind.ts';
import { limits } from '../../core/limits.ts';
import { redisAddress } from '../../core/url/redis-url.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { moveTargetOf, readMoveNote, whyNotInto } from '../../registry/sql/move-registry.ts';
import { kyselyOverMysql } from '../../registry/sql/mysql/mysql-engine.ts';
import { MysqlConnections } from '../../registry/sql/mysql/mysql-pool.ts';
import type { RegistrySchema } from '../../registry/sql/schema/registry-schema.ts';
import { countContent } from '../../registry/sql/sqlite/registry-file.ts';
import { within } from '../../runtime/timeout.ts';
import { beginToConnect, closeClient, createClient } from '../../store/redis/client/connection.ts';
import { redisLimits } from '../../store/redis/limits.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';

export interface PartPlan {
  /** does this part move? */
  readonly moves: boolean;
  /** for people */
  readonly line: string;
  /** why it cannot; null: it can */
  readonly refused: string | null;
}

const stays = (line: string): PartPlan => ({ moves: false, line, refused: null });

/** `hasMysql`: its MySQL is in force already, and content there is not an obstacle. */
export async function planRegistry(config: Config, hasMysql: boolean): Promise<PartPlan> {
  const { dataDir } = config;
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) return stays('stays in registry.db, because `mysql.url` is not set');
  const path = join(dataDir, 'registry.db');
  const place = placeOf(server.value);
  if (!existsSync(path)) return stays(`is in MySQL ${place}; there is no registry.db`);
  const held = countedIn(path);
  const connections = new MysqlConnections(server.value);
  try {
    const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
    const target = await moveTargetOf(db, place, readMoveNote(dataDir));
    const filled = target.topics + target.tokens + target.schedules > 0;
    if (hasMysql && !target.isOurs)
      return stays(
        `is in MySQL ${place} (${registryText(target)}); registry.db (${registryText(held)}) is not in force: move it away`,
      );
    const into = filled ? (target.isOurs ? 'an earlier copy' : registryText(target)) : 'empty';
    return {
      moves: true,
      line: `${registryText(held)}: registry.db → MySQL ${place} (${into})`,
      refused: whyNotInto(target, place),
    };
  } catch (error) {
    throw new Exit('storeUnreachable', `registry: MySQL ${place}: ${messageOf(error)}`, { cause: error });
  } finally {
    await connections.close();
  }
}

function countedIn(path: string): RegistryCounts {
  try {
    return countContent(path);
  } catch (error) {
    throw new Exit('failed', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** `jobs`: in jobs.db */
export async function planJobs({ redis, dataDir }: Config, jobs: number): Promise<PartPlan> {
  if (redis.length === 0) return stays(`${jobs} stay in jobs.db, because \`redis\` is not set`);
  if (jobs === 0) return stays('jobs.db holds none');
  const bytes = statSync(join(dataDir, 'jobs.db'), { throwIfNoEntry: false })?.size ?? 0;
  const needed = Math.max(0, bytes - cliLimits.jobsFileLeastBytes) + jobs * cliLimits.redisJobBytes;
  const names = redis.map((url) => redisAddress(url).shown).join(', ');
  const free = await freeOf(redis);
  const room = free === null ? 'no limit is set' : `${sizeText(free)} free`;
  return {
    moves: true,
    line: `${jobs}: jobs.db → ${names} (needs about ${sizeText(needed)}, ${room})`,
    refused:
      free === null || free >= needed
        ? null
        : `redis: ${names} has ${sizeText(free)} free, the jobs need about ${sizeText(needed)}; raise maxmemory`,
  };
}

/** Bytes that all servers together may still use; null: one of them has no limit. */
async function freeOf(urls: readonly string[]): Promise<number | null> {
  const free = await Promise.all(urls.map(freeOn));
  return free.includes(null) ? null : (free as number[]).reduce((sum, one) => sum + one, 0);
}

async function freeOn(url: string): Promise<number | null> {
  let last: unknown = null;
  const client = createClient(url, 'dq-move', {
    onReady() {},
    onLost() {},
    onError(error) {
      last = error;
    },
    onEnd() {},
  });
  try {
    const late = () => new Error('no answer');
    await beginToConnect(client);
    const info = String(await within(limits.redisCallMs, client.call('INFO', 'memory'), late));
    const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
    const most = field('maxmemory');
    // Above this share the move waits.
    return most === 0 ? null : Math.max(0, most * redisLimits.nearlyFullShare - field('used_memory'));
  } catch (error) {
    const { shown } = redisAddress(url);
    throw new Exit('storeUnreachable', `redis: ${shown}: ${messageOf(last ?? error)}`, { cause: error });
  } finally {
    await closeClient(client, limits.redisCloseMs);
  }
}

function sizeText(bytes: number): string {
  const mebi = bytes / 1024 ** 2;
  return mebi < 1_024 ? `${Math.ceil(mebi)} MiB` : `${(mebi / 1_024).toFixed(1)} GiB`;
}
