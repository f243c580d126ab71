// The HTTP API as a Fastify instance: strict parsing, one shape of error, and the routes. Owns what is true of every route;
// what a route does is in its own file. Opens no port.

import type { IncomingMessage } from 'node:http';
import swagger from '@fastify/swagger';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { DqError } from '../core/errors.ts';
import { StoreError } from '../ports/job-store.ts';
import type { TokenBook } from '../registry/token-book.ts';
import type { Api, ApiContext } from './api-context.ts';
import { type BodyBudget, createBodyRooms } from './http/body-budget.ts';
import type { HttpFront } from './http/http-front.ts';
import { frameworkProblem, problemOf, storeProblem } from './http/problem.ts';
import { parseQuery, unreadable } from './http/query.ts';
import { bodyReader, readBody } from './http/read-body.ts';
import { logRequest } from './http/request-log.ts';
import { accessCheck, mayTouch } from './http/route-access.ts';
import { closed } from './http/schemas.ts';
import { apiLimits } from './limits.ts';
import { MasterQuestions } from './master-questions.ts';
import { openapiOptions, openapiRoute } from './openapi.ts';
import { alertRoutes } from './routes/alert-routes.ts';
import { batchRoute } from './routes/batch-route.ts';
import { refusalOf } from './routes/conclude-push.ts';
import { deadRoutes } from './routes/dead-routes.ts';
import { healthRoutes } from './routes/health-routes.ts';
import { jobRoutes } from './routes/job-routes.ts';
import { jobVerbRoutes } from './routes/job-verb-routes.ts';
import { longWorkRoutes } from './routes/long-work-routes.ts';
import { metricsRoute } from './routes/metrics-route.ts';
import { pushRoute } from './routes/push-route.ts';
import { ruleRoute } from './routes/rule-route.ts';
import { searchRoute } from './routes/search-route.ts';
import { shardRoutes } from './routes/shard-routes.ts';
import { statsRoutes } from './routes/stats-routes.ts';
import { tokenRoutes } from './routes/token-routes.ts';
import { capacityRoute } from './routes/topics/capacity-route.ts';
import { secretRoute } from './routes/topics/secret-route.ts';
import { topicRoutes } from './routes/topics/topic-routes.ts';
import { topicStateRoutes } from './routes/topics/topic-state-routes.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** refusals of this route are lines of the request log */
    requestLog?: boolean;
    /** the schema of a JSON body that its handler reads by itself */
    jsonBody?: object;
    /** the body may be anything */
    anyBody?: boolean;
    /** what a body is that its handler reads from its bytes, by media type */
    bodyContent?: object;
  }
}

export async function createApi(context: ApiContext, front: HttpFront, tokens: TokenBook): Promise<Api> {
  const { config, version } = context.role;
  const rooms = createBodyRooms(config['limits.batchBytes']);
  const handleError = errorHandler(context, front);
  const api: Api = fastify({
    serverFactory: (handler) => front.serverFor(handler),
    clientErrorHandler: (error, socket) => front.onClientError(error, socket),
    frameworkErrors: (error, request, answer) => handleError(error, request, answer),
    // dq stops by closing the port alone; a request that is still let in is served.
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { querystringParser: parseQuery as never, maxParamLength: apiLimits.paramLengthMax },
    ajv: {
      customOptions: {
        removeAdditional: false,
        coerceTypes: false,
        useDefaults: false,
        allowUnionTypes: true,
        // A violation brings its schema along, whose description says what would be right.
        verbose: true,
      },
    },
  });
  api.setErrorHandler(handleError);
  api.setNotFoundHandler((request) => {
    throw new DqError('no_route', `there is no ${request.method} ${request.url.split('?', 1)[0]}`);
  });
  // Replies are written as they are: a serializer made from a schema drops what the schema forgot.
  api.setSerializerCompiler(() => JSON.stringify);
  // Where no route is, what a body would have been does not matter.
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(rooms.lists, apiBody));
  api.addHook('onRoute', (route) => {
    const check = accessCheck(route);
    // Before its body is read.
    route.onRequest = (request, _answer, done) => {
      check(request);
      done();
    };
    // No route takes parameters that it does not name.
    route.schema = { querystring: closed({}), ...route.schema };
  });
  await api.register(swagger, openapiOptions(version));
  await api.register(async (scope) => pushRoute(scope as Api, context, rooms.jobs));
  await api.register(async (scope) => batchRoute(scope as Api, context, rooms.lists));
  await api.register(async (scope) => {
    takeJson(scope as Api, context, tokens, rooms.lists);
  });
  return api;
}

const apiBody = { bytes: apiLimits.apiBodyBytesMax, option: null };

/** Every route but the push: a JSON body where the route names one, no body elsewhere. */
function takeJson(api: Api, context: ApiContext, tokens: TokenBook, room: BodyBudget): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', (request: FastifyRequest, stream: IncomingMessage, done) => {
    readBody(request.raw, stream, room, apiBody, (error, body) => {
      if (error !== null || body === undefined) {
        done(error);
        return;
      }
      const { schema, config } = request.routeOptions;
      const takes = schema?.body !== undefined || config.jsonBody !== undefined;
      try {
        done(null, readJson(body, takes, request));
      } catch (refusal) {
        done(refusal as Error);
      }
    });
  });
  jobRoutes(api, context);
  jobVerbRoutes(api, context);
  searchRoute(api, context);
  topicRoutes(api, context);
  topicStateRoutes(api, context);
  secretRoute(api, context);
  deadRoutes(api, context);
  tokenRoutes(api, context, tokens);
  shardRoutes(api, context);
  alertRoutes(api, context);
  healthRoutes(api, context);
  const questions = new MasterQuestions(context.role.link);
  statsRoutes(api, context, questions);
  capacityRoute(api, context, questions);
  metricsRoute(api, questions);
  ruleRoute(api);
  longWorkRoutes(api, context);
  openapiRoute(api);
}

function readJson(body: Buffer, takes: boolean, request: FastifyRequest): unknown {
  if (!takes && body.length === 0) return undefined;
  if (!takes) throw new DqError('invalid', 'this call takes no body');
  const { 'content-encoding': encoding, 'content-type': type } = request.headers;
  if (encoding !== undefined)
    throw new DqError('unsupported_media_type', 'content-encoding: send the body plain');
  if (type !== undefined && !/^application\/json *(;|$)/i.test(type))
    throw new DqError('unsupported_media_type', "content-type: send -H 'content-type: application/json'");
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (error) {
    throw new DqError('malformed_json', `the body is not JSON: ${(error as Error).message}`);
  }
}

function errorHandler(context: ApiContext, front: HttpFront) {
  const { log } = context.role;
  return (thrown: unknown, request: FastifyRequest, answer: FastifyReply): void => {
    const found = dqErrorOf(thrown, request);
    const error = found && context.suggestion.added(found, (topic) => mayTouch(request, topic));
    if (error === null)
      log.error('a request failed in a way nobody thought of', thrown, {
        method: request.method,
        // A query may hold what somebody should not have put there.
        path: request.url.split('?', 1)[0],
      });
    const known =
      error ??
      new DqError(
        isRead(request) ? 'unavailable' : 'unknown',
        'dq failed at this request; its error log says how',
      );
    const problem = problemOf(known);
    if (request.routeOptions.config?.requestLog === true) logRefusal(context, request, known, problem.status);
    if (request.raw.complete) {
      answer.code(problem.status).headers(problem.headers).send(problem.bytes);
      return;
    }
    // The body was not read, or not to its end.
    answer.hijack();
    front.refuse(request.raw, answer.raw, problem);
  };
}

/** null for what nobody thought of. One request's bug ends neither the process nor the answers of its neighbours: it owns
 *  nothing that outlives it. */
function dqErrorOf(thrown: unknown, request: FastifyRequest): DqError | null {
  if (thrown instanceof DqError) return thrown;
  if (thrown instanceof StoreError) return storeProblem(thrown, isRead(request));
  const marker = (request.query as Record<string, unknown> | null)?.[unreadable];
  if (typeof marker === 'object' && marker !== null && 'message' in marker) {
    const error = marker as { field: string; message: string };
    return new DqError('invalid', `${error.field}: ${error.message}`, { errors: [error] });
  }
  return frameworkProblem(thrown);
}

function isRead(request: FastifyRequest): boolean {
  return request.method === 'GET';
}

function logRefusal(context: ApiContext, request: FastifyRequest, error: DqError, status: number): void {
  const { topic, id } = request.params as { topic?: string; id?: string };
  const asked = (request.query as { id?: string }).id;
  if (request.method !== 'DELETE') context.role.metrics.count('dq_pushes_total', 1, refusalOf(error.code));
  logRequest(context.role.log, {
    method: request.method === 'DELETE' ? 'DELETE' : 'POST',
    topic: topic ?? null,
    id: id ?? asked ?? null,
    status,
    code: error.code,
    version: null,
    dueAt: null,
    bytes: Buffer.isBuffer(request.body) ? request.body.length : 0,
    ms: null,
  });
}
