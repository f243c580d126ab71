// dq move: brings topics and jobs of the data directory to the MySQL and the Redis of its configuration.
// dq-store copies the registry, the daemon starts again with the copy, then dq-upkeep moves the jobs, also
// without this command. A start alone moves nothing: a wrong file must not move production.
// The plan says what registry.db and jobs.db hold, and whether their targets can take it. It reads the files,
// MySQL and Redis itself, and changes nothing.

import { existsSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Config } from '../../config/options.ts';
import type { ConfigJson } from '../../contract/api/daemon.ts';
import type { SummaryJson } from '../../contract/api/stats.ts';
import type { MoveJson, StoreJson } from '../../contract/api/store.ts';
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
import { sleep } from '../../runtime/time.ts';
import { within } from '../../runtime/timeout.ts';
import { beginToConnect, closeClient, createClient } from '../../store/redis/client/connection.ts';
import { redisLimits } from '../../store/redis/limits.ts';
import { type ApiClient, ApiRefusal } from '../daemon/api-client.ts';
import { clientOf, withDataDirectory } from '../daemon/daemon-options.ts';
import { askDaemon, type DaemonFlags, dataDirOf } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { readConfig } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { agree, printData, say } from '../output/output.ts';
import { startProgress } from '../output/progress.ts';
import { awaitNext, endWaitMs } from './master.ts';

interface MoveFlags extends DaemonFlags {
  readonly plan?: boolean;
  readonly yes?: boolean;
}

export function register(program: Command): void {
  const command = program
    .command('move')
    .description('move topics and jobs to the MySQL and Redis of the configuration')
    .option('--plan', 'print what would move; change nothing')
    .option('-y, --yes', 'do not ask')
    .action(move);
  // It rejects another file.
  withDataDirectory(command, undefined, 'itself');
}

async function move(flags: MoveFlags): Promise<void> {
  const dataDir = dataDirOf(flags, process.env);
  const client = () => clientOf({ dataDir });
  const { file, hasMysql } = await configOf(client(), flags.config);
  const { config } = readConfig({}, file);
  const before = await storeOf(client());
  const registry = await planRegistry(config, hasMysql);
  const jobs = await planJobs(config, before.jobs);
  printData(`registry   ${registry.line}\njobs       ${jobs.line}`);
  const refused = registry.refused ?? jobs.refused;
  if (refused !== null) throw new Exit('failed', refused);
  const restarts = config.redis.length > 0 && before.kind === 'embedded';
  if (!registry.moves && !jobs.moves && !restarts) {
    say('dq: nothing is left to move');
    return;
  }
  if (flags.plan === true) return;
  await agree(
    'Changes of topics stop for some seconds, pushes during the restart (about 5 s). Go on?',
    flags.yes,
  );
  let began = registry.moves ? await moveRegistry(dataDir) : null;
  if (restarts) began ??= await restart(dataDir, 'restart');
  if (began?.notReady && !jobs.moves) throw began.notReady;
  // Until the move begins, dq rejects changes of the jobs that it holds, so it begins now.
  if (began?.notReady) say(`dq: ${began.notReady.message}`);
  if (jobs.moves) await moveJobs(client());
}

/** `file`: the one that the daemon reads when it starts again, so the plan must be of it. `hasMysql`: its
 *  MySQL is in force already. */
async function configOf(
  client: ApiClient,
  given: string | undefined,
): Promise<{ readonly file: string; readonly hasMysql: boolean }> {
  const { json } = await client.call<ConfigJson>({ path: ['v1', 'config'], needs: ['file', 'items'] });
  const { file, items } = json;
  if (file === null)
    throw new Exit(
      'failed',
      'the daemon was started without a file: set redis or mysql.url in dq.yaml, and start it with that file',
    );
  if (given !== undefined && realpathSync(given) !== realpathSync(file))
    throw new Exit('failed', `the daemon reads ${file}: change that file, and name it with -c`);
  return { file, hasMysql: items.some(({ name, next }) => name === 'mysql.url' && next === null) };
}

/** `jobs`: in jobs.db */
async function storeOf(
  client: ApiClient,
): Promise<{ readonly kind: StoreJson['kind']; readonly jobs: number }> {
  const { kind } = (await client.call<StoreJson>({ path: ['v1', 'store'], needs: ['kind'] })).json;
  if (kind === 'redis') return { kind, jobs: (await stateOf(client)).jobs };
  const { states } = (await client.call<SummaryJson>({ path: ['v1', 'summary'], needs: ['states'] })).json;
  return { kind, jobs: Object.values(states).reduce((sum, n) => sum + n, 0) };
}

/** The daemon has started again. `notReady`: it waits for Redis or MySQL; null: it is ready */
interface Restarted {
  readonly notReady: Exit | null;
}

async function moveRegistry(dataDir: string): Promise<Restarted | null> {
  say('dq: copying the registry to MySQL');
  const restarted = await restart(dataDir, 'move');
  say('dq: the registry is in MySQL; registry.db has the name registry.db.moved');
  return restarted;
}

/** null: a `move` without a restart, as MySQL was in force already. */
async function restart(dataDir: string, cmd: 'move' | 'restart'): Promise<Restarted | null> {
  const answered = await askDaemon({ dataDir }, { cmd }, cliLimits.registryMoveMs + endWaitMs);
  const refused = answered.answers.find((answer) => 'refused' in answer)?.refused;
  const kept = cmd === 'move' ? 'nothing has moved' : 'no job has moved';
  if (refused !== undefined) throw new Exit('failed', `${kept}, the daemon still runs: ${refused}`);
  // A master of an earlier version names the commands that it knows.
  const unknown = answered.answers.find((answer) => 'message' in answer)?.message;
  if (unknown !== undefined) throw new Exit('failed', `the daemon runs an earlier version: ${unknown}`);
  if (answered.answers.some((answer) => 'moved' in answer)) return null;
  return { notReady: await awaitNext(dataDir, answered) };
}

const stateOf = async (client: ApiClient): Promise<MoveJson> =>
  (await client.call<MoveJson>({ path: ['v1', 'move'], needs: ['state', 'jobs'] })).json;

/** While dq-store does not answer, the move waits for it, and so does this command. */
async function nextOf(client: ApiClient, last: MoveJson): Promise<MoveJson> {
  try {
    return await stateOf(client);
  } catch (error) {
    if (!(error instanceof ApiRefusal) || error.problem.status !== 503) throw error;
    return { ...last, problem: 'dq-store does not answer; the move goes on when it does' };
  }
}

async function moveJobs(client: ApiClient): Promise<void> {
  if ((await storeOf(client)).kind === 'embedded')
    throw new Exit('failed', 'no job has moved: the daemon has started with jobs.db, not with `redis`');
  const path = ['v1', 'move'];
  let { json: now } = await client.call<MoveJson>({ method: 'POST', path, needs: ['state', 'jobs'] });
  say('dq: moving the jobs; it goes on without this command, and dq move shows it again');
  const progress = startProgress('moved', now.total ?? now.jobs);
  try {
    for (let problem: string | null = null; now.state !== 'none'; ) {
      if (now.problem !== null && now.problem !== problem) say(`dq: ${now.problem}`);
      problem = now.problem;
      await sleep(cliLimits.operationPollMs);
      const next = await nextOf(client, now);
      progress.add(Math.max(0, now.jobs - next.jobs));
      now = next;
    }
  } finally {
    progress.stop();
  }
  say('dq: all jobs are on Redis');
}

interface PartPlan {
  /** does this part move? */
  readonly moves: boolean;
  /** for people */
  readonly line: string;
  /** why it cannot; null: it can */
  readonly refused: string | null;
}

const stays = (line: string): PartPlan => ({ moves: false, line, refused: null });

/** `hasMysql`: its MySQL is in force already, and content there is not an obstacle. */
async function planRegistry(config: Config, hasMysql: boolean): Promise<PartPlan> {
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
