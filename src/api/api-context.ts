// ApiContext holds what the routes use: the role's context and the parts that the intake makes once, before
// the first request.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyBaseLogger, FastifyInstance, FastifyTypeProvider, RawServerDefault } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { EgressPolicy } from '../core/egress-policy.ts';
import type { TopicPolicy } from '../core/topic/field-kinds.ts';
import type { MasterQuestions } from '../process/master-questions.ts';
import type { RoleContext } from '../process/role.ts';
import type { TokenBook } from '../registry/token-book.ts';
import type { PushQueue } from '../use-cases/push-queue.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { TopicSuggestion } from './routes/topics/topic-suggestion.ts';

export interface ApiContext {
  readonly role: RoleContext;
  readonly questions: MasterQuestions;
  readonly tokens: TokenBook;
  readonly pushes: PushQueue;
  readonly audit: Pick<AuditTrail, 'answered'>;
  /** checks callback URLs and targets at registration */
  readonly egress: Pick<EgressPolicy, 'refuses'> & TopicPolicy;
  /** the callers of this port may change nothing; absent: they may */
  readonly isReadOnly?: boolean;
  /** adds "did you mean" to errors about unknown topics */
  readonly suggestion: TopicSuggestion;
}

/** JSON that a handler returns: JSON.stringify leaves out members that are undefined. */
export type Sent<T> = T extends readonly (infer Item)[]
  ? readonly Sent<Item>[]
  : T extends object
    ? {
        readonly [K in keyof T]: Record<never, never> extends Pick<T, K>
          ? Sent<T[K]> | undefined
          : Sent<T[K]>;
      }
    : T;

/** A request has the types of the contract, and a reply that the contract does not describe does not
 *  compile. */
interface ContractTypes extends FastifyTypeProvider {
  readonly validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown;
  readonly serializer: this['schema'] extends TSchema ? Sent<Static<this['schema']>> : unknown;
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ContractTypes
>;
