// The daemon itself. GET / is the index of the API; /v1/processes, /metrics, /v1/config and /v1/reload are of
// the whole instance, whichever server process is asked, because the master has them: its processes, their
// metrics, the options in force with their origins, secrets masked, and what a reload would change.
// /livez reports that this process answers; /readyz whether it can work, with the failing check. Both are
// cheap and open to monitors. Reasons and warnings contain topic names, job ids and server addresses: only
// callers that may read every topic see them. Others see the failing check and the number of warnings.

import { noDeliveriesText } from '../../config/options.ts';
import {
  configSchema,
  indexSchema,
  livezSchema,
  metricsSchema,
  processesSchema,
  readyzSchema,
  reloadSchema,
  reloadStateSchema,
} from '../../contract/api/daemon.ts';
import { brokersOf } from '../../core/broker.ts';
import { formatDuration, formatInstant } from '../../core/duration.ts';
import { DqError, messageOf, wordsOf } from '../../core/errors.ts';
import { helpOf, type Incident, openIncidents } from '../../core/incident.ts';
import type { LeftBehind } from '../../core/left-behind.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import type { StoreHealth } from '../../ports/job-store.ts';
import type { LeaderRow } from '../../ports/registry.ts';
import { StoreError } from '../../ports/store-error.ts';
import { IncidentFiles } from '../../process/incident-files.ts';
import type { ReloadState } from '../../process/messages.ts';
import type { RoleContext } from '../../process/role.ts';
import { readExtraAuthorities } from '../../runtime/extra-authorities.ts';
import { within } from '../../runtime/timeout.ts';
import { expositionType } from '../../telemetry/metric-tally.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs, seesDaemon } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';

const links = {
  openapi: '/openapi.json',
  livez: '/livez',
  readyz: '/readyz',
  metrics: '/metrics',
  topics: '/v1/topics',
  jobs: '/v1/jobs',
  dead: '/v1/dead',
  alerts: '/v1/alerts',
  summary: '/v1/summary',
  stats: '/v1/stats',
  processes: '/v1/processes',
  me: '/v1/me',
  tokens: '/v1/tokens',
  sessions: '/v1/sessions',
  shards: '/v1/shards',
} as const;

export function daemonRoutes(api: Api, { role, questions }: ApiContext): void {
  const index = { name: 'dq' as const, version: role.version, links };
  const admin = needs('admin', 'every');

  api.get('/', { schema: indexSchema, config: needs('read', 'none') }, async () => index);

  api.get('/v1/processes', { schema: processesSchema, config: needs('read', 'none') }, async () => {
    const processes = answered(await questions.processes());
    return {
      processes: processes.map(({ startedAt, ...rest }) => ({
        ...rest,
        startedAt: formatInstant(startedAt),
      })),
    };
  });

  // Every topic: the metrics name topics and their numbers.
  api.get('/metrics', { schema: metricsSchema, config: needs('read', 'every') }, async (_request, answer) =>
    answer.header('content-type', expositionType).send(answered(await questions.scrape())),
  );

  api.get('/v1/config', { schema: configSchema, config: admin }, async () =>
    answered(await questions.config()),
  );

  api.get('/v1/reload', { schema: reloadStateSchema, config: admin }, async () =>
    reloadJson(answered(await questions.reload(false))),
  );

  api.post('/v1/reload', { schema: reloadSchema, config: admin }, async (_request, answer) =>
    answer.code(202).send(reloadJson(answered(await questions.reload(true)))),
  );
}

/** Throws DqError unavailable: the master hangs. */
function answered<T>(answer: T | null): T {
  if (answer === null) throw new DqError('unavailable', 'master: no answer; try again');
  return answer;
}

function reloadJson({ running, last, ...rest }: ReloadState) {
  return {
    ...rest,
    running: running === null ? null : { ...running, startedAt: formatInstant(running.startedAt) },
    last:
      last === null
        ? null
        : { ...last, startedAt: formatInstant(last.startedAt), endedAt: formatInstant(last.endedAt) },
  };
}

/** As this process, and the notifiers that start with it, have read them. */
const authorities = readExtraAuthorities();

export function healthRoutes(api: Api, { role }: ApiContext): void {
  const incidents = new IncidentFiles(role.config.dataDir);

  api.get('/livez', { schema: livezSchema, config: { access: 'open' } }, async () => ({ live: true }));

  api.get('/readyz', { schema: readyzSchema, config: { access: 'open' } }, async (request) => {
    const showsReasons = seesDaemon(request);
    const health = await readyState(role, incidents).catch((error: unknown) => {
      throw showsReasons ? error : withoutReason(error);
    });
    const { durability, warnings } = health;
    const deliveries =
      showsReasons && role.leader !== undefined ? await leaderText(role, role.leader) : undefined;
    const open = { ready: true, check: null, warningCount: warnings.length };
    return showsReasons ? { ...open, durability, deliveries, warnings } : open;
  });
}

/** Never rejects. */
async function leaderText({ owner }: RoleContext, row: LeaderRow): Promise<string> {
  try {
    const { instance, leftMs } = await inTime('registry', row.leader());
    if (instance === 0 || leftMs <= 0) return 'no instance leads yet';
    return instance === owner.instance ? 'it leads' : `standby: instance ${instance} leads`;
  } catch (error) {
    return `unknown: ${messageOf(error)}`;
  }
}

/** As readiness(), with the incidents: the same for /readyz and the checks of the console. */
export async function readyState(
  role: RoleContext,
  incidents = new IncidentFiles(role.config.dataDir),
): Promise<Awaited<ReturnType<typeof readiness>>> {
  const ready = await readiness(role);
  return { ...ready, warnings: [...ready.warnings, ...(await incidentWarnings(incidents))] };
}

/** Rejects with DqError unavailable when dq cannot work. `warnings`: of the store and the registry. */
export async function readiness(role: RoleContext): Promise<{
  readonly durability: string;
  readonly warnings: readonly string[];
  /** its texts are among the warnings */
  readonly leftBehind: readonly LeftBehind[];
}> {
  const [health, registryWarnings] = await Promise.all([
    inTime('store', checkStore(role)),
    checkRegistry(role),
  ]);
  const authorityWarnings = authorities !== null && 'fault' in authorities ? [authorities.fault] : [];
  const deliveries = role.config.noDeliveries ? [`deliveries: ${noDeliveriesText}`] : [];
  return {
    durability: health.durability,
    leftBehind: health.leftBehind ?? [],
    warnings: [
      ...deliveries,
      ...authorityWarnings,
      ...health.warnings,
      ...registryWarnings,
      ...brokerWarnings(role),
      ...windowWarnings(role),
      ...unreadableWarnings(role),
    ],
  };
}

async function checkStore({ store }: RoleContext): Promise<StoreHealth> {
  const health = await store.admin.health().catch((error: unknown) => {
    throw notReady('store', failureText(error));
  });
  if (!health.ok) throw notReady('store', health.warnings.join('; ') || 'not healthy');
  return health;
}

/** Returns warnings. An unavailable MySQL registry is a warning: the last known topics stay in force, only
 *  changes wait. */
async function checkRegistry({ config, topics }: RoleContext): Promise<readonly string[]> {
  try {
    await inTime('registry', topics.refresh());
    return [];
  } catch (error) {
    const failure = error instanceof DqError ? error : notReady('registry', registryFailure(config, error));
    if (config['mysql.url'] === '' || !topics.isKnown) throw failure;
    return [`${failure.message}; the last known topics stay in force and cannot be changed`];
  }
}

/** Jobs of such a topic are held: its broker was removed from the configuration. */
function brokerWarnings({ config, topics }: RoleContext): readonly string[] {
  const brokers = brokersOf(config.brokers);
  const held: string[] = [];
  for (const { topic, delivery, target } of topics.all())
    if (delivery === 'mq' && !brokers.has(target.broker)) held.push(`${topic} (${target.broker})`);
  if (held.length === 0) return [];
  return [
    `brokers of the configuration lacks the broker of ${firstOf(held)}; their jobs are held: add it, and reload`,
  ];
}

/** history.retention was lowered after the windows were set. */
function windowWarnings({ config, topics }: RoleContext): readonly string[] {
  const historyMs = config['history.retention'];
  const short: string[] = [];
  for (const { topic, idempotencyMs } of topics.all())
    if (idempotencyMs > historyMs) short.push(`${topic} (${formatDuration(idempotencyMs)})`);
  if (short.length === 0) return [];
  return [
    `history.retention is ${formatDuration(historyMs)}, and shorter than the idempotency of ${firstOf(short)}: a repeat that comes later is a new job; raise the option, or lower the window`,
  ];
}

/** Jobs of such a topic are held, too. */
function unreadableWarnings({ topics }: RoleContext): readonly string[] {
  if (topics.unreadable.size === 0) return [];
  return [
    `cannot read the stored record of ${firstOf([...topics.unreadable])}; their jobs are held: replace it with PUT /v1/topics/{topic}, or remove it`,
  ];
}

function firstOf(topics: readonly string[]): string {
  const more = topics.length > 3 ? ` and ${topics.length - 3} more` : '';
  return `${topics.slice(0, 3).join(', ')}${more}`;
}

/** A monitor's timeout is shorter than a store call's. */
function inTime<T>(check: string, work: Promise<T>): Promise<T> {
  const why = `no answer within ${apiLimits.readyMs / 1_000} s`;
  return within(apiLimits.readyMs, work, () => notReady(check, why));
}

/** What is wrong, since when, and what to do. */
function warningOf(incident: Incident): string {
  const { command, does, logs } = helpOf(incident);
  const more = logs === undefined ? '' : `; ${logs}`;
  return `${incident.detail} (reported at ${formatInstant(incident.at)}); ${command} ${does}${more}`;
}

/** An incident does not make dq unready: dq works, and a mail is due. */
async function incidentWarnings(incidents: IncidentFiles): Promise<readonly string[]> {
  try {
    return openIncidents(await incidents.list()).map(warningOf);
  } catch {
    return ['cannot read the incidents of this instance']; // without the path, which is not for every caller
  }
}

/** The sentence on registry.db, MySQL's own message, or the wrong key or schema; the failure's code has none
 *  of them. */
function registryFailure(config: RoleContext['config'], error: unknown): string {
  const server = parseMysqlUrl(config['mysql.url']);
  if (error instanceof StoreError && error.failure.why !== undefined) return error.failure.why;
  if (!(error instanceof StoreError) || !(error.cause instanceof Error) || !server.ok)
    return failureText(error);
  if (error.cause instanceof DqError) return error.cause.message;
  return `mysql://${placeOf(server.value)}: ${wordsOf(error.cause)}`;
}

/** A StoreError's own message describes writes ("not stored"), which is wrong for a health check. */
function failureText(error: unknown): string {
  return error instanceof StoreError ? `unavailable (${error.failure.code})` : messageOf(error);
}

function notReady(check: string, message: string): DqError {
  return new DqError('unavailable', `${check}: ${message}`, {
    errors: [{ field: check, message }],
    extra: { ready: false, check },
  });
}

/** The error for callers that must not see reasons. */
function withoutReason(error: unknown): unknown {
  if (!(error instanceof DqError)) return error;
  const check = typeof error.extra['check'] === 'string' ? error.extra['check'] : 'dq';
  return notReady(check, 'not ready; send a token with the scope read for every topic to see the reason');
}
