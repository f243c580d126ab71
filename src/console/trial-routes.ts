// POST, GET and DELETE /v1/trial: begin a trial, watch it, remove it. Only on the port of the console: the
// receiver is in its process.

import type { Api } from '../api/api-context.ts';
import { beginTrialSchema, endTrialSchema, getTrialSchema } from '../contract/api/trial.ts';
import type { Trial } from './trial.ts';

export function trialRoutes(api: Api, trial: Trial): void {
  const config = { access: { scope: 'admin', topics: 'every' } } as const;

  api.post('/v1/trial', { schema: beginTrialSchema, config }, async (_, answer) =>
    answer.code(201).send({ trial: await trial.begin() }),
  );

  api.get('/v1/trial', { schema: getTrialSchema, config }, async () => ({ trial: await trial.view() }));

  api.delete('/v1/trial', { schema: endTrialSchema, config }, async () => {
    await trial.end();
    return { deleted: true };
  });
}
