// The test call of a topic or of a draft.

import { Type } from 'typebox';
import { contractLimits } from './limits.ts';
import {
  attemptReasonOrNull,
  closed,
  count,
  countOrNull,
  flag,
  type JsonOf,
  orNull,
  problems,
  reply,
  text,
  textOrNull,
  texts,
  topicParam,
} from './schema.ts';

const TestCallInput = closed(
  {
    body: Type.Optional(text("body of the call, as a push would have it; default '{}'", '{"order":4711}')),
    contentType: Type.Optional(
      textOrNull('content type of the body; null: none; default application/json', 'application/json'),
    ),
    draft: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'fields of the topic to try, as in PATCH; for a topic that is not registered, as in POST; scope admin',
          examples: [{ callbackUrl: 'https://shop.example/dq', retryIf: '{res.code}!=200' }],
        },
      ),
    ),
  },
  { title: 'TestCallInput' },
);

const SentHeaders = Type.Record(Type.String(), Type.String(), {
  description: 'by name; values of the topic for the scope admin only',
  examples: [{ 'dq-test': 'true' }],
});

const phase = (what: string) => countOrNull(`${what}, ms; null: did not take place`, 3);

const TestCall = closed(
  {
    request: closed(
      {
        method: text('HTTP method; of delivery mq PUBLISH', 'POST'),
        url: text('called URL; of delivery mq the target', 'https://shop.example/dq'),
        headers: SentHeaders,
        body: text('sent body', '{}'),
      },
      { title: 'TestRequest' },
    ),
    reply: orNull(
      closed(
        {
          status: Type.Integer({ description: 'HTTP status', examples: [200] }),
          headers: texts('`name: value`, without secrets', ['content-type: application/json']),
          body: text('start of the body, control characters escaped', '{"code":200}'),
          cut: flag('the body is longer'),
        },
        { title: 'TestReply' },
      ),
      'null: no whole reply came, or a broker has confirmed the message',
    ),
    phases: closed(
      {
        lookupMs: phase('look-up of the host name'),
        connectMs: phase('connect'),
        tlsMs: phase('TLS handshake'),
        waitMs: phase('from the request to the head of the reply'),
        readMs: phase('the rest of the reply'),
        totalMs: count('all of them, ms', 31),
      },
      { title: 'TestPhases' },
    ),
    verdict: closed(
      {
        outcome: Type.Enum(['delivered', 'again', 'failed', 'not_started'], {
          description:
            'how the call ended; again: in a snooze; not_started: the look-up of the host name got no turn',
        }),
        reason: attemptReasonOrNull('why it failed; null: it did not'),
        detail: text('the failure, where no whole reply came; else empty', 'ECONNREFUSED 10.0.0.8:80'),
        next: textOrNull<'ack' | 'again' | 'retry' | 'bury'>(
          'what dq would do with a job after its first attempt: ack, again, retry or bury; null: not_started',
          'retry',
        ),
        delayMs: countOrNull('until the next attempt, without jitter, ms; null: none would follow', 60_000),
      },
      { title: 'TestVerdict' },
    ),
    ruleValues: orNull(
      Type.Record(Type.String(), Type.String()),
      'value of each reference of the rules, as JSON; null: no rule or no reply',
      { '{res.code}': '200' },
    ),
    notifier: text('process that made the call', 'dq-notifier-0'),
  },
  { title: 'TestCall' },
);
export type TestCallJson = JsonOf<typeof TestCall>;

export const testCallSchema = {
  operationId: 'testCall',
  tags: ['topics'],
  summary:
    'Make one real call of a topic, or of a draft, or publish one message; nothing is stored or counted',
  description: `The call has the header dq-test: true and a signature. At most ${contractLimits.testCallsPerMinute} per minute. It waits for the topic's timeout, at most 30 s.`,
  params: closed(topicParam),
  body: TestCallInput,
  response: { 200: reply('what happened', TestCall), ...problems(404, 409, 413, 415, 429, 503) },
};
