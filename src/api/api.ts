// api.ts builds the HTTP API as a Fastify instance: strict parsing, one shape of error reply, and all routes.
// Opens no port.

import AjvCompiler from '@fastify/ajv-compiler';
import swagger from '@fastify/swagger';
import fastify, { type FastifyRequest } from 'fastify';
import { closed } from '../contract/api/schema.ts';
import { DqError } from '../core/errors.ts';
import type { Api, ApiContext } from './api-context.ts';
import { isAudited } from './audit-trail.ts';
import { createBodyBudgets } from './http/body-budget.ts';
import type { HttpFront } from './http/http-front.ts';
import { KnownPaths } from './http/known-paths.ts';
import { apiBodyLimit, bodyReader, jsonBodyReader } from './http/read-body.ts';
import { errorHandler } from './http/rejections.ts';
import { parseQuery } from './http/request-head.ts';
import { accessCheck } from './http/route-access.ts';
import { apiLimits } from './limits.ts';
import { openapiOptions, openapiRoute } from './openapi.ts';
import { auditRoute, sessionRoutes, tokenRoutes } from './routes/access-routes.ts';
import { alertRoutes } from './routes/alert-routes.ts';
import { attemptRoutes } from './routes/attempt-routes.ts';
import { batchRoute } from './routes/batch-route.ts';
import { daemonRoutes, healthRoutes } from './routes/daemon-routes.ts';
import { deadRoutes } from './routes/dead-routes.ts';
import { editRoute, jobRoutes, jobVerbRoutes } from './routes/job-routes.ts';
import { journalRoute } from './routes/journal-route.ts';
import { operationRoutes } from './routes/operation-routes.ts';
import { plainPush, pushRoute } from './routes/push-route.ts';
import { scheduleRoutes } from './routes/schedule-routes.ts';
import { seriesRoutes } from './routes/series-routes.ts';
import { statsRoutes } from './routes/stats-routes.ts';
import { longWorkRoutes, shardRoutes, storeRoute } from './routes/store-routes.ts';
import { summaryRoute } from './routes/summary-route.ts';
import { searchRoute, surveyRoutes } from './routes/survey-routes.ts';
import { capacityRoute } from './routes/topics/capacity-route.ts';
import { previewRoute, ruleRoute, testCallRoute } from './routes/topics/draft-routes.ts';
import { topicRoutes } from './routes/topics/topic-routes.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** the request log has a line for each rejection of this route */
    requestLog?: boolean;
    /** schema of a JSON body that the handler validates itself */
    jsonBody?: object;
    /** OpenAPI content, by media type, of a body that the handler reads from its bytes */
    bodyContent?: object;
  }
}

type AddRoutes = (api: Api, context: ApiContext) => void;

/** Of calls with a JSON body, or none. */
const jsonRoutes: readonly AddRoutes[] = [
  daemonRoutes,
  jobRoutes,
  jobVerbRoutes,
  searchRoute,
  topicRoutes,
  previewRoute,
  deadRoutes,
  operationRoutes,
  scheduleRoutes,
  tokenRoutes,
  summaryRoute,
  seriesRoutes,
  surveyRoutes,
  sessionRoutes,
  auditRoute,
  shardRoutes,
  storeRoute,
  journalRoute,
  alertRoutes,
  healthRoutes,
  statsRoutes,
  capacityRoute,
  attemptRoutes,
  testCallRoute,
  ruleRoute,
  longWorkRoutes,
  openapiRoute,
];

/** `addRoutes`: adds routes that only one port serves. */
export async function createApi(
  context: ApiContext,
  front: HttpFront,
  addRoutes: AddRoutes = () => {},
): Promise<Api> {
  const { config, version } = context.role;
  const budgets = createBodyBudgets(config['limits.batchBytes']);
  const handleError = errorHandler(context, front);
  front.servePlain(plainPush(context));
  const api: Api = fastify({
    serverFactory: (handler) => front.serverFor(handler),
    // HttpFront answers.
    clientErrorHandler: () => {},
    frameworkErrors: (error, request, answer) => handleError(error, request, answer),
    // dq stops by closing the port only; it serves every request that it has admitted.
    return503OnClosing: false,
    exposeHeadRoutes: true,
    routerOptions: { querystringParser: parseQuery as never, maxParamLength: apiLimits.paramLengthMax },
    schemaController: { compilersFactory: { buildValidator: lazyValidators() } },
    ajv: {
      customOptions: {
        removeAdditional: false,
        coerceTypes: false,
        useDefaults: false,
        allowUnionTypes: true,
        // An error carries the violated schema, whose description says what is right.
        verbose: true,
        // A test checks the schemas. Here the schema of schemas cost a first request 40 ms, and 2 MiB.
        meta: false,
        validateSchema: false,
      },
    },
  });
  api.setErrorHandler(handleError);
  const paths = new KnownPaths();
  api.setNotFoundHandler((request) => {
    throw unroutable(request, paths);
  });
  // A serializer made from a schema would drop members that the schema forgot.
  api.setSerializerCompiler(() => JSON.stringify);
  // For requests without a route: any body is read and ignored.
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(budgets.lists, apiBodyLimit));
  api.addHook('onRoute', (route) => {
    paths.add(route.method, route.url);
    const check = accessCheck(route);
    // onRequest runs before dq reads the body.
    route.onRequest = (request, _answer, done) => {
      check(request);
      done();
    };
    if (isAudited(route)) {
      const { operationId } = route.schema as { readonly operationId: string };
      // Before the answer leaves: a change that a caller knows of is recorded.
      route.onSend = (request, answer, payload, done) => {
        context.audit.answered(request, operationId, answer.statusCode);
        done(null, payload);
      };
    }
    // A route without declared query parameters takes none.
    route.schema = { querystring: closed({}), ...route.schema };
  });
  await api.register(swagger, openapiOptions(version));
  await api.register(async (scope) => pushRoute(scope as Api, context, budgets.jobs));
  await api.register(async (scope) => batchRoute(scope as Api, context, budgets.lists));
  await api.register(async (scope) => editRoute(scope as Api, context, budgets.lists));
  await api.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', jsonBodyReader(budgets.lists));
    for (const add of [...jsonRoutes, addRoutes]) add(scope as Api, context);
  });
  return api;
}

function unroutable({ method, url }: FastifyRequest, paths: KnownPaths): DqError {
  const path = url.split('?', 1)[0] ?? '';
  const allowed = paths.methodsOf(path);
  if (allowed.length === 0) {
    const near = paths.nearestTo(path);
    const hint = near === null ? 'GET /openapi.json lists all routes' : `did you mean ${near}?`;
    return new DqError('no_route', `${method} ${path}: no such route; ${hint}`);
  }
  return new DqError(
    'method_not_allowed',
    `${method} ${path}: method not allowed; use ${allowed.filter((one) => one !== 'HEAD').join(' or ')}`,
    {
      extra: { allow: allowed.join(', ') },
    },
  );
}

/** Compiles the schema of a request when the first request needs it; a wrong one fails that request, not the
 *  start. Most processes never serve most of the routes, and compiling all of them took a quarter of the
 *  start of a dq-server. */
function lazyValidators(): ReturnType<typeof AjvCompiler> {
  const build = AjvCompiler();
  const buildLazy = (...given: Parameters<typeof build>) => {
    const compile = build(...given);
    return (route: Parameters<typeof compile>[0]) => {
      let validate: ReturnType<typeof compile> | null = null;
      return (data: unknown) => {
        validate ??= compile(route);
        return validate(data) === true ? true : { error: validate.errors };
      };
    };
  };
  return buildLazy as unknown as typeof build;
}
