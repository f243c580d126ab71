// The daemon itself: GET / is the index of the API; /v1/processes, /metrics, /v1/config and /v1/reload are of
// the whole instance, whichever server process is asked, because the master has them: its processes, their
// metrics, the options in force with their origins, secrets masked, and what a reload would change.

import {
  configSchema,
  indexSchema,
  metricsSchema,
  reloadSchema,
  reloadStateSchema,
} from '../../contract/api/daemon.ts';
import { processesSchema } from '../../contract/api/stats.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import type { ReloadState } from '../../process/messages.ts';
import { expositionType } from '../../telemetry/metric-tally.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs } from '../http/route-access.ts';

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
