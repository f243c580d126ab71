// POST /v1/pull and the calls of a puller's leases: ack, nack, extend. Only the port of the API has them.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Api, ApiContext } from '../../api/api-context.ts';
import type { Admit } from '../../api/http/http-front.ts';
import { mayTouch, needs, permits, requireTopic, rightsOf } from '../../api/http/route-access.ts';
import { bodyJson } from '../../api/routes/job-json.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import {
  ackLeasesSchema,
  extendLeasesSchema,
  nackLeasesSchema,
  pullSchema,
  pullTopicSchema,
} from '../../contract/api/pull.ts';
import { catalogue, DqError, invalidField } from '../../core/errors.ts';
import { clientOf } from '../../core/token.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { PullCalls, type LeaseResult as Result, readLeaseLength, readWait } from './pull-calls.ts';
import { pullForClient } from './pull-for-client.ts';
import type { PulledLeases } from './pulled-leases.ts';
import type { Puller } from './puller.ts';

interface Given {
  readonly topics: readonly string[];
  readonly max: number;
  readonly wait: unknown;
  readonly lease: unknown;
}

export function pullRoutes(
  api: Api,
  { role, suggestion }: ApiContext,
  {
    puller,
    leases,
    admit,
  }: { readonly puller: Puller; readonly leases: PulledLeases; readonly admit: Admit },
): void {
  const calls = new PullCalls(role, leases);
  const config = needs('pull', 'handler');
  api.post(
    '/v1/topics/:topic/pull',
    { schema: pullTopicSchema, config: needs('pull', 'path') },
    (request, answer) => {
      const { max = '1', wait, lease } = request.query;
      return pull(request, answer, { topics: [request.params.topic], max: readMax(max), wait, lease });
    },
  );
  api.post('/v1/pull', { schema: pullSchema, config }, (request, answer) => {
    const { topics, max = 1, wait, lease } = request.body;
    for (const topic of topics) requireTopic(request, topic);
    return pull(request, answer, { topics: [...new Set(topics)], max, wait, lease });
  });
  api.post('/v1/leases/ack', { schema: ackLeasesSchema, config }, (request) =>
    calls.ack(request.body.leases, touchedBy(request), resultOf(request.body.result)).then(resultsJson),
  );
  api.post('/v1/leases/nack', { schema: nackLeasesSchema, config }, (request) => {
    const { leases: given, delay, reason = '', dead = false, release = false } = request.body;
    return calls.nack(given, touchedBy(request), { delay, reason, dead, release }).then(resultsJson);
  });
  api.post('/v1/leases/extend', { schema: extendLeasesSchema, config }, (request) => {
    const { leases: given, for: length } = request.body;
    return calls.extend(given, touchedBy(request), length, 'for').then(resultsJson);
  });

  async function pull(request: FastifyRequest, answer: FastifyReply, given: Given) {
    // The wait begins here: a topic that is not known yet may have to be asked for.
    const until = monotonicNow() + readWait(given.wait);
    const leaseMs = readLeaseLength(given.lease);
    await Promise.all(given.topics.map((name) => checkTopic(request, name)));
    const asked = {
      topics: given.topics,
      max: given.max,
      waitMs: Math.max(0, until - monotonicNow()),
      leaseMs,
      client: clientOf(rightsOf(request), request.raw.socket.remoteAddress),
      refusal: () => refusalOf(request, given.topics),
    };
    return pullForClient(puller, answer.raw, asked, (pulled) => {
      const items = pulled.map((one) => ({
        ...calls.pulled(one),
        ...bodyJson(one.job.body),
      }));
      answer.header('cache-control', 'no-store');
      return { items };
    });
  }

  /** null: the caller of this request may still pull. */
  function refusalOf({ raw }: FastifyRequest, topics: readonly string[]): DqError | null {
    const caller = admit(raw);
    if (caller instanceof DqError) return caller;
    if (topics.every((topic) => permits(caller, 'pull', topic))) return null;
    return new DqError('forbidden', 'the rights of the caller have changed during the wait; call again');
  }

  /** Throws DqError topic_not_found or topic_not_pull. */
  function checkTopic(request: FastifyRequest, name: string): Promise<void> {
    return calls.checkTopic(name).catch((error: unknown) => {
      if (!(error instanceof DqError && error.code === 'topic_not_found')) throw error;
      throw suggestion.added(error, (near) => mayTouch(request, near));
    });
  }
}

const resultOf = (result: unknown): Buffer | null =>
  result === undefined ? null : Buffer.from(JSON.stringify(result));

const touchedBy = (request: FastifyRequest) => (topic: string) => mayTouch(request, topic);

function resultsJson(results: readonly Result[]) {
  return {
    results: results.map(({ code, leaseUntil }) => {
      if (code !== undefined) return { status: catalogue[code].status, code };
      return { status: 200, ...(leaseUntil === undefined ? {} : { leaseUntil }) };
    }),
  };
}

function readMax(given: string): number {
  const max = /^\d{1,3}$/.test(given) ? Number(given) : 0;
  if (max >= 1 && max <= contractLimits.pullJobsMax) return max;
  throw invalidField('max', `must be a whole number from 1 to ${contractLimits.pullJobsMax}`);
}
