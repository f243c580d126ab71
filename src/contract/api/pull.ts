// Pulling: jobs with their leases, and the answers of clients.

import { Type } from 'typebox';
import { formatDuration } from '../../core/duration.ts';
import { limits } from '../../core/limits.ts';
import { contractLimits } from './limits.ts';
import {
  closed,
  count,
  DueAt,
  instant,
  JobId,
  type JsonOf,
  problems,
  reply,
  TopicName,
  text,
  textOrInteger,
  topicParam,
  traceparent,
  tracestate,
  Version,
} from './schema.ts';

const tags = ['pull'];
const Lease = text('opaque; give it to ack, nack or extend', 'WyJvcmRlci5jbG9zZSIsIjQ3MTEiXQ');
const shortest = formatDuration(limits.pullLeaseMsMin);
const longest = formatDuration(limits.pullLeaseMsMax);
const leaseHelp = `lease of jobs without one of their own, ${shortest} to ${longest}; default: that of the topic`;
const waitHelp = `how long to wait for a job, at most ${formatDuration(contractLimits.pullWaitMsMax)}; default 0`;

const PulledJob = Type.Object(
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
    traceparent: traceparent('trace context of the push'),
    tracestate,
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
export type PulledJobJson = JsonOf<typeof PulledJob>;

const Pulled = closed(
  { items: Type.Array(PulledJob, { description: 'empty when no job was due in time' }) },
  { title: 'Pulled' },
);
export type PulledJson = JsonOf<typeof Pulled>;

const LeaseResult = Type.Object(
  {
    status: Type.Integer({
      description:
        '200: done; 400: no text of a lease; 403: not your topic; 409: the lease is lost; ' +
        '503: not done, or unknown',
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
export type LeaseResultsJson = JsonOf<typeof LeaseResults>;

const Leases = Type.Array(Lease, {
  minItems: 1,
  maxItems: contractLimits.pullCallLeasesMax,
  description: 'leases of pulled jobs',
});

const pullErrors = problems(404, 409, 413, 415, 503);

export const pullTopicSchema = {
  operationId: 'pullTopic',
  tags,
  summary: 'Take due jobs of a pull topic',
  description:
    'Each job comes with a lease. A lease that ends without ack or nack is a failed attempt. An answer that is lost costs the same.',
  params: closed(topicParam),
  querystring: closed({
    max: Type.Optional(text(`jobs at most, 1 to ${contractLimits.pullJobsMax}; default 1`, '10')),
    wait: Type.Optional(text(waitHelp, '30s')),
    lease: Type.Optional(text(leaseHelp, '5m')),
  }),
  response: { 200: reply('the jobs', Pulled), ...pullErrors },
};

export const pullSchema = {
  operationId: 'pull',
  tags,
  summary: 'Take due jobs of several pull topics, which take turns',
  body: closed(
    {
      topics: Type.Array(TopicName, {
        minItems: 1,
        maxItems: contractLimits.pullTopicsMax,
        description: 'pull topics',
      }),
      max: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: contractLimits.pullJobsMax,
          default: 1,
          description: 'jobs at most',
          examples: [10],
        }),
      ),
      wait: Type.Optional(textOrInteger(waitHelp, '30s')),
      lease: Type.Optional(textOrInteger(leaseHelp, '5m')),
    },
    { title: 'PullInput' },
  ),
  response: { 200: reply('the jobs', Pulled), ...pullErrors },
};

const leaseErrors = problems(413, 415, 503);

export const ackLeasesSchema = {
  operationId: 'ackLeases',
  tags,
  summary: 'Jobs are done',
  description: 'A late ack counts until dq has given the job to another client.',
  body: closed(
    {
      leases: Leases,
      result: Type.Optional(
        Type.Unknown({
          description: '`reply` of the jobs that `onDone` of the topics pushes; any JSON, at most 64 KiB',
          examples: [{ code: 0 }],
        }),
      ),
    },
    { title: 'AckInput' },
  ),
  response: { 200: reply('a result per lease', LeaseResults), ...leaseErrors },
};

export const nackLeasesSchema = {
  operationId: 'nackLeases',
  tags,
  summary: 'Attempts have failed',
  body: closed(
    {
      leases: Leases,
      delay: Type.Optional(
        textOrInteger(
          'until the next attempt; default: the backoff of the topic; with release 1s to 30d',
          '30s',
        ),
      ),
      reason: Type.Optional(
        Type.String({
          maxLength: contractLimits.nackReasonCharsMax,
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
          description:
            'back in its place at once, or after `delay`; counts no attempt. Not with reason or dead',
          examples: [true],
        }),
      ),
    },
    { title: 'NackInput' },
  ),
  response: { 200: reply('a result per lease', LeaseResults), ...leaseErrors },
};

export const extendLeasesSchema = {
  operationId: 'extendLeases',
  tags,
  summary: 'Leases end later, or sooner',
  body: closed(
    { leases: Leases, for: textOrInteger(`from now on, ${shortest} to ${longest}`, '5m') },
    { title: 'ExtendInput' },
  ),
  response: { 200: reply('a result per lease', LeaseResults), ...leaseErrors },
};
