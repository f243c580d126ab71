// The specified scope of every route, written by hand: the declarations in the code are compared with it.
import type { Scope } from '../../src/core/token.ts';
import type { OpenApi } from './described.ts';

export interface Route {
  readonly method: string;
  readonly path: string;
  /** null = needs no token or session; `known` = any */
  readonly scope: string | null;
  /** a second one that it needs; null: none */
  readonly andScope: string | null;
}

/** From /openapi.json, which is made from the declarations that the check uses. */
export function routesOf({ paths }: OpenApi): readonly Route[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const { security } = operation as unknown as { security: readonly { bearer?: readonly string[] }[] };
      const scopes = security.at(-1)?.bearer;
      const scope = scopes === undefined ? null : (scopes[0] ?? 'known');
      const andScope = scopes?.[1] ?? null;
      return { method: method.toUpperCase(), path, scope, andScope };
    }),
  );
}

export const nameOf = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${path}`;

const exceptions: Readonly<Record<string, Scope | 'known' | null>> = {
  ...{ 'GET /livez': null, 'GET /readyz': null, 'POST /v1/session': null, 'DELETE /v1/session': 'known' },
  ...{ 'GET /v1/me': 'known', 'POST /v1/sign-in-links': 'known', 'POST /v1/topics/preview': 'read' },
  // And push.
  'PATCH /v1/topics/{topic}/jobs/{id}': 'operate',
  ...{ 'POST /v1/schedules/preview': 'read', 'POST /v1/rules/test': 'read' },
};

/** The route that needs two scopes: it writes a body, as a push does. */
export const andSpecified: Readonly<Record<string, Scope>> = {
  'PATCH /v1/topics/{topic}/jobs/{id}': 'push',
};

/** undefined: not specified yet, so the test of a new route fails. */
export function specifiedScope(route: Route): Scope | 'known' | null | undefined {
  const { method, path } = route;
  const exception = exceptions[nameOf(route)];
  if (exception !== undefined) return exception;
  if (/^\/v1\/(sessions|audit|config|reload|trial|doctor)(\/|$)/.test(path)) return 'admin';
  if (/^\/v1\/(pull|leases|topics\/\{topic\}\/pull)(\/|$)/.test(path)) return 'pull';
  if (method === 'GET') return 'read';
  if (/^\/v1\/(operations|dead)(\/|$)/.test(path)) return 'operate';
  if (/\/(run|reschedule|requeue|request|pause|resume|offline|test-call)$/.test(path)) return 'operate';
  if (/\/jobs(\/\{id\})?$/.test(path)) return 'push';
  if (/^\/v1\/(topics|schedules|tokens|shards|alerts|backup|fsck|journal|move)(\/|$)/.test(path))
    return 'admin';
  return undefined;
}
