// GET /v1/attempts: the newest attempts of the caller's topics, from the ring of dq-upkeep. They are a sample
// of this instance and reach back to the start of dq-upkeep. GET /v1/endpoints: the origins that the
// notifiers of this instance call for the caller's topics, and how they answer, since their start. Reads no
// store.

import { hostname } from 'node:os';
import type { FastifyRequest } from 'fastify';
import { type endpointStates, listAttemptsSchema, listEndpointsSchema } from '../../contract/api/attempt.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import {
  durationAt,
  type EndpointPart,
  endpointWindowMs,
  mergeEndpoints,
  type TopicFailures,
} from '../../core/endpoint.ts';
import { DqError } from '../../core/errors.ts';
import { askFailures, failuresIn, topicFailures } from '../../process/master-questions.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { readLimit } from '../http/request-head.ts';
import { needs, requireTopic, rightsOf } from '../http/route-access.ts';
import { nameToFind } from './topics/topic-routes.ts';

const { attempts, attemptsMax, endpointTopicsMax } = contractLimits;

export function attemptRoutes(api: Api, { role, questions }: ApiContext): void {
  const host = hostname();
  const config = needs('read', 'handler');

  api.get('/v1/attempts', { schema: listAttemptsSchema, config }, async (request) => {
    const { outcome = null } = request.query;
    const limit = readLimit(request.query.limit, attemptsMax, attempts);
    const asked = { ...askedFor(request, request.query.topic), outcome, limit };
    const [upkeep] = (await questions.ask('attempts', asked)) ?? [];
    if (upkeep === undefined || upkeep.answer === null)
      throw new DqError('unavailable', 'dq-upkeep: no answer; try again');
    const { since, attempts: newest } = upkeep.answer;
    const items = newest.map(({ startedAt, version, ...attempt }) => ({
      ...attempt,
      version: String(version),
      startedAt: formatInstant(startedAt),
    }));
    return { items, since: formatInstant(since), host };
  });

  api.get('/v1/endpoints', { schema: listEndpointsSchema, config }, async (request) => {
    const { topic, topics } = askedFor(request, request.query.topic);
    const [answers, failures] = await Promise.all([
      questions.ask('endpoints', { topic, topics }),
      topicFailures(async (asked) => failuresIn((await askFailures(questions, asked))?.all ?? null), topics),
    ]);
    if (answers === null || (answers.length > 0 && answers.every(({ answer }) => answer === null)))
      throw new DqError('unavailable', 'notifiers: no answer; try again');
    const parts = mergeEndpoints(answers.flatMap(({ answer }) => answer ?? []));
    return {
      items: parts.map((part) => endpointJson(part, failures, role.clock.now())),
      silent: answers.filter(({ answer }) => answer === null).map(({ process }) => process),
      host,
    };
  });
}

/** The topic of the query, null: all, and those of the caller. Throws DqError forbidden or
 *  topic_not_found. */
function askedFor(request: FastifyRequest, topic: string | null = null) {
  if (topic !== null) requireTopic(request, nameToFind(topic));
  return { topic, topics: rightsOf(request).topics };
}

function endpointJson(part: EndpointPart, failures: ReadonlyMap<string, TopicFailures>, now: number) {
  const { origin, topics, inFlight, lastSuccessAt, lastFailureAt, lastReason } = part;
  const failuresInRow = Math.max(0, ...topics.map((name) => failures.get(name)?.failuresInRow ?? 0));
  const count = part.delivered + part.failed;
  return {
    origin,
    topics: topics.slice(0, endpointTopicsMax),
    topicCount: topics.length,
    state: stateOf(part, failuresInRow, now),
    inFlight,
    failuresInRow,
    lastSuccessAt: formatInstantOrNull(lastSuccessAt),
    lastFailureAt: formatInstantOrNull(lastFailureAt),
    lastReason,
    attempts: count,
    successRate: count === 0 ? null : part.delivered / count,
    p95Ms: durationAt(0.95, part),
  };
}

function stateOf(part: EndpointPart, failuresInRow: number, now: number): (typeof endpointStates)[number] {
  if (part.isProbing) return 'probing';
  return isFailing({ ...part, failuresInRow }, now) ? 'failing' : 'healthy';
}

interface Counted {
  readonly delivered: number;
  readonly failed: number;
  readonly failuresInRow: number;
  /** epoch ms; null: unknown */
  readonly lastFailureAt: number | null;
}

/** Whether attempts fail, of an endpoint or of a topic: of many a part, or the last ones in a row. `now`:
 *  storage clock */
export function isFailing(counted: Counted, now: number): boolean {
  const { failingPercent, failingAttempts, failingInRow } = contractLimits;
  const { delivered, failed, failuresInRow } = counted;
  const count = delivered + failed;
  const fails = count >= failingAttempts && failed * 100 >= count * failingPercent;
  return failuresInRow >= failingInRow || (fails && !hasRecovered(counted, now));
}

/** The failures within the window have an end. */
function hasRecovered({ failed, failuresInRow, lastFailureAt }: Counted, now: number): boolean {
  if (failuresInRow > 0 || lastFailureAt === null) return false;
  return now - lastFailureAt > Math.max(contractLimits.failingQuietMs, (3 * endpointWindowMs) / failed);
}
