// What a handler adds to the audit entry of its request: the difference it made, or the filter and the count.
// Which routes are recorded follows from their access (isAudited); no handler decides it.

import type { FastifyRequest } from 'fastify';
import type { AuditDetail } from '../../core/audit.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { isRead } from './request-head.ts';
import type { DeclaredAccess } from './route-access.ts';

export interface AuditNote {
  /** default: the topic of the path */
  readonly topic?: string | undefined;
  /** default: the caller's name */
  readonly actor?: string;
  /** default: the query as filter. Never bodies, secrets, values of headers or passwords */
  readonly detail?: AuditDetail;
  /** of a failed request */
  readonly code?: ErrorCode;
  /** recorded although the rejected call changed nothing */
  readonly always?: true;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** true: recorded whatever its access; false: the call changes nothing */
    audit?: boolean;
  }
}

const key = Symbol('audit');
type Noted = { [key]?: AuditNote };

export function auditNote(request: FastifyRequest, note: AuditNote): void {
  const noted = request.raw as Noted;
  noted[key] = { ...noted[key], ...note };
}

export function auditNoteOf(request: FastifyRequest): AuditNote {
  return (request.raw as Noted)[key] ?? {};
}

/** Changes by operators: calls of the scopes operate and admin. Pushes and cancels are in the request log. */
export function isAudited(route: { readonly method: string | string[]; readonly config?: object }): boolean {
  const { access, audit } = (route.config ?? {}) as {
    access?: DeclaredAccess;
    audit?: boolean;
  };
  if (audit !== undefined) return audit;
  if (typeof access !== 'object' || [route.method].flat().every(isRead)) return false;
  return access.scope === 'operate' || access.scope === 'admin';
}
