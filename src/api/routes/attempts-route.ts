// GET /v1/attempts: the newest attempts of the caller's topics, from the ring of dq-upkeep. They are a sample
// of this instance and reach back to the start of dq-upkeep. Reads no store.

import { hostname } from 'node:os';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { Api } from '../api-context.ts';
import { requireTopic, rightsOf } from '../http/route-access.ts';
import {
  closed,
  count,
  instant,
  JobId,
  nullable,
  problems,
  reply,
  TopicName,
  text,
  Version,
} from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import type { MasterQuestions } from '../master-questions.ts';
import { nameToFind } from './topics/topic-routes.ts';

const outcome = Type.Enum(['delivered', 'failed'], { description: 'how the attempt ended' });

const Sample = closed(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    attempt: Type.Integer({ description: 'number of the attempt, from 1', examples: [1] }),
    startedAt: instant('when the attempt began'),
    durationMs: count('how long it took, ms', 31),
    latenessMs: count('from the due time to the start, ms', 12),
    outcome,
    reason: nullable('string', { description: 'why it failed; null: it did not', examples: ['status'] }),
    status: nullable('integer', {
      description: 'HTTP status of the reply; null without one',
      examples: [500],
    }),
    replyExcerpt: text('start of the reply', '{"code":500}'),
    detail: text('the failure, where no whole reply came; else empty', 'no whole reply within 3000 ms'),
    origin: text('scheme, host and port that were called', 'https://shop.example'),
    notifier: text('process that made the attempt', 'dq-notifier-0'),
  },
  { title: 'AttemptSample' },
);
const Attempts = closed(
  {
    items: Type.Array(Sample, { description: 'newest first' }),
    since: instant('start of the sample: earlier attempts are unknown'),
    host: text('the machine whose notifiers made the attempts', 'vm-1'),
  },
  { title: 'Attempts' },
);
const schema = {
  operationId: 'listAttempts',
  tags: ['operation'],
  summary: 'The newest attempts, a sample of this instance',
  description:
    'dq keeps up to 20 failures and 5 successes per second and topic, 200 per topic, and none after a restart.',
  querystring: closed({
    topic: Type.Optional(TopicName),
    outcome: Type.Optional(outcome),
    limit: Type.Optional(
      Type.String({
        description: `attempts of the reply, 1–${apiLimits.attemptsMax}`,
        default: String(apiLimits.attempts),
        examples: ['20'],
      }),
    ),
  }),
  response: { 200: reply('the attempts', Attempts), ...problems(404, 503) },
};

export function attemptsRoute(api: Api, questions: MasterQuestions): void {
  const host = hostname();
  api.get(
    '/v1/attempts',
    { schema, config: { access: { scope: 'read', topics: 'handler' } } },
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
  if (limit === undefined) return apiLimits.attempts;
  const attempts = /^[1-9]\d{0,8}$/.test(limit) ? Number(limit) : Number.NaN;
  if (attempts <= apiLimits.attemptsMax) return attempts;
  throw invalidField('limit', `must be a whole number from 1 to ${apiLimits.attemptsMax}`);
}
