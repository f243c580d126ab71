// POST /v1/topics/{topic}/test-call: a notifier makes one real call of the topic's callback, or of a draft of
// the topic, and dq stores and counts nothing. The body is a job's body.
// Invariant: at most apiLimits.testCallsPerMinute calls a minute leave this process, because each of them
// reaches a receiver.

import { Type } from 'typebox';
import { DqError, invalidField } from '../../../core/errors.ts';
import { maskedValue, parseTopicInput } from '../../../core/topic/settings.ts';
import { unknownBroker } from '../../../core/topic/target.ts';
import type { Topic } from '../../../core/topic/topic.ts';
import type { TestCallResult } from '../../../process/questions.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { checkContent, pushTerms } from '../../../use-cases/accept-job.ts';
import {
  checkNamed,
  draftTopic,
  getTopic,
  requireDelivery,
  topicNotFound,
} from '../../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { seesHeaderValues } from '../../http/route-access.ts';
import { closed, count, nullable, problems, reply, text, topicParam } from '../../http/schemas.ts';
import { apiLimits } from '../../limits.ts';
import type { MasterQuestions } from '../../master-questions.ts';
import { nameToFind } from './topic-routes.ts';

const TestCallInput = closed(
  {
    body: Type.Optional(text("body of the call, as a push would have it; default '{}'", '{"order":4711}')),
    contentType: Type.Optional(
      nullable('string', {
        description: 'content type of the body; null: none; default application/json',
        examples: ['application/json'],
      }),
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
const Headers = Type.Record(Type.String(), Type.String(), {
  description: 'by name; values of the topic for the scope admin only',
  examples: [{ 'dq-test': 'true' }],
});
const phase = (what: string) =>
  nullable('integer', { description: `${what}, ms; null: did not take place`, examples: [3] });
const TestCallReply = closed(
  {
    request: closed(
      {
        method: text('HTTP method; of delivery mq PUBLISH', 'POST'),
        url: text('called URL; of delivery mq the target', 'https://shop.example/dq'),
        headers: Headers,
        body: text('sent body', '{}'),
      },
      { title: 'TestRequest' },
    ),
    reply: Type.Union(
      [
        closed(
          {
            status: Type.Integer({ description: 'HTTP status', examples: [200] }),
            headers: Type.Array(Type.String(), {
              description: '`name: value`, without secrets',
              examples: [['content-type: application/json']],
            }),
            body: text('start of the body, control characters escaped', '{"code":200}'),
            cut: Type.Boolean({ description: 'the body is longer', examples: [false] }),
          },
          { title: 'TestReply' },
        ),
        Type.Null(),
      ],
      { description: 'null: no whole reply came, or a broker has confirmed the message', examples: [null] },
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
        outcome: Type.Enum(['delivered', 'failed', 'not_started'], {
          description: 'how the call ended; not_started: the look-up of the host name got no turn',
        }),
        reason: nullable('string', { description: 'why it failed; null: it did not', examples: ['rule'] }),
        detail: text('the failure, where no whole reply came; else empty', 'ECONNREFUSED 10.0.0.8:80'),
        next: nullable('string', {
          description:
            'what dq would do with a job after its first attempt: ack, retry or bury; null: not_started',
          examples: ['retry'],
        }),
        delayMs: nullable('integer', {
          description: 'until the next attempt, without jitter, ms; null: none would follow',
          examples: [60_000],
        }),
      },
      { title: 'TestVerdict' },
    ),
    ruleValues: Type.Union([Type.Record(Type.String(), Type.String()), Type.Null()], {
      description: 'value of each reference of the retry rule, as JSON; null: no rule or no reply',
      examples: [{ '{res.code}': '200' }],
    }),
    notifier: text('process that made the call', 'dq-notifier-0'),
  },
  { title: 'TestCall' },
);
const schema = {
  operationId: 'testCall',
  tags: ['topics'],
  summary:
    'Make one real call of a topic, or of a draft, or publish one message; nothing is stored or counted',
  description: `The call has the header dq-test: true and a signature. At most ${apiLimits.testCallsPerMinute} per minute. It waits for the topic's timeout, at most 30 s.`,
  params: closed(topicParam),
  body: TestCallInput,
  response: { 200: reply('what happened', TestCallReply), ...problems(404, 409, 413, 415, 429, 503) },
};

export function testCallRoute(api: Api, { role, egress }: ApiContext, questions: MasterQuestions): void {
  const { registry, config } = role;
  const recent = new RecentCalls();

  api.post(
    '/v1/topics/:topic/test-call',
    { schema, config: { access: { scope: 'operate', topics: 'path' } } },
    async (request) => {
      const name = nameToFind(request.params.topic);
      const { body = '{}', draft } = request.body;
      const contentType =
        (request.body.contentType as string | null | undefined) ?? defaultType(request.body);
      if (draft !== undefined && !seesHeaderValues(request))
        throw new DqError('forbidden', 'draft: needs the scope admin; leave it out');
      if (Buffer.byteLength(body) > apiLimits.testBodyBytesMax)
        throw invalidField('body', `must be at most ${apiLimits.testBodyBytesMax} bytes`);
      const topic = await topicToCall(name, draft);
      requireDelivery(topic, 'push', 'mq');
      if (topic.delivery === 'mq' && !egress.brokers.has(topic.target.broker))
        throw invalidField('target.broker', unknownBroker(egress.brokers));
      checkContent({ contentType, body: Buffer.from(body), isLiteral: true }, topic, pushTerms(role));
      if (config.noDeliveries)
        throw new DqError('unavailable', 'dq was started with --no-deliveries; start it without');
      recent.add(monotonicNow());
      const asked = { topic, body, contentType };
      const wait = { waitMs: apiLimits.testCallMs, toOne: true };
      const [called] = (await questions.ask('test_call', asked, wait)) ?? [];
      if (called === undefined || called.answer === null)
        throw new DqError('unavailable', 'notifiers: no answer; try again');
      const shown = seesHeaderValues(request) ? called.answer : masked(called.answer, topic);
      return { ...shown, notifier: called.process };
    },
  );

  /** Rejects with topic_not_found, or with invalid for a bad draft. */
  async function topicToCall(name: string, draft: object | undefined): Promise<Topic> {
    const known = await getTopic(registry, name);
    if (draft === undefined) {
      if (known === null) throw topicNotFound(name);
      return known;
    }
    const parsed = parseTopicInput(draft, egress, known === null);
    if (!parsed.ok) throw parsed.error;
    checkNamed(name, parsed.input);
    return draftTopic(known, name, parsed.input);
  }
}

const defaultType = ({ contentType }: { readonly contentType?: unknown }) =>
  contentType === undefined ? 'application/json' : null;

function masked(result: TestCallResult, { headers }: Topic): TestCallResult {
  const hidden = Object.fromEntries(Object.keys(headers).map((name) => [name, maskedValue]));
  return { ...result, request: { ...result.request, headers: { ...result.request.headers, ...hidden } } };
}

class RecentCalls {
  #at: number[] = [];

  /** `nowMs`: monotonicNow(). Throws DqError too_many_test_calls. */
  add(nowMs: number): void {
    this.#at = this.#at.filter((at) => at > nowMs - 60_000);
    if (this.#at.length >= apiLimits.testCallsPerMinute)
      throw new DqError('too_many_test_calls', 'too many test calls; wait a minute');
    this.#at.push(nowMs);
  }
}
