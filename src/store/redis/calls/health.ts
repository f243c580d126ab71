// What dq says about a Redis server to people: health, what is wrong, how it is doing. Writes nothing.

import { inBatches } from '../../../core/lists.ts';
import { uncheckedSentence } from '../../../core/url/redis-url.ts';
import type { StoreHealth } from '../../../ports/job-store.ts';
import type { ShardInfo } from '../../../ports/shard-servers.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
import {
  persistenceOf,
  readSettings,
  redisDurabilityOf,
  type ServerSettings,
  settingNames,
} from '../client/durability.ts';
import type { Shard } from '../shard/shard.ts';
import { exampleOf } from './examination.ts';

/** Ok while one shard works: jobs on the others wait, and each of those is named in the warnings.
 *  `whyUnknown`: why there are no members */
export async function healthOfAll(
  members: readonly Shard[],
  whyUnknown: StoreFailure | null,
): Promise<StoreHealth> {
  if (whyUnknown !== null)
    return { ok: false, ...redisDurabilityOf(null), warnings: [whyUnknown.why ?? whyUnknown.code] };
  const healths = await Promise.all(members.map(healthOf));
  const first = healths[0] as StoreHealth;
  if (healths.length === 1) return first;
  const sentences = [...new Set(healths.filter(({ ok }) => ok).map(({ durability }) => durability))];
  return {
    ok: healths.some(({ ok }) => ok),
    durability: sentences.join('; ') || first.durability,
    // The warning of a failed shard contains its name; other warnings get it here.
    warnings: healths.flatMap(({ ok, warnings }, i) =>
      ok ? warnings.map((warning) => `${members[i]?.name}: ${warning}`) : warnings,
    ),
    servers: healths.flatMap(({ servers }) => servers ?? []),
    quarantined: healths.reduce((sum, { quarantined = 0 }) => sum + quarantined, 0),
  };
}

async function healthOf(shard: Shard): Promise<StoreHealth> {
  const trouble = await troubleOf(shard);
  const { name } = shard;
  const servers = [{ name, trouble }];
  if (trouble !== null) {
    const warnings = [`Redis at ${name} ${withErrorText(shard, trouble)}`];
    return { ok: false, ...redisDurabilityOf(null), warnings, servers };
  }
  const { count, warnings: ofQuarantine } = await quarantineOf(shard).catch(noneKnown);
  const { durability, warnings: ofSettings } = redisDurabilityOf(await settingsOf(shard));
  const ofClocks = await shard.clockWarnings();
  const ofTls = shard.verifiesTls ? [] : [uncheckedSentence(name)];
  const warnings = [...ofSettings, ...ofQuarantine, ...ofClocks, ...ofTls];
  return { ok: true, durability, warnings, servers, quarantined: count };
}

/** The end of a sentence about the server, as healthOf says it; null = the shard works and accepts pushes. */
export async function whyNotWorking(shard: Shard): Promise<string | null> {
  const trouble = await troubleOf(shard);
  return trouble === null ? null : withErrorText(shard, trouble);
}

/** The error text is not part of the incident key. */
const withErrorText = ({ server: { errorText } }: Shard, trouble: string): string =>
  errorText === null ? trouble : `${trouble}: ${errorText}`;

/** The shard became unavailable meanwhile: the next health check reports it. */
function noneKnown(error: unknown): Awaited<ReturnType<typeof quarantineOf>> {
  if (error instanceof StoreError) return { count: 0, warnings: [] };
  throw error;
}

const troubles: Readonly<Record<string, string>> = {
  redis_away: 'cannot be reached',
  redis_no_answer: 'does not answer',
  redis_full: 'is full and rejects pushes; deliveries continue',
  redis_read_only: 'is read-only: it follows another server',
  redis_no_replicas: 'has too few replicas to accept writes',
  redis_cannot_write: 'cannot write to its disk and rejects writes',
  redis_loading: 'is loading its data',
  redis_cluster_down: 'is a Cluster that is down',
  redis_master_down: 'is a replica that has lost its master',
  redis_too_many_clients: 'has no free connection: raise its maxclients',
  redis_no_database: 'has no database with the number of its address',
  redis_set_up: 'rejects the set-up of a connection',
  redis_unsupported: 'does not support a command that dq needs',
  redis_unknown_reply: 'answers with an error that dq does not know',
  redis_denied: 'rejects the user or password, or denies them a command',
  redis_busy: 'is blocked by a script of another program',
  foreign_marker: 'belongs to another store',
  registry_away: 'waits for the registry, whose id it needs',
  no_marker: 'has lost its jobs',
};

/** Runs requeue with no jobs: Redis rejects it whenever it would reject a push, and it changes nothing. */
async function troubleOf(shard: Shard): Promise<string | null> {
  try {
    // With the highest list number: a stale list of this process is not the server's failure.
    const newest = Number.MAX_SAFE_INTEGER;
    await Promise.all(shard.onePerNode().map((bucket) => shard.run('requeue', bucket, [], newest)));
    return null;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const { code } = error.failure;
    if (code === 'redis_denied' && shard.server.denial !== null) return shard.server.denial;
    return troubles[code] ?? `does not work (${code})`;
  }
}

/** null = unreadable: usually its user lacks the right to CONFIG. */
async function settingsOf(shard: Shard): Promise<ServerSettings | null> {
  try {
    return readSettings((await shard.command('CONFIG', 'GET', ...settingNames)) as string[]);
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}

/** The quarantined records of a shard (lua/shared/quarantine.lua), with some examples; one plain command
 *  while there are none. Rejects with StoreError. */
async function quarantineOf(
  shard: Shard,
): Promise<{ readonly count: number; readonly warnings: readonly string[] }> {
  const found = await Promise.all(
    shard.buckets.map(async (bucket) => {
      if (!(await shard.has(bucket, 'q'))) return { count: 0, examples: [] };
      const reply = await shard.run('countQuarantined', bucket, [storeLimits.fsckExamples]);
      const [count, ...names] = reply as [number, ...Buffer[]];
      const pairs = inBatches(names, 2) as readonly (readonly [topic: Buffer, tid: Buffer])[];
      return { count, examples: pairs.map(([topic, tid]) => exampleOf(topic, tid)) };
    }),
  );
  const count = found.reduce((sum, one) => sum + one.count, 0);
  const examples = found.flatMap((one) => one.examples).slice(0, storeLimits.fsckExamples);
  if (count === 0) return { count, warnings: [] };
  const what = `${count} unreadable or ownerless ${count === 1 ? 'record is' : 'records are'} quarantined`;
  return { count, warnings: [`${what}: ${examples.join(' ')}; dq fsck lists them`] };
}

/** How a server is doing: one INFO per node and the settings. Rejects with StoreError when no node
 *  answers. */
export async function infoOf(shard: Shard): Promise<ShardInfo> {
  const from = monotonicNow();
  const infos = await shard.infos();
  const latencyMs = monotonicNow() - from;
  if (infos.length === 0) throw new StoreError({ kind: 'not_stored', code: 'redis_no_answer' });
  const settings = await settingsOf(shard);
  const { count } = await quarantineOf(shard);
  const maxBytes = sumOf(infos, 'maxmemory');
  return {
    version: fieldOf(infos[0] ?? '', 'valkey_version') ?? fieldOf(infos[0] ?? '', 'redis_version') ?? '?',
    usedBytes: sumOf(infos, 'used_memory'),
    maxBytes: maxBytes === 0 ? null : maxBytes,
    eviction: settings?.['maxmemory-policy'] ?? fieldOf(infos[0] ?? '', 'maxmemory_policy'),
    persistence: persistenceOf(settings),
    ...redisDurabilityOf(settings),
    clients: sumOf(infos, 'connected_clients'),
    opsPerSecond: sumOf(infos, 'instantaneous_ops_per_sec'),
    latencyMs,
    nodes: infos.length,
    quarantined: count,
  };
}

function fieldOf(info: string, name: string): string | null {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1] ?? null;
}

function sumOf(infos: readonly string[], name: string): number {
  return infos.reduce((sum, info) => sum + Number(fieldOf(info, name) ?? 0), 0);
}
