// GET /metrics answers the metrics of the whole instance, whichever server process is asked: the master
// collects them.

import { metricsSchema } from '../../contract/api/daemon.ts';
import { DqError } from '../../core/errors.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import { expositionType } from '../../telemetry/exposition.ts';
import type { Api } from '../api-context.ts';

export function metricsRoute(api: Api, questions: MasterQuestions): void {
  api.get(
    '/metrics',
    // Every topic: the metrics name topics and their numbers.
    { schema: metricsSchema, config: { access: { scope: 'read', topics: 'every' } } },
    async (_request, answer) => {
      const exposition = await questions.scrape();
      if (exposition === null) throw new DqError('unavailable', 'master: no answer; try again');
      return answer.header('content-type', expositionType).send(exposition);
    },
  );
}
