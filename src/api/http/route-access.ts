// route-access.ts authorizes a caller for a route, by the declaration beside the route, before dq reads the
// body. access.ts authenticates the caller. A route without a declaration does not start: every token would
// open it.

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import {
  allRights,
  type Caller,
  grants,
  ownerRights,
  reaches,
  reachesEveryTopic,
  type Scope,
  userNamePattern,
} from '../../core/token.ts';

export interface RouteAccess {
  readonly scope: Scope;
  /** a second one that the call needs */
  readonly andScope?: Scope;
  /** `path`: the token must cover the topic in the path · `handler`: the handler calls requireTopic,
   *  requireEveryTopic or mayTouch · `every`: the call concerns the whole daemon, the token must cover
   *  every topic · `none`: the call neither shows nor changes a topic */
  readonly topics: 'path' | 'handler' | 'every' | 'none';
  /** only for the token of this start: the call writes files on the daemon's machine, which only its own
   *  user may */
  readonly ownerOnly?: true;
}

/** `open`: no token is required; a caller with a token has its rights · `known`: every caller with a token or
 *  a session, whatever its scopes; the call shows and grants only what the caller has */
export type DeclaredAccess = RouteAccess | 'open' | 'known';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: DeclaredAccess;
  }
}

/** The `config` of a route whose caller needs this scope. */
export const needs = (scope: Scope, topics: RouteAccess['topics']): { readonly access: RouteAccess } => ({
  access: { scope, topics },
});

const rightsKey = Symbol('rights');
type KnownRequest = IncomingMessage & { [rightsKey]?: Caller };

export function setRights(request: IncomingMessage, rights: Caller): void {
  (request as KnownRequest)[rightsKey] = rights;
}

/** Throws for a request that Access did not admit: a bug, and the request must not pass. */
export function callerOf(request: IncomingMessage): Caller {
  const rights = (request as KnownRequest)[rightsKey];
  if (rights === undefined) throw new Error('request without an access check');
  return rights;
}

export function rightsOf(request: FastifyRequest): Caller {
  return callerOf(request.raw);
}

/** Whether the check of a route that needs this scope for a topic passes the caller. */
export function permits(caller: Caller, scope: Scope, topic: string): boolean {
  return grants(caller, scope) && reaches(caller, topic);
}

/** Returns the check of this route, which throws DqError forbidden. Made once per route: reading the
 *  declaration per request costs Fastify an object of all its options. Throws when the route declares no
 *  access, so the server does not start. */
export function accessCheck(route: {
  url: string;
  method: string | string[];
  config?: object;
}): (request: FastifyRequest) => void {
  const { access } = (route.config ?? {}) as { access?: DeclaredAccess };
  if (access === undefined)
    throw new Error(`${route.method} ${route.url}: a route must declare its access (config.access)`);
  if (access === 'open' || access === 'known') return () => {};
  if (access.topics === 'path' && !route.url.includes('/:topic'))
    throw new Error(`${route.method} ${route.url}: access 'path' needs a topic in the path`);
  return (request) => checkAccess(request, access);
}

/** For people: the name of the token or session. The command line has the key of the daemon's own user, and
 *  names the user of the system who runs it. */
export function actorOf(request: FastifyRequest): string {
  const rights = rightsOf(request);
  const { 'dq-user': user } = request.headers;
  const isNamed = rights === ownerRights && typeof user === 'string' && userNamePattern.test(user);
  return isNamed ? `${rights.name} (${user})` : rights.name;
}

function checkAccess(
  request: FastifyRequest,
  { scope, andScope = scope, topics, ownerOnly }: RouteAccess,
): void {
  const rights = rightsOf(request);
  if (rights === ownerRights) return;
  if (ownerOnly)
    throw new DqError('forbidden', "only the daemon's own user may call this, on its machine; use dq backup");
  if (rights === allRights) return;
  const lacking = [scope, andScope].find((needed) => !grants(rights, needed));
  if (lacking !== undefined)
    throw new DqError('forbidden', `token: lacks the scope ${lacking}; use one that has it`);
  if (topics === 'path') requireTopic(request, (request.params as { topic: string }).topic);
  if (topics === 'every') requireEveryTopic(request, 'this call concerns every topic');
}

/** Whether the caller may see details of the whole daemon: topic names, job ids, server addresses. */
export function seesDaemon(request: FastifyRequest): boolean {
  return showsDaemon(rightsOf(request));
}

const showsDaemon = (rights: Caller): boolean => grants(rights, 'read') && reachesEveryTopic(rights);

/** The error for the caller of this request. */
export function errorFor(request: IncomingMessage, error: DqError): DqError {
  if (error.naming === undefined && error.namingServer === undefined) return error;
  return errorForCaller(callerOf(request), error);
}

/** DqError.namingServer only where the caller may see servers, and DqError.naming only where it may see the
 *  topics. */
export function errorForCaller(caller: Caller, error: DqError): DqError {
  const { code, errors, extra, namingServer, naming } = error;
  if (naming?.topics.every((topic) => reaches(caller, topic))) return naming.error;
  if (namingServer === undefined || !showsDaemon(caller)) return error;
  return new DqError(code, namingServer, { errors, extra: { ...extra }, cause: error });
}

/** Whether the caller may see the values of a topic's headers, which can be credentials. */
export function seesHeaderValues(request: FastifyRequest): boolean {
  return grants(rightsOf(request), 'admin');
}

export function mayTouch(request: FastifyRequest, topic: string): boolean {
  return reaches(rightsOf(request), topic);
}

/** null when the token covers the topic. The error repeats the caller's text and reveals no topic. */
export function topicRejection(request: FastifyRequest, topic: string): DqError | null {
  if (mayTouch(request, topic)) return null;
  return new DqError(
    'forbidden',
    `token: does not cover the topic ${JSON.stringify(topic)}; use one that does`,
  );
}

/** Throws DqError forbidden. */
export function requireTopic(request: FastifyRequest, topic: string): void {
  const rejection = topicRejection(request, topic);
  if (rejection !== null) throw rejection;
}

/** `why` begins the message: why the call needs every topic. Throws DqError forbidden. */
export function requireEveryTopic(request: FastifyRequest, why: string): void {
  if (!reachesEveryTopic(rightsOf(request)))
    throw new DqError('forbidden', `${why}; this token covers some topics only`);
}
