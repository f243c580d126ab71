// GET /v1/store shows how the job store is doing: durability, files and disk of the embedded store, or each
// Redis. Its reply is kept for contractLimits.storeFactsMs, so that many viewers cost as much as one. A
// silent store or shard is reported as such; the last values of a silent shard stay.
// /v1/shards: list, add, drain and remove the Redis servers that hold the jobs. use-cases/change-shards.ts
// defines the effects.
// /v1/backup, /v1/fsck and /v1/move: operations of the store that take longer than a call. POST starts one,
// GET shows its state. Either a backup or an fsck runs at a time. A backup writes files, so only the daemon's
// own user may start one: while no token exists, dq serves other users of the machine too. A move takes the
// jobs that this instance had in jobs.db to Redis (upkeep/mover.ts).

import { stat, statfs } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { journalModeOf } from '../../config/options.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import {
  addShardSchema,
  backupSchema,
  beginMoveSchema,
  drainShardSchema,
  type EmbeddedStoreJson,
  fsckSchema,
  listShardsSchema,
  type MoveJson,
  moveSchema,
  removeShardSchema,
  type ShardInfoJson,
  type ShardJson,
  type StoreJson,
  startBackupSchema,
  startFsckSchema,
  storeSchema,
} from '../../contract/api/store.ts';
import { durabilityOf, type JournalMode } from '../../core/durability.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { ShardRecord } from '../../core/shard-list.ts';
import { parseRedisUrl } from '../../core/url/redis-url.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import type { Examination, LongWork, Problem, StoreHealth } from '../../ports/job-store.ts';
import type { LeavingState } from '../../ports/leaving.ts';
import type { ShardServers } from '../../ports/shard-servers.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow, wallNow } from '../../runtime/time.ts';
import { within } from '../../runtime/timeout.ts';
import { addShard, drainShard, knownShard, removeShard, type Shards } from '../../use-cases/change-shards.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../audit-trail.ts';
import { needs } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';

const read = needs('read', 'every');
const admin = needs('admin', 'every');

export function storeRoute(api: Api, { role }: ApiContext): void {
  const infos = new Map<string, ShardInfoJson>();
  let kept: { readonly at: number; readonly state: Promise<StoreJson> } | null = null;
  api.get('/v1/store', { schema: storeSchema, config: read }, () => {
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

export function shardRoutes(api: Api, { role }: ApiContext): void {
  const { registry } = role;

  const shards = (): Shards => {
    if (role.shards === undefined)
      throw new DqError(
        'no_shards',
        'shards: the jobs are in the embedded store; shards need the option redis',
      );
    return { registry, ...role.shards, journal: role.journal?.db };
  };

  api.get('/v1/shards', { schema: listShardsSchema, config: read }, async () => {
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
const silentShard = (
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
async function shardJson(servers: ShardServers, shard: ShardRecord): Promise<ShardJson> {
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

export function longWorkRoutes(api: Api, context: ApiContext): void {
  const { role, questions } = context;
  const { admin: store } = role.store;
  const ownerOnly = { access: { ...admin.access, ownerOnly: true } } as const;

  api.post('/v1/backup', { schema: startBackupSchema, config: ownerOnly }, async (request, answer) => {
    const { directory } = request.body;
    if (!isAbsolute(directory) || directory.length > apiLimits.pathCharsMax || directory.includes('\0'))
      throw invalidField('directory', 'must be an absolute path');
    rejectBusy(await store.startBackup(directory));
    return answer.code(202).send(workJson(await store.backup()));
  });
  api.get('/v1/backup', { schema: backupSchema, config: read }, async () => workJson(await store.backup()));

  api.post('/v1/fsck', { schema: startFsckSchema, config: admin }, async (request, answer) => {
    const relinks = request.query.relink === 'true';
    if (relinks && role.shards === undefined)
      throw new DqError('no_shards', 'relink: only Redis can lose single keys; the jobs are in jobs.db');
    if ((await fsckState()).kind === 'running') rejectBusy('busy');
    rejectBusy(await (relinks ? store.startFsck('relinks') : store.startFsck()));
    if (role.journal !== undefined) await questions.ask('journal_fsck', { starts: true });
    return answer.code(202).send(workJson(await fsckState()));
  });
  api.get('/v1/fsck', { schema: fsckSchema, config: read }, async () => workJson(await fsckState()));

  moveRoutes(api, context);

  /** Of the store, and with a journal also of the journal. */
  async function fsckState(): Promise<LongWork<Examination>> {
    const own = await store.fsck();
    if (role.journal === undefined || own.kind !== 'done') return own;
    const answers = await questions.ask('journal_fsck', { starts: false });
    return withJournal(own, answers?.find(({ answer }) => answer !== null)?.answer ?? null);
  }
}

const noMove: MoveJson = { state: 'none', jobs: 0, total: null, startedAt: null, problem: null };

function moveRoutes(api: Api, { role, questions }: ApiContext): void {
  const { leaving } = role;

  api.get('/v1/move', { schema: moveSchema, config: read }, async () =>
    leaving === undefined ? noMove : moveJson(await leaving.calls.state()),
  );

  api.post('/v1/move', { schema: beginMoveSchema, config: admin }, async (_request, answer) => {
    answer.code(202);
    if (leaving === undefined) return noMove;
    const state = await leaving.calls.state();
    return moveJson(state.jobs > 0 ? await leaving.calls.begin() : state);
  });

  async function moveJson({ jobs, move, total, startedAt }: LeavingState): Promise<MoveJson> {
    const answers = move === null ? null : await questions.ask('move_problem', null);
    return {
      state: move !== null ? 'moving' : jobs > 0 ? 'held' : 'none',
      jobs,
      total,
      startedAt: formatInstantOrNull(startedAt),
      problem: answers?.[0]?.answer ?? null,
    };
  }
}

type Done = Extract<LongWork<Examination>, { readonly kind: 'done' }>;

/** `journal` null: dq-upkeep does not answer. */
function withJournal(own: Done, journal: LongWork<readonly Problem[]> | null): LongWork<Examination> {
  const { startedAt, endedAt, result } = own;
  switch (journal?.kind) {
    case 'running':
      return { kind: 'running', startedAt };
    case 'done': {
      const problems = [...result.problems, ...journal.result];
      return { ...own, endedAt: Math.max(endedAt, journal.endedAt), result: { ...result, problems } };
    }
    case 'failed':
      return { ...journal, reason: `cannot check the journal: ${journal.reason}` };
    default:
      return { kind: 'failed', startedAt, endedAt, reason: unchecked };
  }
}

const unchecked =
  'this instance has not checked the journal since the start of its dq-upkeep, or that does not answer; start the check again';

function rejectBusy(started: 'started' | 'busy'): void {
  if (started === 'busy')
    throw new DqError('work_running', 'a backup or an fsck is running; call again after its end');
}

function workJson<Result extends object>(state: LongWork<Result>) {
  if (state.kind === 'none') return { state: state.kind };
  const startedAt = formatInstant(state.startedAt);
  if (state.kind === 'running') return { state: state.kind, startedAt };
  const times = { startedAt, endedAt: formatInstant(state.endedAt) };
  return state.kind === 'failed'
    ? { state: state.kind, ...times, reason: state.reason }
    : { state: state.kind, ...times, ...state.result };
}
