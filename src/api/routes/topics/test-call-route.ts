// POST /v1/topics/{topic}/test-call: a notifier makes one real call of the topic's callback, or of a draft of
// the topic, and dq stores and counts nothing. The body is a job's body.
// Invariant: at most contractLimits.testCallsPerMinute calls a minute leave this process, because each of
// them reaches a receiver.

import { contractLimits } from '../../../contract/api/limits.ts';
import { testCallSchema } from '../../../contract/api/test-call.ts';
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
import { needs, seesHeaderValues } from '../../http/route-access.ts';
import { apiLimits } from '../../limits.ts';
import { nameToFind } from './topic-routes.ts';

export function testCallRoute(api: Api, { role, egress, questions }: ApiContext): void {
  const { registry, config } = role;
  const recent = new RecentCalls();

  api.post(
    '/v1/topics/:topic/test-call',
    { schema: testCallSchema, config: needs('operate', 'path') },
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
    if (this.#at.length >= contractLimits.testCallsPerMinute)
      throw new DqError('too_many_test_calls', 'too many test calls; wait a minute');
    this.#at.push(nowMs);
  }
}
