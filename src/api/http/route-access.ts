// What a caller needs for a route: declared beside the route, judged before its body is read. A route without a declaration
// does not start: one that was forgotten would be open to everybody who holds any token. Who the caller is, access.ts says.

import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { DqError } from '../../core/errors.ts';
import {
  allRights,
  grants,
  ownerRights,
  type Rights,
  reaches,
  reachesEveryTopic,
  type Scope,
} from '../../core/token.ts';

export interface RouteAccess {
  readonly scope: Scope;
  /** `path`: the topic in the path must be one of the caller's · `handler`: the handler asks requireTopic,
   *  requireEveryTopic or mayTouch itself · `every`: the call is about the whole daemon, the caller needs every topic ·
   *  `none`: nothing of any topic is shown or changed */
  readonly topics: 'path' | 'handler' | 'every' | 'none';
  /** only for the token of this start: the call makes files on the daemon's machine, which is for its own user alone */
  readonly ownerOnly?: true;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** `open`: no token is needed; a caller with one has its rights */
    access?: RouteAccess | 'open';
  }
}

const rightsKey = Symbol('rights');
type KnownRequest = IncomingMessage & { [rightsKey]?: Rights };

export function setRights(request: IncomingMessage, rights: Rights): void {
  (request as KnownRequest)[rightsKey] = rights;
}

/** Throws for a request that nobody has admitted: a mistake of ours, and it must not pass. */
export function rightsOf(request: FastifyRequest): Rights {
  const rights = (request.raw as KnownRequest)[rightsKey];
  if (rights === undefined) throw new Error('a request came past the check of its token');
  return rights;
}

/** What judges a request of this route; it throws DqError forbidden. Made once, with the route: to look the declaration up in each
 *  request costs Fastify an object of its whole options. Throws at the start of a server: a route is declared or does not exist. */
export function accessCheck(route: {
  url: string;
  method: string | string[];
  config?: object;
}): (request: FastifyRequest) => void {
  const { access } = (route.config ?? {}) as { access?: RouteAccess | 'open' };
  if (access === undefined)
    throw new Error(`${route.method} ${route.url}: the route must declare who may call it (config.access)`);
  if (access === 'open') return () => {};
  if (access.topics === 'path' && !route.url.includes('/:topic'))
    throw new Error(`${route.method} ${route.url}: access by the topic of a path that has none`);
  return (request) => checkAccess(request, access);
}

function checkAccess(request: FastifyRequest, { scope, topics, ownerOnly }: RouteAccess): void {
  const rights = rightsOf(request);
  if (rights === ownerRights) return;
  if (ownerOnly)
    throw new DqError('forbidden', "this call is for the daemon's own user, on its machine (dq backup)");
  if (rights === allRights) return;
  if (!grants(rights, scope))
    throw new DqError('forbidden', `this call needs a token with the scope ${scope}`);
  if (topics === 'path') requireTopic(request, (request.params as { topic: string }).topic);
  if (topics === 'every') requireEveryTopic(request, 'this call is about the whole daemon');
}

/** Whether the caller may see what concerns the whole daemon: names of topics, ids of jobs, addresses of servers. */
export function seesDaemon(request: FastifyRequest): boolean {
  const rights = rightsOf(request);
  return grants(rights, 'read') && reachesEveryTopic(rights);
}

/** Whether the caller may see credentials that a topic's headers carry. */
export function seesHeaderValues(request: FastifyRequest): boolean {
  return grants(rightsOf(request), 'admin');
}

export function mayTouch(request: FastifyRequest, topic: string): boolean {
  return reaches(rightsOf(request), topic);
}

/** null = the caller may; the refusal names what the caller wrote, and tells nothing about topics. */
export function topicRefusal(request: FastifyRequest, topic: string): DqError | null {
  if (mayTouch(request, topic)) return null;
  return new DqError('forbidden', `this token is not for the topic ${JSON.stringify(topic)}`);
}

/** Throws DqError forbidden. */
export function requireTopic(request: FastifyRequest, topic: string): void {
  const refusal = topicRefusal(request, topic);
  if (refusal !== null) throw refusal;
}

/** `why` begins the sentence: what makes the call one about every topic. Throws DqError forbidden. */
export function requireEveryTopic(request: FastifyRequest, why: string): void {
  if (!reachesEveryTopic(rightsOf(request)))
    throw new DqError('forbidden', `${why}; this token is for some topics only`);
}
