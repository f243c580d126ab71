// POST /v1/topics/preview: what a draft of a topic would do, before it is saved: mistakes by field, the waits
// between its attempts, and for the scope admin where its callbacks would go. Changes nothing.

import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { type CallbackDestinationJson, previewTopicSchema, TopicPatch } from '../../../contract/api/topic.ts';
import { DqError, invalidField } from '../../../core/errors.ts';
import { backoffMs } from '../../../core/retry-policy.ts';
import { parseTopicInput } from '../../../core/topic/settings.ts';
import type { Topic } from '../../../core/topic/topic.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { orAfter } from '../../../runtime/timeout.ts';
import { checkOutcomes, draftTopic, getTopic } from '../../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { errorFor, mayTouch, needs, requireTopic, seesHeaderValues } from '../../http/route-access.ts';
import { apiLimits } from '../../limits.ts';

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
