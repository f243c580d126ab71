// DirectPush serves a plain push without Fastify, which costs a quarter of the server's processor time. A
// push is plain when its path names a topic that this process knows, its query has only known parameters,
// each once, its body has a length and a plain content type, and its caller may push to the topic. Every
// other request goes to Fastify.
// Invariant: a client cannot tell the two ways apart. The direct way accepts a job and sends the store's
// outcome, with the functions that the route uses. It rejects nothing: a push that it cannot accept goes to
// the route together with the body that was read, and the route rejects it.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ApiContext } from '../api-context.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { handOver, readBody } from '../http/read-body.ts';
import { callerOf, permits } from '../http/route-access.ts';
import { PendingPush } from './pending-push.ts';
import { bodyLimitOf, jobOfPush, plainQuery, pushAccess } from './push-route.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const before = '/v1/topics/';
const after = '/jobs';
/** A subset of what Fastify accepts; it parses and rejects the others. */
const plainType = /^[a-z]{1,20}\/[a-z.+-]{1,60}(?:; ?charset=utf-8)?$/i;

/** Returns the handler of all requests. `toRoutes`: Fastify's. `budget`: for bodies that arrive in pieces. */
export function directPush(context: ApiContext, budget: BodyBudget, toRoutes: Handler): Handler {
  const { topics } = context.role;
  const limit = bodyLimitOf(context);
  return (request, response) => {
    const { method, url = '', headers } = request;
    const contentType = headers['content-type'];
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    // A topic's name has no slash.
    const topic =
      method === 'POST' && path.startsWith(before) && path.endsWith(after)
        ? topics.get(path.slice(before.length, -after.length))
        : undefined;
    const query = topic === undefined ? null : plainQuery(mark < 0 ? '' : url.slice(mark + 1));
    if (
      topic === undefined ||
      query === null ||
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
          const job = jobOfPush(context, topic, headers, body, query);
          context.turns.add(request.socket, new PendingPush(context, job, response));
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
