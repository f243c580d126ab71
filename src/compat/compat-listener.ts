// CompatListener is the contract of a server for gRPC or for clients of one other queue. Its maker gets what
// all of them share.

import type { Server } from 'node:net';
import type { FrontTimes } from '../api/http/http-front.ts';
import type { PulledLeases } from '../intake/pull/pulled-leases.ts';
import type { Puller } from '../intake/pull/puller.ts';
import type { RoleContext } from '../process/role.ts';
import type { PushQueue } from '../use-cases/push-queue.ts';
import type { CompatAccess } from './compat-access.ts';
import type { CompatTimes } from './limits.ts';

export interface CompatListener {
  readonly server: Server;
  /** Called when the API serves requests; a listener without it serves from the first connection on. */
  begin?(): void;
  /** requests without a reply */
  inFlight(): number;
  /** Accepts no connection any more, finishes requests, ends connections. Never rejects. */
  drain(deadlineMs: number): Promise<void>;
}

export interface CompatParts {
  readonly role: RoleContext;
  readonly pushes: PushQueue;
  readonly access: CompatAccess;
  readonly puller: Puller;
  readonly leases: PulledLeases;
  /** for tests, instead of the limits */
  readonly times?: CompatTimes | undefined;
  readonly frontTimes?: FrontTimes | undefined;
}
