// Checks the Redis servers of the configuration: reachable, new enough, rights, durability, clock, owner.
// Changes nothing: it writes no marker.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, journalModeOf } from '../config/options.ts';
import { durabilityOf, type JournalMode } from '../core/durability.ts';
import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { redisAddress } from '../core/url/redis-url.ts';
import { askAndForget, openDatabase } from '../runtime/database.ts';
import { monotonicNow } from '../runtime/time.ts';
import { within } from '../runtime/timeout.ts';
import { ClockWarnings, clocksOf } from '../store/redis/client/clocks.ts';
import {
  beginToConnect,
  type Client,
  closeClient,
  createClient,
  unreachedMasters,
} from '../store/redis/client/connection.ts';
import { readSettings, redisDurabilityOf, settingNames } from '../store/redis/client/durability.ts';
import { rightsOf } from '../store/redis/client/rights.ts';
import { prefixOf } from '../store/redis/scripts/keys.ts';
import { ofAnotherRegistry, readMarker } from '../store/redis/scripts/marker.ts';
import { whyTooOld } from '../store/redis/shard/shard-servers.ts';
import { type Finding, of } from './finding.ts';
import { checkClockOf } from './journal.ts';

const finding = of('redis');

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
  const { shown, user } = redisAddress(url);
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
        ? finding('ok', `${shown} answers in ${ms} ms, version ${version}`)
        : finding('failed', `${shown}: ${tooOld}`),
      ...(await unreachedMasters(client, limits.redisCallMs)).map(({ message }) =>
        finding('failed', `${shown}: ${message}`),
      ),
      ...(await checkRights(client, shown, user)),
      ...(await checkDurability(client, shown, journal)),
      ...(await checkClocks(client, shown, journal !== 'off')),
      ofMarker(
        (await inTime(client.call('HGET', `${prefixOf(0)}:n`, 'marker'))) as string | null,
        shown,
        ours,
      ),
    ];
    return { findings, isReached: true };
  } catch (error) {
    return { findings: [finding('failed', `${shown}: ${messageOf(last ?? error)}`)], isReached: false };
  } finally {
    if (client !== null) await closeClient(client, limits.redisCloseMs);
  }
}

async function checkRights(client: Client, shown: string, user: string | null): Promise<Finding[]> {
  const { refusal, warnings } = await rightsOf((name, ...args) => inTime(client.call(name, ...args)), user);
  return [
    ...(refusal === null ? [] : [finding('failed', `${shown} ${refusal}`)]),
    ...warnings.map((warning) => finding('warning', `${shown} ${warning}`)),
  ];
}

async function checkDurability(client: Client, shown: string, journal: JournalMode): Promise<Finding[]> {
  let flat: string[];
  try {
    flat = (await inTime(client.call('CONFIG', 'GET', ...settingNames))) as string[];
  } catch (error) {
    return [finding('unknown', `${shown}: cannot read the persistence settings (${messageOf(error)})`)];
  }
  const { durability, warnings } = redisDurabilityOf(readSettings(flat));
  return [
    finding('ok', durabilityOf(durability, journal)),
    ...warnings.map((warning) => finding('warning', `${shown}: ${warning}`)),
  ];
}

async function checkClocks(client: Client, shown: string, journal: boolean): Promise<Finding[]> {
  const clocks = await inTime(clocksOf(client));
  const warnings = new ClockWarnings().of(shown, clocks);
  if (warnings.length === 0 && journal)
    return clocks.flatMap(({ node, aheadMs }) => checkClockOf(`Redis at ${node || shown}`, aheadMs));
  return warnings.map((warning) => finding('warning', warning));
}

function ofMarker(text: string | null, shown: string, ours: string | null): Finding {
  if (text === null) return finding('ok', `${shown} has no marker yet: the first start writes it`);
  const marker = readMarker(text);
  if (typeof marker === 'string') return finding('failed', `${shown} is not ours: ${marker}`);
  const { shardId, registryId } = marker;
  if (ours === null)
    return finding(
      'unknown',
      `${shown} belongs to the registry ${registryId}; the id of the own registry is unknown`,
    );
  return ours === registryId
    ? finding('ok', `${shown} belongs to this registry: shard ${shardId} of ${registryId}`)
    : finding('failed', `${shown} is not ours: ${ofAnotherRegistry(registryId, ours || 'new')}`);
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
