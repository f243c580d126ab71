// Checks the Redis servers of the configuration: reachable, new enough, rights, durability, clock, owner.
// Changes nothing: it writes no marker.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, journalModeOf } from '../config/options.ts';
import { durabilityOf, type JournalMode } from '../core/durability.ts';
import { messageOf } from '../core/errors.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { limits } from '../core/limits.ts';
import { redisAddress } from '../core/url/redis-url.ts';
import { askAndForget, openDatabase } from '../runtime/database.ts';
import { monotonicNow } from '../runtime/time.ts';
import { within } from '../runtime/timeout.ts';
import {
  beginToConnect,
  type Client,
  closeClient,
  createClient,
  unreachedMasters,
} from '../store/redis/client/connection.ts';
import { readSettings, redisDurabilityOf, settingNames } from '../store/redis/client/durability.ts';
import { rightsOf } from '../store/redis/client/rights.ts';
import { ClockWarnings, clocksOf } from '../store/redis/client/server-watch.ts';
import { ofAnotherRegistry, prefixOf, readMarker } from '../store/redis/scripts/keys.ts';
import { whyTooOld } from '../store/redis/shard/shard-servers.ts';
import { checkClockOf } from './journal.ts';

const finding = findingsOf('redis');

/** Empty without Redis. `registryId`: of MySQL, '' = none yet, null = unknown. `isReached` false = one server
 *  is unavailable. */
export async function checkRedis(
  config: Config,
  registryId: string | null,
): Promise<{ readonly findings: readonly Finding[]; readonly isReached: boolean }> {
  const ours = config['mysql.url'] === '' && config.redis.length > 0 ? embeddedId(config) : registryId;
  const checked = await Promise.all(config.redis.map((url) => checkServer(url, ours, journalModeOf(config))));
  return {
    findings: checked.flatMap(({ findings }) => findings),
    isReached: checked.every(({ isReached }) => isReached),
  };
}

async function checkServer(url: string, ours: string | null, journal: JournalMode) {
  const { shown: server, user } = redisAddress(url);
  let client: Client | null = null;
  let last: unknown;
  try {
    client = createClient(url, 'dq-doctor', {
      onReady: () => {},
      onLost: () => {},
      onError: (error) => {
        last = error;
      },
      onEnd: () => {},
    });
    const from = monotonicNow();
    await beginToConnect(client);
    const info = String(await inTime(client.call('INFO', 'server')));
    const ms = Math.ceil(monotonicNow() - from);
    const tooOld = whyTooOld(info);
    const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown';
    const findings = [
      tooOld === null
        ? finding('ok', 'redis_ok', { server, ms, version })
        : finding('failed', 'redis_old', { server, why: tooOld }),
      ...(await unreachedMasters(client, limits.redisCallMs)).map(({ message }) =>
        finding('failed', 'redis_failed', { server, why: message }),
      ),
      ...(await checkRights(client, server, user)),
      ...(await checkDurability(client, server, journal)),
      ...(await checkClocks(client, server, journal !== 'off')),
      ofMarker(
        (await inTime(client.call('HGET', `${prefixOf(0)}:n`, 'marker'))) as string | null,
        server,
        ours,
      ),
    ];
    return { findings, isReached: true };
  } catch (error) {
    return {
      findings: [finding('failed', 'redis_failed', { server, why: messageOf(last ?? error) })],
      isReached: false,
    };
  } finally {
    if (client !== null) await closeClient(client, limits.redisCloseMs);
  }
}

async function checkRights(client: Client, server: string, user: string | null): Promise<Finding[]> {
  const { refusal, warnings } = await rightsOf((name, ...args) => inTime(client.call(name, ...args)), user);
  return [
    ...(refusal === null ? [] : [finding('failed', 'redis_rights', { server, why: refusal })]),
    ...warnings.map((warning) => finding('warning', 'redis_rights', { server, why: warning })),
  ];
}

async function checkDurability(client: Client, server: string, journal: JournalMode): Promise<Finding[]> {
  let flat: string[];
  try {
    flat = (await inTime(client.call('CONFIG', 'GET', ...settingNames))) as string[];
  } catch (error) {
    return [finding('unknown', 'redis_settings_unknown', { server, why: messageOf(error) })];
  }
  const { durability, warnings } = redisDurabilityOf(readSettings(flat));
  return [
    finding('ok', 'durability', { durability: durabilityOf(durability, journal) }),
    ...warnings.map((warning) => finding('warning', 'redis_settings', { server, warning })),
  ];
}

async function checkClocks(client: Client, server: string, journal: boolean): Promise<Finding[]> {
  const clocks = await inTime(clocksOf(client));
  const warnings = new ClockWarnings().of(server, clocks);
  if (warnings.length === 0 && journal)
    return clocks.flatMap(({ node, aheadMs }) => checkClockOf(`Redis at ${node || server}`, aheadMs));
  return warnings.map((warning) => finding('warning', 'redis_clock', { warning }));
}

function ofMarker(text: string | null, server: string, ours: string | null): Finding {
  if (text === null) return finding('ok', 'marker_none', { server });
  const marker = readMarker(text);
  if (typeof marker === 'string') return finding('failed', 'marker_wrong', { server, why: marker });
  const { shardId, registryId } = marker;
  if (ours === null) return finding('unknown', 'marker_unknown', { server, registry: registryId });
  return ours === registryId
    ? finding('ok', 'marker_ok', { server, shard: shardId, registry: registryId })
    : finding('failed', 'marker_wrong', { server, why: ofAnotherRegistry(registryId, ours || 'new') });
}

/** null = cannot read registry.db; the check of the store reports the reason. */
function embeddedId({ dataDir }: Config): string | null {
  const path = join(dataDir, 'registry.db');
  if (!existsSync(path)) return '';
  try {
    const db = openDatabase(path, { readOnly: true, waitMs: limits.registryBusyMs });
    try {
      return String(askAndForget(db, 'id', 'registry_id') ?? '');
    } finally {
      db.close();
    }
  } catch {
    return null;
  }
}

function inTime<T>(answer: Promise<T>): Promise<T> {
  return within(limits.redisCallMs, answer, () => new Error('no answer'));
}
