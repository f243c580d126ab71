// /livez: this process answers. /readyz: it can do its work; a failing check is named. Both are cheap and open to monitors.
// Reasons and warnings hold names of topics, ids of jobs and addresses of servers: only callers that may read everything see
// them, others the failing check and the number of warnings.

import { Type } from 'typebox';
import { DqError, reasonOf, wordsOf } from '../../core/errors.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/mysql-url.ts';
import { StoreError } from '../../ports/job-store.ts';
import { type Incident, IncidentFiles, openIncidents } from '../../process/incident-files.ts';
import type { RoleContext } from '../../process/role.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { seesDaemon } from '../http/route-access.ts';
import { closed, problems, reply } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';

const tags = ['operation'];

export function healthRoutes(api: Api, { role }: ApiContext): void {
  const incidents = new IncidentFiles(role.config.dataDir);

  api.get(
    '/livez',
    {
      schema: {
        operationId: 'livez',
        tags,
        summary: 'Does this process answer?',
        response: { 200: reply('it does', closed({ live: Type.Literal(true) })), ...problems() },
      },
      config: { access: 'open' },
    },
    async () => ({ live: true }),
  );

  api.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        tags,
        summary: 'Can dq do its work?',
        response: {
          200: reply(
            'it can',
            closed({
              ready: Type.Literal(true),
              check: Type.Null({ description: 'of a 503: the failing check' }),
              warningCount: Type.Integer(),
              durability: Type.Optional(
                Type.String({ description: `what an acknowledged job survives; ${forReaders}` }),
              ),
              warnings: Type.Optional(Type.Array(Type.String(), { description: forReaders })),
            }),
          ),
          ...problems(503),
        },
      },
      config: { access: 'open' },
    },
    async (request) => {
      const showsReasons = seesDaemon(request);
      const [health, away] = await Promise.all([
        inTime('store', checkStore(role)),
        registryTrouble(role),
      ]).catch((error: unknown) => {
        throw showsReasons ? error : withoutReason(error);
      });
      const { durability } = health;
      const warnings = [...health.warnings, ...away, ...(await troubles(incidents))];
      const open = { ready: true, check: null, warningCount: warnings.length };
      return showsReasons ? { ...open, durability, warnings } : open;
    },
  );
}

const forReaders = 'only for callers with the scope read for every topic';

async function checkStore({
  store,
}: RoleContext): Promise<{ durability: string; warnings: readonly string[] }> {
  const health = await store.admin.health().catch((error: unknown) => {
    throw notReady('store', whyOf(error));
  });
  if (!health.ok) throw notReady('store', health.warnings.join('; ') || 'is not healthy');
  return health;
}

/** A registry in MySQL may be away: what is known of it stays in force, and only changes have to wait. */
async function registryTrouble({ config, topics }: RoleContext): Promise<readonly string[]> {
  try {
    await inTime('registry', topics.refresh());
    return [];
  } catch (error) {
    const refusal = error instanceof DqError ? error : notReady('registry', registryWords(config, error));
    if (config['mysql.url'] === '' || !topics.isKnown) throw refusal;
    return [`${refusal.message}; the last known topics are in force, and none can be changed`];
  }
}

/** A monitor gives up sooner than a call to the store does. */
async function inTime<T>(check: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const why = `does not answer within ${apiLimits.readyMs / 1_000} s`;
    timer = setTimeout(() => reject(notReady(check, why)), apiLimits.readyMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Without the reasons: this route is open to everybody. */
const words: Readonly<Record<Incident['kind'], (about: string) => string>> = {
  crash_loop: (role) => `dq-${role} dies again and again`,
  given_up: () => 'dq has ended by itself not long ago',
  store: () => 'the job store is in trouble',
  redis: () => 'a Redis is out of work',
  late: () => 'jobs are late',
};

/** They do not make dq unready: it works, and somebody has been told. */
async function troubles(incidents: IncidentFiles): Promise<readonly string[]> {
  try {
    return openIncidents(await incidents.list()).map(({ kind, about }) => words[kind](about));
  } catch {
    return ['the incidents of this instance cannot be read']; // why is in nobody's hands who asks without a token
  }
}

/** MySQL's own words, or which key or schema is wrong; the failure's code says neither. */
function registryWords(config: RoleContext['config'], error: unknown): string {
  const server = parseMysqlUrl(config['mysql.url']);
  if (!(error instanceof StoreError) || !(error.cause instanceof Error) || !server.ok) return whyOf(error);
  if (error.cause instanceof DqError) return error.cause.message;
  return `mysql://${placeOf(server.value)}: ${wordsOf(error.cause)}`;
}

/** A StoreError speaks of writes: that a look at the health was "not stored" helps nobody. */
function whyOf(error: unknown): string {
  return error instanceof StoreError ? `does not answer (${error.failure.code})` : reasonOf(error);
}

function notReady(check: string, message: string): DqError {
  return new DqError('unavailable', `${check}: ${message}`, {
    errors: [{ field: check, message }],
    extra: { ready: false, check },
  });
}

/** For callers that may not see reasons. */
function withoutReason(error: unknown): unknown {
  if (!(error instanceof DqError)) return error;
  const check = typeof error.extra['check'] === 'string' ? error.extra['check'] : 'dq';
  return notReady(check, 'is not ready; a token with the scope read for every topic is shown the reason');
}
