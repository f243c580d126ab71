// DirectPush serves a plain push without Fastify, which costs a quarter of the server's processor time. A
// push is plain when its path names a topic that this process knows, it has no query, its body has a length
// and a plain content type, and its caller may push to the topic. Every other request goes to Fastify.
// Invariant: a client cannot tell the two ways apart. The direct way accepts a job and sends the store's
// outcome, with the functions that the route uses. It rejects nothing: a push that it cannot accept goes to
// the route together with the body that was read, and the route rejects it.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ApiContext } from '../api-context.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { handOver, readBody } from '../http/read-body.ts';
import { callerOf, permits } from '../http/route-access.ts';
import { PendingPush } from './pending-push.ts';
import { bodyLimitOf, jobOfPush, pushAccess } from './push-route.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const before = '/v1/topics/';
const after = '/jobs';
const noQuery = {};
/** A subset of what Fastify accepts; it parses and rejects the others. */
const plainType = /^[a-z]{1,20}\/[a-z.+-]{1,60}(?:; ?charset=utf-8)?$/i;

/** Returns the handler of all requests. `toRoutes`: Fastify's. `budget`: for bodies that arrive in pieces. */
export function directPush(context: ApiContext, budget: BodyBudget, toRoutes: Handler): Handler {
  const { topics } = context.role;
  const limit = bodyLimitOf(context);
  return (request, response) => {
    const { method, url = '', headers } = request;
    const contentType = headers['content-type'];
    // A topic's name has neither a slash nor a question mark.
    const topic =
      method === 'POST' && url.startsWith(before) && url.endsWith(after)
        ? topics.get(url.slice(before.length, -after.length))
        : undefined;
    if (
      topic === undefined ||
      contentType === undefined ||
      !plainType.test(contentType) ||
      headers['content-length'] === undefined ||
      !permits(callerOf(request), pushAccess, topic.topic)
    ) {
      toRoutes(request, response);
      return;
    }
    readBody(request, request, budget, limit, (error, body) => {
      if (body !== undefined) {
        try {
          const job = jobOfPush(context, topic, headers, body, noQuery);
          context.pushes.add(new PendingPush(context, job, response));
          return;
        } catch {
          // The route finds the same error, and answers, counts and logs it.
        }
      }
      handOver(request, error, body);
      toRoutes(request, response);
    });
  };
}
