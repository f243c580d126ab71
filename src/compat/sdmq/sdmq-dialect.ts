// SdmqDialect reads the requests of clients of sdmq and mykit-delay and writes the replies of their servers.
// Knows no sockets.

import { contractLimits } from '../../contract/api/limits.ts';
import { parseDuration } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { isJsonType } from '../../core/json-text.ts';
import { foreignOfTopic } from '../../core/topic/topic.ts';
import type { PulledJob } from '../../intake/pull/puller.ts';
import type { CompatJobs } from '../compat-jobs.ts';
import type { CompatParts } from '../compat-listener.ts';
import {
  type HttpCall,
  type HttpDialect,
  type HttpReply,
  type HttpVerb,
  leavesOpen,
} from '../http/http-listener.ts';
import { bodyText } from '../http/json-members.ts';
import { type PoppedJobs, topicOf } from '../http/popped-jobs.ts';
import { compatLimits } from '../limits.ts';
import {
  done,
  failed,
  type Message,
  readMessage,
  SdmqJobs,
  type SdmqResult,
  writeMessage,
} from './sdmq-jobs.ts';

const routes: readonly (readonly [RegExp, HttpVerb])[] = [
  [/^\/push$/i, 'push'],
  [/^\/delete$/i, 'del'],
  [/^\/finish$/i, 'finish'],
  [/^\/restorejob$/i, 'restore'],
  [/^\/restore(?:\/[^/]+)?$/i, 'restore'],
  [/^\/clearall$/i, 'clear'],
  [/^\/get\/[^/]+$/i, 'pop'],
];
/** Of a message that a client gets: ready. */
const statusReady = '2';

export class SdmqDialect implements HttpDialect {
  readonly #jobs: SdmqJobs;
  readonly #popped: PoppedJobs;

  constructor({ role, access }: CompatParts, jobs: CompatJobs, popped: PoppedJobs) {
    this.#jobs = new SdmqJobs({ role, access, jobs, popped });
    this.#popped = popped;
  }

  verbOf(path: string): HttpVerb {
    return routes.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';
  }

  failure(error: DqError, status = leavesOpen(error) ? 503 : 200): HttpReply {
    return { ...replyOf(failed(error.message)), status };
  }

  async execute(call: HttpCall): Promise<HttpReply> {
    const { verb, method, path, query, rights } = call;
    if (verb === 'other') return { ...replyOf(failed('no such path')), status: 404 };
    const wanted = verb === 'push' ? 'POST' : 'GET';
    if (method !== wanted) return { ...replyOf(failed(`use ${wanted}`)), status: 405 };
    if (verb === 'push') return this.#push(call);
    const inPath = decoded(path.split('/')[2]);
    const id = inPath ?? query.get('jobId') ?? query.get('id') ?? '';
    switch (verb) {
      case 'del':
        return replyOf(await this.#jobs.delete(id, rights));
      case 'finish':
        return replyOf(await this.#jobs.finish(id, rights));
      case 'restore':
        return replyOf(
          /^\/restore$/i.test(path)
            ? await this.#jobs.restore(rights)
            : await this.#jobs.restoreJob(id, rights),
        );
      case 'clear':
        return replyOf(await this.#jobs.clearAll(rights));
      default:
        return this.#get(id, call);
    }
  }

  async #push(call: HttpCall): Promise<HttpReply> {
    const { contentType, body } = call;
    if (!isJsonType(contentType))
      return { ...replyOf(failed('content-type: must be application/json')), status: 415 };
    let message: Message;
    try {
      message = readMessage(body);
    } catch (error) {
      if (!(error instanceof DqError)) throw error;
      return this.failure(error, 400);
    }
    return replyOf(await this.#jobs.push(message, call));
  }

  #get(name: string, call: HttpCall): Promise<HttpReply> {
    const topic = topicOf(name);
    return this.#popped.pop(call, [topic], readWait(call.query.get('wait')), (pulled) =>
      pulled === null ? replyOf(done(null)) : this.#popReply(topic, pulled, call),
    );
  }

  async #popReply(topic: string, pulled: PulledJob, call: HttpCall): Promise<HttpReply> {
    const { id, dueAt, acceptedAt, body } = pulled.job;
    const delay = String(Math.max(0, dueAt - acceptedAt));
    const { encoding, ...text } = bodyText(body);
    const message = { delay, ...text, createTime: String(acceptedAt) };
    if (call.query.get('ack') === 'true') await this.#popped.finishPopped(pulled);
    const full = { ...message, topic: foreignOfTopic(topic), id, status: statusReady };
    const json = writeMessage(full, encoding);
    return { isOk: true, status: 200, json: `{"success":true,"data":${json},"code":200,"message":null}` };
  }
}

function readWait(given: string | null): number {
  if (given === null) return compatLimits.getMs;
  const parsed = parseDuration(given);
  if (!parsed.ok) throw invalidField('wait', parsed.message);
  return Math.min(parsed.value, contractLimits.pullWaitMsMax);
}

/** undefined: there is none. Throws DqError. */
function decoded(segment: string | undefined): string | undefined {
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment);
  } catch {
    throw invalidField('path', 'invalid percent-encoding; write %XX of UTF-8');
  }
}

function replyOf({ isOk, data, message, error }: SdmqResult): HttpReply {
  const json = JSON.stringify({ success: isOk, data, code: isOk ? 200 : 500, message });
  return { isOk, status: error !== undefined && leavesOpen(error) ? 503 : 200, json };
}
