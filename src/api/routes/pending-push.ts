// PendingPush answers a push when the store's outcome is known, without Fastify, whose send() looks for
// hooks, serializers and streams that a push does not have.

import type { ServerResponse } from 'node:http';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { monotonicNow } from '../../runtime/time.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import type { ApiContext } from '../api-context.ts';
import { problemOf } from '../http/problem.ts';
import { errorFor } from '../http/route-access.ts';
import { sendJson } from '../http/send-json.ts';
import { finishPush } from './push-result.ts';

export class PendingPush implements PushTicket {
  readonly job: PushJob;
  readonly #context: ApiContext;
  readonly #response: ServerResponse;
  readonly #since = monotonicNow();

  constructor(context: ApiContext, job: PushJob, response: ServerResponse) {
    this.#context = context;
    this.job = job;
    this.#response = response;
  }

  settle(outcome: PushOutcome): void {
    const result = finishPush(this.#context, this.job, outcome, this.#since);
    if (result.ok) {
      sendJson(this.#response, result.status, `{${result.members}}`);
      return;
    }
    const { status, headers, bytes } = problemOf(errorFor(this.#response.req, result.error));
    this.#response.writeHead(status, { ...headers, 'content-length': bytes.length });
    this.#response.end(bytes);
  }
}
