// GET /v1/endpoints: the origins that the notifiers of this instance call for the caller's topics, and how
// they answer. Reads no store: the notifiers have the numbers, since their start.

import { hostname } from 'node:os';
import { type endpointStates, listEndpointsSchema } from '../../contract/api/attempt.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { formatInstant } from '../../core/duration.ts';
import { durationAt, type EndpointPart, mergeEndpoints, type TopicFailures } from '../../core/endpoint.ts';
import { DqError } from '../../core/errors.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import { failuresIn, topicFailures } from '../../process/topic-failures.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { requireTopic, rightsOf } from '../http/route-access.ts';
import { isFailing } from './failing.ts';
import { nameToFind } from './topics/topic-routes.ts';

const { endpointTopicsMax } = contractLimits;

export function endpointsRoute(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const host = hostname();
  api.get(
    '/v1/endpoints',
    { schema: listEndpointsSchema, config: { access: { scope: 'read', topics: 'handler' } } },
    async (request) => {
      const { topic = null } = request.query;
      if (topic !== null) requireTopic(request, nameToFind(topic));
      const { topics } = rightsOf(request);
      const [answers, failures] = await Promise.all([
        questions.ask('endpoints', { topic, topics }),
        topicFailures(async (asked) => failuresIn(await questions.ask('failures', asked)), topics),
      ]);
      if (answers === null || (answers.length > 0 && answers.every(({ answer }) => answer === null)))
        throw new DqError('unavailable', 'notifiers: no answer; try again');
      const parts = mergeEndpoints(answers.flatMap(({ answer }) => answer ?? []));
      return {
        items: parts.map((part) => endpointJson(part, failures, role.clock.now())),
        silent: answers.filter(({ answer }) => answer === null).map(({ process }) => process),
        host,
      };
    },
  );
}

function endpointJson(part: EndpointPart, failures: ReadonlyMap<string, TopicFailures>, now: number) {
  const { origin, topics, inFlight, lastSuccessAt, lastFailureAt, lastReason } = part;
  const failuresInRow = Math.max(0, ...topics.map((name) => failures.get(name)?.failuresInRow ?? 0));
  const attempts = part.delivered + part.failed;
  return {
    origin,
    topics: topics.slice(0, endpointTopicsMax),
    topicCount: topics.length,
    state: stateOf(part, failuresInRow, now),
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

function stateOf(part: EndpointPart, failuresInRow: number, now: number): (typeof endpointStates)[number] {
  if (part.isProbing) return 'probing';
  return isFailing({ ...part, failuresInRow }, now) ? 'failing' : 'healthy';
}
