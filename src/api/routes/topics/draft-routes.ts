// Tries a topic, or a draft of one before it is saved; dq stores and counts nothing.
// POST /v1/topics/preview: mistakes by field, the waits between its attempts, and for the scope admin where
// its callbacks would go. POST /v1/rules/test evaluates a rule on a reply, or judges the reply as the topic
// does, with the notifier's code. POST /v1/topics/{topic}/test-call: a notifier makes one real call of the
// callback. Its body is a job's body.
// Invariant: at most contractLimits.testCallsPerMinute test calls a minute leave this process, because each
// of them reaches a receiver.

import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { contractLimits } from '../../../contract/api/limits.ts';
import { testCallSchema } from '../../../contract/api/test-call.ts';
import {
  type CallbackDestinationJson,
  previewTopicSchema,
  TopicPatch,
  testRuleSchema,
} from '../../../contract/api/topic.ts';
import { DqError, invalidField } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { backoffMs } from '../../../core/retry-policy.ts';
import { evaluateRule, parseRule, ruleValues } from '../../../core/rule/reply-rule.ts';
import { readRules, tryReply } from '../../../core/sample-replies.ts';
import { anyPolicy } from '../../../core/topic/field-kinds.ts';
import { maskedValue, parseTopicInput, settingsJson, type TopicJson } from '../../../core/topic/settings.ts';
import { unknownBroker } from '../../../core/topic/target.ts';
import { type Topic, topicDefaults } from '../../../core/topic/topic.ts';
import type { TestCallResult } from '../../../process/questions.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { orAfter } from '../../../runtime/timeout.ts';
import { checkContent, pushTerms } from '../../../use-cases/accept-job.ts';
import {
  checkNamed,
  checkOutcomes,
  draftTopic,
  getTopic,
  requireDelivery,
  topicNotFound,
} from '../../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { errorFor, mayTouch, needs, requireTopic, seesHeaderValues } from '../../http/route-access.ts';
import { apiLimits } from '../../limits.ts';
import { nameToFind } from './topic-routes.ts';

export function previewRoute(api: Api, { role, egress }: ApiContext): void {
  const { registry, config } = role;
  let nextAt = 0;
  let isResolving = false;

  api.post(
    '/v1/topics/preview',
    {
      schema: previewTopicSchema,
      config: { ...needs('read', 'handler'), jsonBody: TopicPatch },
    },
    async (request) => {
      const given = Object(request.body) as { readonly topic?: unknown };
      const name = typeof given.topic === 'string' ? given.topic : '';
      if (name !== '') requireTopic(request, name);
      const known = name === '' ? null : await getTopic(registry, name);
      try {
        const parsed = parseTopicInput(request.body, egress, known === null);
        if (!parsed.ok) throw parsed.error;
        const topic = draftTopic(known, name, parsed.input);
        await checkOutcomes(registry, topic, known, (target, field) => {
          if (!mayTouch(request, target))
            throw invalidField(field, `the token does not cover the topic ${target}; use one that does`);
        });
        const waitsMs = waitsOf(topic, config['retry.unit']);
        const totalMs = waitsMs.reduce((sum, wait) => sum + wait, 0);
        const mayResolve = seesHeaderValues(request) && topic.callbackUrl !== '';
        const destination = mayResolve ? await destinationOf(new URL(topic.callbackUrl)) : null;
        return { errors: [], waitsMs, totalMs, destination };
      } catch (error) {
        if (!(error instanceof DqError) || error.code !== 'invalid') throw error;
        return {
          errors: errorFor(request.raw, error).errors,
          waitsMs: null,
          totalMs: null,
          destination: null,
        };
      }
    },
  );

  async function destinationOf(url: URL): Promise<CallbackDestinationJson> {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
    const addresses = isIP(host) === 0 ? await resolve(host) : [host];
    if (typeof addresses === 'string') return { host, addresses: [], verdict: 'unknown', reason: addresses };
    // A call leaves forbidden addresses out.
    const reasons = addresses.map((one) => egress.refuses(one, port));
    const reason = reasons.includes(null) ? null : (reasons[0] ?? null);
    return { host, addresses, verdict: reason === null ? 'allowed' : 'refused', reason };
  }

  /** Addresses, or why there are none. One lookup at a time: a hanging resolver blocks a thread of the
   *  process for as long as it likes. */
  async function resolve(host: string): Promise<readonly string[] | string> {
    const now = monotonicNow();
    if (isResolving || now < nextAt) return 'not resolved now; ask again in a second';
    isResolving = true;
    nextAt = now + apiLimits.previewEveryMs;
    const looking = lookup(host, { all: true })
      .then((found) => found.slice(0, apiLimits.previewAddressesMax).map(({ address }) => address))
      .catch((error: NodeJS.ErrnoException) => `cannot resolve ${host} (${error.code ?? 'unknown error'})`)
      .finally(() => {
        isResolving = false;
      });
    return orAfter(apiLimits.previewMs, looking, 'the resolver does not answer');
  }
}

/** The wait after attempt 1, 2, … */
function waitsOf({ backoff, maxAttempts }: Topic, unitMs: number): readonly number[] {
  return Array.from({ length: maxAttempts - 1 }, (_, failures) => backoffMs(backoff, failures, unitMs));
}

export function ruleRoute(api: Api, { role }: ApiContext): void {
  api.post(
    '/v1/rules/test',
    { schema: testRuleSchema, config: needs('read', 'handler') },
    async (request) => {
      const { rule: source, topic, draft, headers = {}, status = 200, body } = request.body;
      // A longer reply is cut, and rules do not read half of it.
      if (Buffer.byteLength(body) > limits.replyBytesMax)
        throw invalidField('body', `must be at most ${limits.replyBytesMax} bytes`);
      const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
      const reply = { status, attempt: 1, text: body, headers: new Map(names) };
      if (topic !== undefined) requireTopic(request, topic);
      if (topic === undefined && draft === undefined) {
        if (source === undefined) throw invalidField('rule', 'is required, or topic or draft');
        const parsed = parseRule(source);
        if (!parsed.ok) throw invalidField('rule', parsed.message, parsed.position);
        const view = { ...reply, header: (name: string) => reply.headers.get(name) ?? null };
        return { retry: evaluateRule(parsed.rule, view), values: ruleValues(parsed.rule, view) };
      }
      if (source !== undefined) throw invalidField('rule', 'not with topic or draft; leave it out');
      const judging = await judgingOf(topic, draft);
      const rules = readRules(judging);
      if (rules === undefined) throw invalidField('topic', 'has a rule that this version cannot read');
      return tryReply(judging, rules, reply);
    },
  );

  /** Rejects with topic_not_found, or with invalid for a bad draft. */
  async function judgingOf(name: string | undefined, draft: object = {}): Promise<TopicJson> {
    const known = name === undefined ? topicDefaults : await getTopic(role.registry, name);
    if (known === null) throw topicNotFound(name ?? '');
    const parsed = parseTopicInput(draft, anyPolicy, false);
    if (!parsed.ok) throw parsed.error;
    return settingsJson({ ...known, ...parsed.input.settings }) as TopicJson;
  }
}

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
