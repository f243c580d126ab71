// The newest attempts of an instance, and the endpoints that it calls.

import { Type } from 'typebox';
import { contractLimits } from './limits.ts';
import {
  attemptReasonOrNull,
  closed,
  count,
  countOrNull,
  instant,
  instantOrNull,
  JobId,
  type JsonOf,
  limitParam,
  numberOrNull,
  problems,
  reply,
  TopicName,
  text,
  texts,
  Version,
} from './schema.ts';

const outcome = Type.Enum(['delivered', 'again', 'failed'], {
  description: 'how the attempt ended; again: in a snooze',
});

const AttemptSample = closed(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    attempt: Type.Integer({ description: 'number of the attempt, from 1', examples: [1] }),
    startedAt: instant('when the attempt began'),
    durationMs: count('how long it took, ms', 31),
    latenessMs: count('from the due time to the start, ms', 12),
    outcome,
    reason: attemptReasonOrNull('why it failed; null: it did not'),
    status: countOrNull('HTTP status of the reply; null without one', 500),
    replyExcerpt: text('start of the reply', '{"code":500}'),
    detail: text('the failure, where no whole reply came; else empty', 'no whole reply within 3000 ms'),
    origin: text('scheme, host and port that were called', 'https://shop.example'),
    notifier: text('process that made the attempt', 'dq-notifier-0'),
  },
  { title: 'AttemptSample' },
);
export type AttemptSampleJson = JsonOf<typeof AttemptSample>;

const Attempts = closed(
  {
    items: Type.Array(AttemptSample, { description: 'newest first' }),
    since: instant('start of the sample: earlier attempts are unknown'),
    host: text('the machine whose notifiers made the attempts', 'vm-1'),
  },
  { title: 'Attempts' },
);
export type AttemptsJson = JsonOf<typeof Attempts>;

export const listAttemptsSchema = {
  operationId: 'listAttempts',
  tags: ['operation'],
  summary: 'The newest attempts, a sample of this instance',
  description:
    'dq keeps up to 20 failures and 5 successes per second and topic, 200 per topic, and none after a restart.',
  querystring: closed({
    topic: Type.Optional(TopicName),
    outcome: Type.Optional(outcome),
    limit: limitParam('attempts of the reply', contractLimits.attemptsMax, contractLimits.attempts),
  }),
  response: { 200: reply('the attempts', Attempts), ...problems(404, 503) },
};

export const endpointStates = ['healthy', 'failing', 'probing'] as const;

const orNever = (what: string) =>
  instantOrNull(`${what}; RFC 3339, UTC; null: none since the start of the notifiers`);

const Endpoint = closed(
  {
    origin: text('scheme, host and port', 'https://shop.example'),
    topics: texts(`visible topics that were called there, at most ${contractLimits.endpointTopicsMax}`, [
      'order.close',
    ]),
    topicCount: count('all of them', 1),
    state: Type.Enum(endpointStates, {
      description: `probing: a notifier makes few calls until one succeeds; failing: at least ${contractLimits.failingPercent} % of at least ${contractLimits.failingAttempts} attempts failed within 5 minutes, or the last ${contractLimits.failingInRow} of a topic, and not a minute after the last failure; else healthy`,
    }),
    inFlight: count('calls that run now', 3),
    failuresInRow: count('failed attempts of a topic since its last success: of the worst topic'),
    lastSuccessAt: orNever('end of the last successful attempt'),
    lastFailureAt: orNever('end of the last failed attempt'),
    lastReason: attemptReasonOrNull('why it failed'),
    attempts: count('attempts of the last 5 minutes', 120),
    successRate: numberOrNull('share of them that succeeded, 0 to 1; null: no attempt', 0.99),
    p95Ms: countOrNull('95 % of them took at most this, ms; estimated; null: no attempt', 120),
  },
  { title: 'Endpoint' },
);
export type EndpointJson = JsonOf<typeof Endpoint>;

const Endpoints = closed(
  {
    items: Type.Array(Endpoint, { description: 'the most recently called first' }),
    silent: texts('notifiers that did not answer: their calls are not included'),
    host: text('the machine of the notifiers', 'vm-1'),
  },
  { title: 'Endpoints' },
);
export type EndpointsJson = JsonOf<typeof Endpoints>;

export const listEndpointsSchema = {
  operationId: 'listEndpoints',
  tags: ['operation'],
  summary: 'The endpoints that this instance calls',
  querystring: closed({ topic: Type.Optional(TopicName) }),
  response: { 200: reply('the endpoints', Endpoints), ...problems(404, 503) },
};
