// GET /v1/config shows the options in force with their origins, secrets masked, and what a reload would
// change. POST /v1/reload begins a reload, GET shows the running and the last one. The master has both.

import { configSchema, reloadSchema, reloadStateSchema } from '../../contract/api/daemon.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import type { ReloadState } from '../../process/messages.ts';
import type { Api } from '../api-context.ts';

const admin = { access: { scope: 'admin', topics: 'every' } } as const;

export function configRoutes(api: Api, questions: MasterQuestions): void {
  api.get('/v1/config', { schema: configSchema, config: admin }, async () => {
    const state = await questions.config();
    if (state === null) throw silent();
    return state;
  });

  api.get('/v1/reload', { schema: reloadStateSchema, config: admin }, async () =>
    reloadJson(await questions.reload(false)),
  );

  api.post('/v1/reload', { schema: reloadSchema, config: admin }, async (_request, answer) =>
    answer.code(202).send(reloadJson(await questions.reload(true))),
  );
}

function reloadJson(state: ReloadState | null) {
  if (state === null) throw silent();
  const { running, last, ...rest } = state;
  return {
    ...rest,
    running: running === null ? null : { ...running, startedAt: formatInstant(running.startedAt) },
    last:
      last === null
        ? null
        : { ...last, startedAt: formatInstant(last.startedAt), endedAt: formatInstant(last.endedAt) },
  };
}

/** The master hangs. */
function silent(): DqError {
  return new DqError('unavailable', 'master: no answer; try again');
}
