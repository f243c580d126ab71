// ApiContext holds what the routes use: the role's context and the parts that the intake makes once, before
// the first request.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { EgressPolicy } from '../core/egress-policy.ts';
import type { TopicPolicy } from '../core/topic/field-kinds.ts';
import type { RoleContext } from '../process/role.ts';
import type { PushQueue } from '../use-cases/push-queue.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { TopicSuggestion } from './routes/topics/topic-suggestion.ts';

export interface ApiContext {
  readonly role: RoleContext;
  readonly pushes: PushQueue;
  readonly audit: Pick<AuditTrail, 'answered'>;
  /** checks callback URLs and targets at registration */
  readonly egress: Pick<EgressPolicy, 'refuses'> & TopicPolicy;
  /** the callers of this port may change nothing; absent: they may */
  readonly isReadOnly?: boolean;
  /** adds "did you mean" to errors about unknown topics */
  readonly suggestion: TopicSuggestion;
}

/** Fastify with types from TypeBox schemas. */
export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;
