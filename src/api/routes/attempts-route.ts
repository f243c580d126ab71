// GET /v1/attempts: the newest attempts of the caller's topics, from the ring of dq-upkeep. They are a sample
// of this instance and reach back to the start of dq-upkeep. Reads no store.

import { hostname } from 'node:os';
import { listAttemptsSchema } from '../../contract/api/attempt.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import type { Api } from '../api-context.ts';
import { requireTopic, rightsOf } from '../http/route-access.ts';
import { nameToFind } from './topics/topic-routes.ts';

export function attemptsRoute(api: Api, questions: MasterQuestions): void {
  const host = hostname();
  api.get(
    '/v1/attempts',
    { schema: listAttemptsSchema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { topic = null, outcome: only = null } = request.query;
      const limit = readLimit(request.query.limit);
      if (topic !== null) requireTopic(request, nameToFind(topic));
      const asked = { topic, topics: rightsOf(request).topics, outcome: only, limit };
      const [upkeep] = (await questions.ask('attempts', asked)) ?? [];
      if (upkeep === undefined || upkeep.answer === null)
        throw new DqError('unavailable', 'dq-upkeep: no answer; try again');
      const { since, attempts } = upkeep.answer;
      return {
        items: attempts.map(({ startedAt, version, ...attempt }) => ({
          ...attempt,
          version: String(version),
          startedAt: formatInstant(startedAt),
        })),
        since: formatInstant(since),
        host,
      };
    },
  );
}

function readLimit(limit: string | undefined): number {
  if (limit === undefined) return contractLimits.attempts;
  const attempts = /^[1-9]\d{0,8}$/.test(limit) ? Number(limit) : Number.NaN;
  if (attempts <= contractLimits.attemptsMax) return attempts;
  throw invalidField('limit', `must be a whole number from 1 to ${contractLimits.attemptsMax}`);
}
