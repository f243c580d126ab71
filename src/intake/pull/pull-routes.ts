// POST /v1/pull and the calls of a puller's leases: ack, nack, extend. Only the port of the API has them.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Api, ApiContext } from '../../api/api-context.ts';
import type { Admit } from '../../api/http/http-front.ts';
import { mayTouch, permits, requireTopic, rightsOf } from '../../api/http/route-access.ts';
import {
  closed,
  count,
  DueAt,
  instant,
  JobId,
  problems,
  reply,
  TopicName,
  text,
  topicParam,
  Version,
} from '../../api/http/schemas.ts';
import { bodyJson } from '../../api/routes/job-json.ts';
import { formatDuration } from '../../core/duration.ts';
import { catalogue, DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { clientOf } from '../../core/token.ts';
import { pullLimits } from './limits.ts';
import { PullCalls, type LeaseResult as Result, readLeaseLength, readWait } from './pull-calls.ts';
import { pullForClient } from './pull-for-client.ts';
import type { PulledLeases } from './pulled-leases.ts';
import type { Puller } from './puller.ts';

const tags = ['pull'];
const Lease = text('opaque; give it to ack, nack or extend', 'WyJvcmRlci5jbG9zZSIsIjQ3MTEiXQ');
const shortest = formatDuration(limits.pullLeaseMsMin);
const longest = formatDuration(limits.pullLeaseMsMax);
const leaseHelp = `lease of jobs without one of their own, ${shortest} to ${longest}; default: that of the topic`;
const waitHelp = `how long to wait for a job, at most ${formatDuration(pullLimits.waitMsMax)}; default 0`;

const PulledJobJson = Type.Object(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    webhookId: text('the same on every attempt of this job', 'msg_2f1c'),
    lease: Lease,
    leaseUntil: instant('when the lease ends: answer before'),
    attempt: count('number of this attempt', 1),
    maxAttempts: count('attempts in all', 10),
    dueAt: DueAt,
    createdAt: instant('when dq accepted the job'),
    traceparent: Type.Optional(
      text('trace context of the push', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),
    ),
    tracestate: Type.Optional(text('with traceparent', 'vendor=value')),
    contentType: Type.Unsafe<unknown>({
      type: ['string', 'null'],
      description: 'as pushed',
      examples: ['application/json'],
    }),
    body: Type.Optional(text('as pushed, if it is UTF-8', '{"order":4711}')),
    bodyBase64: Type.Optional(text('as pushed, if it is not UTF-8', 'AAEC')),
  },
  { title: 'PulledJob' },
);
const Pulled = closed(
  { items: Type.Array(PulledJobJson, { description: 'empty when no job was due in time' }) },
  { title: 'Pulled' },
);
const LeaseResult = Type.Object(
  {
    status: Type.Integer({
      description: '200: done; 403: not your topic; 409: the lease is lost; 503: not done, or unknown',
      examples: [200],
    }),
    code: Type.Optional(text('why not', 'lease_lost')),
    leaseUntil: Type.Optional(instant('extend: when the lease ends now')),
  },
  { title: 'LeaseResult' },
);
const LeaseResults = closed(
  { results: Type.Array(LeaseResult, { description: 'one per lease, in order' }) },
  { title: 'LeaseResults' },
);
const Leases = Type.Array(Lease, {
  minItems: 1,
  maxItems: pullLimits.leasesMax,
  description: 'leases of pulled jobs',
});
const durationOf = (description: string, example: string) =>
  Type.Unsafe<string | number>({ type: ['string', 'integer'], description, examples: [example] });

const pullErrors = problems(404, 409, 413, 415, 503);
const topicSchema = {
  operationId: 'pullTopic',
  tags,
  summary: 'Take due jobs of a pull topic',
  description:
    'Each job comes with a lease. A lease that ends without ack or nack is a failed attempt. An answer that is lost costs the same.',
  params: closed(topicParam),
  querystring: closed({
    max: Type.Optional(text(`jobs at most, 1 to ${pullLimits.jobsMax}; default 1`, '10')),
    wait: Type.Optional(text(waitHelp, '30s')),
    lease: Type.Optional(text(leaseHelp, '5m')),
  }),
  response: { 200: reply('the jobs', Pulled), ...pullErrors },
};
const topicsSchema = {
  operationId: 'pull',
  tags,
  summary: 'Take due jobs of several pull topics, which take turns',
  body: closed(
    {
      topics: Type.Array(TopicName, {
        minItems: 1,
        maxItems: pullLimits.topicsMax,
        description: 'pull topics',
      }),
      max: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: pullLimits.jobsMax,
          default: 1,
          description: 'jobs at most',
          examples: [10],
        }),
      ),
      wait: Type.Optional(durationOf(waitHelp, '30s')),
      lease: Type.Optional(durationOf(leaseHelp, '5m')),
    },
    { title: 'PullInput' },
  ),
  response: { 200: reply('the jobs', Pulled), ...pullErrors },
};
const leaseErrors = problems(413, 415, 503);
const ackSchema = {
  operationId: 'ackLeases',
  tags,
  summary: 'Jobs are done',
  description: 'A late ack counts until dq has given the job to another client.',
  body: closed({ leases: Leases }, { title: 'AckInput' }),
  response: { 200: reply('a result per lease', LeaseResults), ...leaseErrors },
};
const nackSchema = {
  operationId: 'nackLeases',
  tags,
  summary: 'Attempts have failed',
  body: closed(
    {
      leases: Leases,
      delay: Type.Optional(durationOf('until the next attempt; default: the backoff of the topic', '30s')),
      reason: Type.Optional(
        Type.String({
          maxLength: pullLimits.reasonCharsMax,
          description: 'kept with the attempt',
          examples: ['order is locked'],
        }),
      ),
      dead: Type.Optional(
        Type.Boolean({
          default: false,
          description: 'no further attempt: the job becomes a dead letter',
          examples: [true],
        }),
      ),
      release: Type.Optional(
        Type.Boolean({
          default: false,
          description: 'back in its place at once; counts no attempt. Not with the others',
          examples: [true],
        }),
      ),
    },
    { title: 'NackInput' },
  ),
  response: { 200: reply('a result per lease', LeaseResults), ...leaseErrors },
};
const extendSchema = {
  operationId: 'extendLeases',
  tags,
  summary: 'Leases end later, or sooner',
  body: closed(
    { leases: Leases, for: durationOf(`from now on, ${shortest} to ${longest}`, '5m') },
    { title: 'ExtendInput' },
  ),
  response: { 200: reply('a result per lease', LeaseResults), ...leaseErrors },
};

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
  const access = { scope: 'pull', topics: 'handler' } as const;
  api.post(
    '/v1/topics/:topic/pull',
    { schema: topicSchema, config: { access: { scope: 'pull', topics: 'path' } } },
    (request, answer) => {
      const { max = '1', wait, lease } = request.query;
      return pull(request, answer, { topics: [request.params.topic], max: readMax(max), wait, lease });
    },
  );
  api.post('/v1/pull', { schema: topicsSchema, config: { access } }, (request, answer) => {
    const { topics, max = 1, wait, lease } = request.body;
    for (const topic of topics) requireTopic(request, topic);
    return pull(request, answer, { topics: [...new Set(topics)], max, wait, lease });
  });
  api.post('/v1/leases/ack', { schema: ackSchema, config: { access } }, (request) =>
    calls.ack(request.body.leases, touchedBy(request)).then(resultsJson),
  );
  api.post('/v1/leases/nack', { schema: nackSchema, config: { access } }, (request) => {
    const { leases: given, delay, reason = '', dead = false, release = false } = request.body;
    return calls.nack(given, touchedBy(request), { delay, reason, dead, release }).then(resultsJson);
  });
  api.post('/v1/leases/extend', { schema: extendSchema, config: { access } }, (request) => {
    const { leases: given, for: length } = request.body;
    return calls.extend(given, touchedBy(request), length, 'for').then(resultsJson);
  });

  async function pull(request: FastifyRequest, answer: FastifyReply, given: Given): Promise<object> {
    const waitMs = readWait(given.wait);
    const leaseMs = readLeaseLength(given.lease);
    await Promise.all(given.topics.map((name) => checkTopic(request, name)));
    const pulled = await pullForClient(puller, request.raw.socket, {
      ...{ topics: given.topics, max: given.max, waitMs, leaseMs },
      client: clientOf(rightsOf(request), request.raw.socket.remoteAddress),
      refusal: () => refusalOf(request, given.topics),
    });
    answer.header('cache-control', 'no-store');
    return {
      items: pulled.map((one) => ({
        ...calls.pulled(one),
        ...bodyJson(one.job.body),
      })),
    };
  }

  /** null: the caller of this request may still pull. */
  function refusalOf({ raw }: FastifyRequest, topics: readonly string[]): DqError | null {
    const caller = admit(raw);
    if (caller instanceof DqError) return caller;
    const { scope } = access;
    if (topics.every((topic) => permits(caller, { scope, topics: 'path' }, topic))) return null;
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

const touchedBy = (request: FastifyRequest) => (topic: string) => mayTouch(request, topic);

function resultsJson(results: readonly Result[]): object {
  return {
    results: results.map(({ code, leaseUntil }) => {
      if (code !== undefined) return { status: catalogue[code].status, code };
      return { status: 200, ...(leaseUntil === undefined ? {} : { leaseUntil }) };
    }),
  };
}

function readMax(given: string): number {
  const max = /^\d{1,3}$/.test(given) ? Number(given) : 0;
  if (max >= 1 && max <= pullLimits.jobsMax) return max;
  throw invalidField('max', `must be a whole number from 1 to ${pullLimits.jobsMax}`);
}
