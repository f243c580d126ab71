// A job: what it is, why it waits, what happened to it, and the verbs that move it.

import { Type } from 'typebox';
import { capacityCodes } from '../../core/capacity-reasons.ts';
import { alertStates, endStates, flowEvents, jobStates } from '../../core/job.ts';
import { heldCodes, whyCodes } from '../../core/job-why.ts';
import { limits } from '../../core/limits.ts';
import type { BackoffJson } from '../../core/topic/backoff.ts';
import { topicFields } from '../../core/topic/fields.ts';
import { contractLimits } from './limits.ts';
import {
  attemptReasonOrNull,
  CreatedAt,
  closed,
  count,
  countOrNull,
  DeadReason,
  DueAt,
  durationText,
  FinishedAttempts,
  FirstDueAt,
  flag,
  instant,
  instantOrNull,
  instantText,
  JobId,
  type JsonOf,
  jobParams,
  orNull,
  pageOf,
  pagingParams,
  problems,
  type ReplyOf,
  reply,
  State,
  TopicName,
  text,
  textOrInteger,
  textOrNull,
  texts,
  traceparent,
  tracestate,
  Version,
  yes,
} from './schema.ts';

/** For the schema of a verb. */
const versionCondition =
  'With the header If-Match (the version of the job as it was read) a job that was pushed or moved since then stays as it is: 412.';

const attemptNumber = Type.Integer({ description: 'number of the attempt, from 1', examples: [1] });

const Attempt = Type.Object(
  {
    attempt: attemptNumber,
    startedAt: instant('when the attempt began'),
    durationMs: Type.Number({ description: 'from DNS to the last byte of the reply', examples: [41.5] }),
    latenessMs: Type.Optional(count('milliseconds from the due time to the start', 5)),
    outcome: Type.Enum(['delivered', 'failed'], { description: 'how the attempt ended' }),
    status: countOrNull('HTTP status; null without a reply', 500),
    reason: attemptReasonOrNull('why it failed; null: it did not'),
    replyExcerpt: text('start of the reply', 'internal error'),
    notifier: text('process that made the attempt', 'dq-notifier-0'),
    host: text('machine of that process', 'worker-1'),
    traceparent: traceparent('trace context that the request carried; absent: the push brought none'),
    detail: Type.Optional(
      text('the failure of a call without a whole reply', 'connect ECONNREFUSED 10.0.0.8:80'),
    ),
    ruleValues: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'reason `rule`: references of the retry rule, each with its value as JSON, shortened',
        examples: [{ '{res.code}': '500' }],
      }),
    ),
    replyHeaders: Type.Optional(
      texts('headers of the reply of a failed attempt, shortened, without cookies', ['server: nginx/1.24.0']),
    ),
    nextDelayMs: Type.Optional(count('the wait that follows; absent: no attempt follows', 60_000)),
    nextBy: Type.Optional(Type.Enum(['backoff', 'retry_after'], { description: 'what decided nextDelayMs' })),
    beforeRequeue: Type.Optional(
      flag('true: before the last requeue, which starts the numbers from 1; else absent', true),
    ),
  },
  { title: 'Attempt' },
);
export type AttemptJson = JsonOf<typeof Attempt>;

export const CapacityReason = closed(
  {
    code: Type.Enum([...capacityCodes], { description: 'why; stable' }),
    message: text('what holds the jobs', 'no job waits for a call: 3 delayed, 0 running, 1 dead'),
    remedy: text('what to do', 'a delayed job is called when it is due'),
    values: Type.Record(Type.String(), Type.Union([Type.Number(), Type.String()]), {
      description: 'numbers and names of the message',
      examples: [{ delayed: 3 }],
    }),
  },
  { title: 'CapacityReason' },
);
export type CapacityReasonJson = JsonOf<typeof CapacityReason>;

const Why = Type.Object(
  {
    code: Type.Enum([...whyCodes], {
      description:
        '`not_promoted`: due for longer than the option pollCeiling, and dq-timer (dq-upkeep with profile small) has not made it ready · `held`: another rule of the notifiers · `unknown`: no answer in time · `ahead`: other jobs go first · `leased`: reserved, and no notifier of this instance says that it calls it',
    }),
    at: Type.Optional(
      instant(
        'waits_until_due, waits_to_retry, waits_again, not_promoted: when it is due; dead, ended: since when',
      ),
    ),
    held: Type.Optional(Type.Enum([...heldCodes], { description: 'it will be held when it is ready' })),
    ahead: Type.Optional(
      countOrNull('ready jobs of its topic and priority that go first, at most 1,000; null: not counted', 12),
    ),
    likelyAt: Type.Optional(
      instant('of one job behind others: when it is likely called, at the pace of the last 5 minutes'),
    ),
    since: Type.Optional(instant('running: start of the attempt')),
    notifier: Type.Optional(text('running: process that makes it', 'dq-notifier-0')),
    reasons: Type.Optional(Type.Array(CapacityReason, { description: 'what the notifiers say' })),
  },
  { title: 'Why' },
);

/** Given with the push in place of the topic's; absent without one. */
const jobOptions = {
  again: Type.Optional(count('how often its receiver or client has snoozed it', 3)),
  backoff: Type.Optional(
    Type.Unsafe<BackoffJson>({ description: 'its own backoff, as of a topic', examples: [['15s', '3m']] }),
  ),
  deadline: Type.Optional(instant('no attempt starts later; the job is buried as `expired`')),
  lease: Type.Optional(text('its own lease, for a pull topic', '5m')),
  traceparent: traceparent('trace context of the push'),
  tracestate,
};

const Job = Type.Object(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    state: Type.Enum([...jobStates, ...endStates], {
      description: `state of the job; for the time of the option history.retention also ${endStates.join(', ')}`,
    }),
    dueAt: DueAt,
    firstDueAt: Type.Optional(FirstDueAt),
    createdAt: CreatedAt,
    deadAt: Type.Optional(instant('when the job died; only for dead jobs')),
    deadReason: Type.Optional(DeadReason),
    alert: Type.Optional(
      orNull(
        Type.Enum([...alertStates]),
        'state of the mail about its death, as in /v1/alerts; null: none; only for dead jobs',
        'sent',
      ),
    ),
    endedAt: Type.Optional(instant('when the job ended; absent while it is stored')),
    keptUntil: Type.Optional(
      instant('dead: dead.retention, ended: history.retention; dq removes the job later than this'),
    ),
    attempt: FinishedAttempts,
    maxAttempts: countOrNull('maxAttempts of the job, or of the topic; null without the topic', 10),
    ...jobOptions,
    why: Why,
    webhookId: text('header webhook-id of each of its callbacks', 'msg_0123456789abcdefghijklmno'),
    strikes: Type.Optional(count('leases that dead or silent notifiers lost since the last attempt', 0)),
    shard: Type.Optional(
      textOrNull('id of its shard; null: one of several; absent: the embedded store', '0f1e2d3c4b5a6978'),
    ),
    nextAttempts: Type.Optional(
      Type.Array(
        Type.Object({ attempt: attemptNumber, at: instant('the earliest time, if those before fail') }),
        {
          maxItems: limits.plannedMax,
          description: `the next ${limits.plannedMax} attempts at most; absent without the topic`,
        },
      ),
    ),
    contentType: Type.Optional(
      textOrNull('content type of the body; null: the push had none', 'application/json'),
    ),
    bytes: Type.Optional(count('bytes of the body', 14)),
    body: Type.Optional(text('the body, if it is UTF-8; absent after the end of the job', '{"order":4711}')),
    bodyBase64: Type.Optional(text('the body in base64, if it is not UTF-8', '/w==')),
    attempts: Type.Array(Attempt, {
      maxItems: limits.attemptsKept,
      description: `the last ${limits.attemptsKept} attempts, also those before a requeue`,
    }),
  },
  { title: 'Job' },
);
export type JobJson = JsonOf<typeof Job>;

export const getJobSchema = {
  operationId: 'getJob',
  tags: ['jobs'],
  summary: 'Read a job, and why it waits; after its end, without its body',
  params: closed(jobParams),
  response: { 200: reply('the job', Job), ...problems(404, 503) },
};

export const cancelSchema = {
  operationId: 'cancel',
  tags: ['jobs'],
  summary: 'Cancel a job in any state',
  description: versionCondition,
  params: closed(jobParams),
  response: {
    200: reply(
      'the job is removed',
      Type.Object({
        cancelled: yes,
        inFlight: flag('an attempt of the job is running, or may be'),
      }),
    ),
    ...problems(404, 412, 413, 503),
  },
};

const CallbackRequest = Type.Object(
  {
    method: text('HTTP method', 'POST'),
    url: text('with the query of this job', 'https://shop.example.org/close'),
    headers: Type.Record(Type.String(), Type.String(), {
      description: "signed now; values of the topic's headers only with the scope admin",
      examples: [{ 'content-type': 'application/json' }],
    }),
    body: Type.Optional(text('the bytes, if they are UTF-8', '{"order":4711}')),
    bodyBase64: Type.Optional(text('the bytes in base64, if they are not UTF-8', '/w==')),
    at: instant('time of the signature; receivers accept it for about 5 minutes'),
  },
  { title: 'CallbackRequest' },
);

export const jobRequestSchema = {
  operationId: 'jobRequest',
  tags: ['jobs'],
  summary: 'The callback of a job as dq would send it now; sends nothing',
  params: closed(jobParams),
  response: { 200: reply('the request', CallbackRequest), ...problems(404, 409, 413, 503) },
};

const MovedJob = closed(
  { topic: TopicName, id: JobId, version: Version, state: State, dueAt: DueAt },
  { title: 'MovedJob' },
);
export type MovedJobJson = JsonOf<typeof MovedJob>;

const verb = {
  tags: ['jobs'],
  params: closed(jobParams),
  description: versionCondition,
  response: { 200: reply('the job after the call', MovedJob), ...problems(404, 409, 412, 413, 503) },
};

export const runJobSchema = {
  ...verb,
  operationId: 'runJob',
  summary: 'Deliver now; no effect when the job is ready or reserved',
};

export const rescheduleJobSchema = {
  ...verb,
  operationId: 'rescheduleJob',
  summary: 'Deliver at another time (delay or at); finished attempts still count',
  querystring: closed({
    delay: durationText('time from now until the next attempt'),
    at: instantText('when the next attempt is due'),
  }),
};

export const requeueJobSchema = {
  ...verb,
  operationId: 'requeueJob',
  summary: 'Requeue a dead letter; its attempts start again',
};

export const editJobSchema = {
  ...verb,
  operationId: 'editJob',
  summary: 'Give a delayed, ready or dead job another body or other options',
  description:
    'Needs the header If-Match, the version of the job as it was read. A job with another version stays as it is: 412, with the member `job` for a token with the scope `read`. Absent members stay. A job in an attempt stays as it is, too: 409. A dead letter is edited with `requeue` only: one step.',
  response: { ...verb.response, ...problems(404, 409, 412, 413, 415, 503) },
};

const EditInput = closed(
  {
    body: Type.Optional(
      Type.Unknown({
        description:
          'any JSON value; dq delivers exactly the characters of the request. Of a job with another contentType than application/json: a string, whose text dq delivers',
        examples: [{ order: 4711 }],
      }),
    ),
    contentType: Type.Optional(text('content type of the body', 'application/json')),
    delay: Type.Optional(textOrInteger('time from now until the next attempt', '5m')),
    at: Type.Optional(
      textOrInteger(
        'when the next attempt is due: RFC 3339 with an offset, or epoch milliseconds',
        '2030-01-01T08:00:00+08:00',
      ),
    ),
    maxAttempts: Type.Optional(textOrInteger('attempts of this job in all', '3')),
    backoff: Type.Optional(
      Type.Unsafe<unknown>({
        ...topicFields.backoff.schema,
        description: 'waits between attempts of this job',
        examples: [['15s', '3m', '1h']],
      }),
    ),
    deadline: Type.Optional(
      textOrInteger('no attempt starts later: a duration from now, or a time as of `at`', '2h'),
    ),
    requeue: Type.Optional(
      flag('of a dead letter: its attempts start again, now or as `delay` or `at` says', true),
    ),
    newWebhookId: Type.Optional(
      flag('the callbacks get another `webhook-id`, for receivers that remember the old one', true),
    ),
  },
  { title: 'EditInput' },
);

export const editBody = { content: { 'application/json': { schema: EditInput } } };

const FlowEntry = closed(
  {
    at: instant('when it happened'),
    version: textOrNull('version of the job; null: unknown', '1893456000000001'),
    event: Type.Enum([...flowEvents], {
      description:
        '`retried`: an attempt failed and another one follows · `restored`: put back after Redis had lost it',
    }),
    dueAt: instantOrNull('when the job was due after this; null: unknown'),
    process: textOrNull('process that did it; null: unknown', 'dq-server-0'),
    host: textOrNull('machine of that process', 'worker-1'),
    place: textOrNull('shard and bucket; null: unknown', '0f1e2d3c4b5a6978:0'),
    attempt: orNull(Attempt, 'null: not an attempt, or none is kept'),
  },
  { title: 'FlowEntry' },
);

export const jobFlowSchema = {
  operationId: 'jobFlow',
  tags: ['jobs'],
  summary: 'What happened to a job, oldest first; with a journal also long after its end',
  params: closed(jobParams),
  response: {
    200: reply(
      'its flow',
      closed(
        {
          journal: flag('true: every change of journal.retention; false: what the store still knows', true),
          entries: Type.Array(FlowEntry, {
            description: `oldest first; the newest ${contractLimits.flowMax} changes of the journal`,
          }),
        },
        { title: 'Flow' },
      ),
    ),
    ...problems(404, 503),
  },
};
export type FlowJson = ReplyOf<typeof jobFlowSchema>;

const shownStates = [...jobStates, ...endStates];

const JobSummary = closed(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    state: Type.Enum(shownStates, { description: 'state of the job' }),
    dueAt: DueAt,
    createdAt: CreatedAt,
    attempt: FinishedAttempts,
    held: Type.Optional(
      Type.Enum([...heldCodes], {
        description: 'why dq holds it, or will when it is due; absent: it does not, or the job does not wait',
      }),
    ),
    deadAt: Type.Optional(instant('when the job died; only for dead jobs')),
    endedAt: Type.Optional(instant('when the job ended; only for ended jobs')),
  },
  { title: 'JobSummary' },
);
export type JobSummaryJson = JsonOf<typeof JobSummary>;

const Scanned = closed(
  {
    jobs: count('jobs that this call examined', 31_000),
    of: count('about how many the whole search examines', 1_000_000),
  },
  { description: 'only with idPrefix or body' },
);

export const searchJobsSchema = {
  operationId: 'searchJobs',
  tags: ['jobs'],
  summary: 'Jobs by due time, earliest first; ended jobs by end, latest first',
  description:
    'A page can be short or empty although nextCursor is set: each call examines a bounded number of jobs. ' +
    'A search by idPrefix or body covers the topics that the caller may see, and has no order; on Redis a page ' +
    'can be longer than limit.',
  querystring: closed({
    topic: Type.Optional(text('only jobs of this topic', 'order.close')),
    state: Type.Optional(
      Type.Enum(shownStates, {
        description: 'only jobs in this state; default: every state but the ended ones',
      }),
    ),
    id: Type.Optional(text('only jobs with this id', '4711')),
    idPrefix: Type.Optional(text('only jobs whose id begins with this; no ended jobs', 'vip-2026')),
    body: Type.Optional(
      text(
        `only jobs with this part in their body: ${limits.bodyPartBytesMin}–${limits.bodyPartBytesMax} bytes of UTF-8; no ended jobs`,
        '"order":88120',
      ),
    ),
    since: instantText('due then or later'),
    until: instantText('due before'),
    ...pagingParams,
  }),
  response: {
    200: reply('a page', pageOf(JobSummary, { scanned: Type.Optional(Scanned) })),
    ...problems(404, 503),
  },
};
