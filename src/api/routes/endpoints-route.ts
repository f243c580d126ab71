// GET /v1/endpoints: the origins that the notifiers of this instance call for the caller's topics, and how
// they answer. Reads no store: the notifiers have the numbers, since their start.

import { hostname } from 'node:os';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { durationAt, type EndpointPart, mergeEndpoints } from '../../core/endpoint.ts';
import { DqError } from '../../core/errors.ts';
import type { Api } from '../api-context.ts';
import { requireTopic, rightsOf } from '../http/route-access.ts';
import { closed, count, nullable, problems, reply, TopicName, text } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import type { MasterQuestions } from '../master-questions.ts';
import { nameToFind } from './topics/topic-routes.ts';

const { failingPercent, failingAttempts, failingInRow, endpointTopicsMax } = apiLimits;
const states = ['healthy', 'failing', 'probing'] as const;
const orNever = (what: string) =>
  nullable('string', {
    description: `${what}; RFC 3339, UTC; null: none since the start of the notifiers`,
    examples: ['2030-01-01T08:00:00.000Z'],
  });

const Endpoint = closed(
  {
    origin: text('scheme, host and port', 'https://shop.example'),
    topics: Type.Array(Type.String(), {
      description: `visible topics that were called there, at most ${endpointTopicsMax}`,
      examples: [['order.close']],
    }),
    topicCount: count('all of them', 1),
    state: Type.Enum(states, {
      description: `probing: a notifier makes few calls until one succeeds; failing: at least ${failingPercent} % of at least ${failingAttempts} attempts failed within 5 minutes, or the last ${failingInRow} of a topic; else healthy`,
    }),
    inFlight: count('calls that run now', 3),
    failuresInRow: count('failed attempts of a topic since its last success: of the worst topic'),
    lastSuccessAt: orNever('end of the last successful attempt'),
    lastFailureAt: orNever('end of the last failed attempt'),
    lastReason: nullable('string', { description: 'why it failed', examples: ['timeout'] }),
    attempts: count('attempts of the last 5 minutes', 120),
    successRate: nullable('number', {
      description: 'share of them that succeeded, 0 to 1; null: no attempt',
      examples: [0.99],
    }),
    p95Ms: nullable('integer', {
      description: '95 % of them took at most this, ms; estimated; null: no attempt',
      examples: [120],
    }),
  },
  { title: 'Endpoint' },
);
const Endpoints = closed(
  {
    items: Type.Array(Endpoint, { description: 'the most recently called first' }),
    silent: Type.Array(Type.String(), {
      description: 'notifiers that did not answer: their calls are not included',
      examples: [[]],
    }),
    host: text('the machine of the notifiers', 'vm-1'),
  },
  { title: 'Endpoints' },
);
const schema = {
  operationId: 'listEndpoints',
  tags: ['operation'],
  summary: 'The endpoints that this instance calls',
  querystring: closed({ topic: Type.Optional(TopicName) }),
  response: { 200: reply('the endpoints', Endpoints), ...problems(404, 503) },
};

export function endpointsRoute(api: Api, questions: MasterQuestions): void {
  const host = hostname();
  api.get(
    '/v1/endpoints',
    { schema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { topic = null } = request.query;
      if (topic !== null) requireTopic(request, nameToFind(topic));
      const answers = await questions.ask('endpoints', { topic, topics: rightsOf(request).topics });
      if (answers === null || (answers.length > 0 && answers.every(({ answer }) => answer === null)))
        throw new DqError('unavailable', 'notifiers: no answer; try again');
      const parts = mergeEndpoints(
        'notifiers',
        answers.flatMap(({ answer }) => answer ?? []),
      );
      return {
        items: parts.map(endpointJson),
        silent: answers.filter(({ answer }) => answer === null).map(({ process }) => process),
        host,
      };
    },
  );
}

function endpointJson(part: EndpointPart): object {
  const { origin, topics, inFlight, failuresInRow, lastSuccessAt, lastFailureAt, lastReason } = part;
  const attempts = part.delivered + part.failed;
  return {
    origin,
    topics: topics.slice(0, endpointTopicsMax),
    topicCount: topics.length,
    state: stateOf(part, attempts),
    inFlight,
    failuresInRow,
    lastSuccessAt: lastSuccessAt === null ? null : formatInstant(lastSuccessAt),
    lastFailureAt: lastFailureAt === null ? null : formatInstant(lastFailureAt),
    lastReason,
    attempts,
    successRate: attempts === 0 ? null : part.delivered / attempts,
    p95Ms: durationAt(0.95, part),
  };
}

function stateOf(
  { isProbing, failed, failuresInRow }: EndpointPart,
  attempts: number,
): (typeof states)[number] {
  if (isProbing) return 'probing';
  const isFailing = attempts >= failingAttempts && failed * 100 >= attempts * failingPercent;
  return isFailing || failuresInRow >= failingInRow ? 'failing' : 'healthy';
}
