// method.ts declares what a gRPC service of dq provides: a function for each unary method.

import type { Metadata } from '@grpc/grpc-js';
import type { Rights } from '../../core/token.ts';
import type { Message } from './messages.ts';

/** as in dq_compat_requests_total */
export type GrpcVerb =
  | 'push'
  | 'batch'
  | 'get'
  | 'del'
  | 'pull'
  | 'ack'
  | 'nack'
  | 'extend'
  | 'finish'
  | 'restore'
  | 'clear';

/** A call under way, as its method sees it. */
export interface GrpcCall {
  readonly rights: Rights;
  /** The rights now, after a wait. Throws DqError. */
  readonly admit: () => Rights;
  /** as of clientOf */
  readonly client: string;
  readonly metadata: Metadata;
  /** until the deadline of the client; Infinity: it has none */
  readonly leftMs: number;
  /** The client leaves, or its deadline passes; at once if it has. */
  readonly onCancelled: (listener: () => void) => void;
  /** The call ends before its reply is sent. */
  readonly onUnsent: (listener: () => void) => void;
}

export interface GrpcMethod {
  readonly verb: GrpcVerb;
  /** The members of the reply. Rejects with DqError or StoreError. */
  readonly execute: (request: Message, call: GrpcCall) => Promise<object>;
  /** for the metric; default: every reply is a success */
  readonly isOk?: (reply: object) => boolean;
}

export type GrpcMethods = Readonly<Record<string, GrpcMethod>>;
