// GET /metrics: the numbers of the whole instance, whichever of its servers is asked. Written by the master, which has them from
// all processes; this file only carries them.

import { Type } from 'typebox';
import { DqError } from '../../core/errors.ts';
import { expositionType } from '../../telemetry/exposition.ts';
import type { Api } from '../api-context.ts';
import { problems } from '../http/schemas.ts';
import type { MasterQuestions } from '../master-questions.ts';

export function metricsRoute(api: Api, questions: MasterQuestions): void {
  api.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        tags: ['operation'],
        summary: 'Metrics of this instance for Prometheus',
        response: {
          200: { description: 'now', content: { 'text/plain': { schema: Type.String() } } },
          ...problems(503),
        },
      },
      // It shows names and numbers of topics, so a token for some of them is not enough.
      config: { access: { scope: 'read', topics: 'every' } },
    },
    async (_request, answer) => {
      const text = await questions.scrape();
      if (text === null) throw new DqError('unavailable', 'the master does not answer');
      return answer.header('content-type', expositionType).send(text);
    },
  );
}
