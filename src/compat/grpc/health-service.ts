// HealthService is grpc.health.v1: a server serves from its start to its drain. Load balancers call it
// without a token.

import {
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { DqError } from '../../core/errors.ts';
import { grpcLimits } from '../limits.ts';
import type { Message, ReadMessage } from './messages.ts';
import { clipped, statusOf } from './status.ts';

type Watcher = ServerWritableStream<ReadMessage, object>;

export class HealthService {
  readonly #services: ReadonlySet<string>;
  readonly #watchers = new Set<Watcher>();
  #isDraining = false;

  /** `services`: their names, with package */
  constructor(services: readonly string[]) {
    this.#services = new Set(['', ...services]);
  }

  readonly implementation: UntypedServiceImplementation = {
    Check: (
      { request }: ServerUnaryCall<ReadMessage, object>,
      answer: (error: object | null, reply?: object) => void,
    ) => {
      const name = nameOf(request);
      if (request instanceof DqError) answer(statusOf(request));
      else if (this.#services.has(name)) answer(null, this.#reply());
      else answer({ code: status.NOT_FOUND, details: clipped(`service: dq has no ${JSON.stringify(name)}`) });
    },
    Watch: (call: Watcher) => {
      if (call.request instanceof DqError) {
        call.emit('error', statusOf(call.request));
        return;
      }
      if (this.#watchers.size >= grpcLimits.watchersMax) {
        const details = `${grpcLimits.watchersMax} health checks wait already; use Check`;
        call.emit('error', { code: status.RESOURCE_EXHAUSTED, details });
        return;
      }
      if (!this.#services.has(nameOf(call.request))) {
        call.write({ status: 'SERVICE_UNKNOWN' });
      } else call.write(this.#reply());
      if (this.#isDraining) {
        call.end();
        return;
      }
      this.#watchers.add(call);
      call.on('cancelled', () => this.#watchers.delete(call));
    },
  };

  drain(): void {
    this.#isDraining = true;
    for (const call of this.#watchers) {
      if (this.#services.has(nameOf(call.request))) call.write(this.#reply());
      call.end();
    }
    this.#watchers.clear();
  }

  #reply(): object {
    return { status: this.#isDraining ? 'NOT_SERVING' : 'SERVING' };
  }
}

function nameOf(request: ReadMessage): string {
  return String((request as Message)['service'] ?? '');
}
