// SdmqDialect reads the requests of clients of sdmq and mykit-delay and writes the replies of their servers.
// Knows no sockets.

import { v7 } from 'uuid';
import { formatInstant, largestEpochMs, parseDuration } from '../../../core/duration.ts';
import { DqError, invalidField } from '../../../core/errors.ts';
import { reaches } from '../../../core/token.ts';
import { foreignOfTopic } from '../../../core/topic/foreign-name.ts';
import type { PlainTopic } from '../../../core/topic/topic.ts';
import type { RoleContext } from '../../../process/role.ts';
import { useCaseLimits } from '../../../use-cases/limits.ts';
import { requeueJob } from '../../../use-cases/move-job.ts';
import { pullLimits } from '../../pull/limits.ts';
import type { CompatAccess } from '../compat-access.ts';
import type { CompatJobs } from '../compat-jobs.ts';
import type { CompatParts } from '../compat-listener.ts';
import {
  type HttpCall,
  type HttpDialect,
  type HttpReply,
  type HttpVerb,
  leavesOpen,
} from '../http/http-listener.ts';
import { bodyText, textBody } from '../http/json-members.ts';
import { type PoppedJobs, topicOf } from '../http/popped-jobs.ts';
import { compatLimits } from '../limits.ts';
import { type Message, readMessage, writeMessage } from './message.ts';

const routes: readonly (readonly [RegExp, HttpVerb])[] = [
  [/^\/push$/i, 'push'],
  [/^\/delete$/i, 'del'],
  [/^\/finish$/i, 'finish'],
  [/^\/restorejob$/i, 'restore'],
  [/^\/restore(?:\/[^/]+)?$/i, 'restore'],
  [/^\/clearall$/i, 'clear'],
  [/^\/get\/[^/]+$/i, 'pop'],
];
/** Statuses of a pushed message that its servers accept: new, restored. */
const pushed: ReadonlySet<string> = new Set(['0', '5']);
/** Of a message that a client gets: ready. */
const statusReady = '2';

export class SdmqDialect implements HttpDialect {
  readonly #role: RoleContext;
  readonly #access: CompatAccess;
  readonly #jobs: CompatJobs;
  readonly #popped: PoppedJobs;

  constructor({ role, access }: CompatParts, jobs: CompatJobs, popped: PoppedJobs) {
    this.#role = role;
    this.#access = access;
    this.#jobs = jobs;
    this.#popped = popped;
  }

  verbOf(path: string): HttpVerb {
    return routes.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';
  }

  failure(error: DqError, status = leavesOpen(error) ? 503 : 200, data: string | null = null): HttpReply {
    return { ...failed(error.message, data), status };
  }

  async execute(call: HttpCall): Promise<HttpReply> {
    const { verb, method, path, query, rights } = call;
    if (verb === 'other') return { ...failed('no such path'), status: 404 };
    const wanted = verb === 'push' ? 'POST' : 'GET';
    if (method !== wanted) return { ...failed(`use ${wanted}`), status: 405 };
    if (verb === 'push') return this.#push(call);
    const inPath = decoded(path.split('/')[2]);
    const id = inPath ?? query.get('jobId') ?? query.get('id') ?? '';
    const isOfOne = verb !== 'clear' && !/^\/restore$/i.test(path);
    if (isOfOne && id === '') return failed('参数jobId错误');
    switch (verb) {
      case 'del':
        return this.#delete(id, call);
      case 'finish':
        await this.#popped.finish(id, rights);
        return done(null);
      case 'restore':
        return isOfOne ? this.#restoreJob(id, call) : this.#restore(call);
      case 'clear':
        return this.#clearAll(call);
      default:
        return this.#get(id, call);
    }
  }

  async #push({ contentType = '', body, rights }: HttpCall): Promise<HttpReply> {
    if (!/^application\/json *(;|$)/i.test(contentType))
      return { ...failed('content-type: must be application/json'), status: 415 };
    let message: Message;
    try {
      message = readMessage(body);
    } catch (error) {
      if (!(error instanceof DqError)) throw error;
      return this.failure(error, 400);
    }
    const { topic = '', bizKey = '', createTime, delay = '0', status = '0' } = message;
    if (topic === '') return failed('参数topic错误');
    const id = message.id || [topic, ...(bizKey === '' ? [] : [bizKey]), v7()].join(':');
    if (!pushed.has(String(BigInt(status)))) return failed(`任务${id}状态异常`);
    const when =
      createTime === undefined
        ? { delay: `${Math.max(0, Number(delay))}ms`, at: undefined }
        : { delay: undefined, at: instantOf(Number(createTime) + Number(delay)) };
    const read = (of: PlainTopic) => ({ id, ...when, ...stored({ ...message, id }, of.format) });
    const result = await this.#jobs.pushed(topicOf(topic), id, read, rights);
    return result.kind === 'ok' ? done(id) : this.failure(result.error, undefined, id);
  }

  async #delete(id: string, { rights }: HttpCall): Promise<HttpReply> {
    this.#access.requireScope('push', rights);
    if ((await this.#jobs.endAll(id, rights)) > 0) return done(null);
    const isDone = (await this.#jobs.find(id, rights, 'done')).length > 0;
    return isDone ? failed(`任务 ${id} 已经完成`) : done(null);
  }

  async #restoreJob(id: string, { rights }: HttpCall): Promise<HttpReply> {
    this.#access.requireScope('operate', rights);
    const found = await this.#jobs.find(id, rights);
    if (found.length === 0) return failed('Job不存在!');
    for (const { topic, state } of found)
      if (state === 'dead')
        await requeueJob(this.#role.store.jobs, { topic, id }).catch((error: unknown) => {
          // Another request was first.
          if (!(error instanceof DqError && error.code === 'not_dead')) throw error;
        });
    return done(null);
  }

  /** dq keeps its jobs where they are, so there is nothing to restore. */
  async #restore({ rights }: HttpCall): Promise<HttpReply> {
    this.#access.requireScope('operate', rights);
    return done('花费了0 ms，恢复 0 行数据');
  }

  async #clearAll({ rights }: HttpCall): Promise<HttpReply> {
    this.#access.requireScope('operate', rights);
    const { admin } = this.#role.store;
    const since = performance.now();
    const ms = () => Math.round(performance.now() - since);
    const { topics, missing = [] } = await admin.counts();
    if (missing.length > 0) throw new DqError('unavailable', 'a store does not answer; nothing was removed');
    let purged = 0;
    for (const topic of Object.keys(topics).filter((name) => reaches(rights, name))) {
      let more = true;
      while (more) {
        if (ms() > compatLimits.clearMs) return failed(`花费了${ms()} ms，删除 ${purged} 行数据; call again`);
        const step = await admin.purgeTopic(topic, useCaseLimits.purgeStepMax);
        purged += step.purged;
        more = step.more;
      }
    }
    return done(`花费了${ms()} ms，删除 ${purged} 行数据`);
  }

  async #get(name: string, { query, rights, socket }: HttpCall): Promise<HttpReply> {
    const topic = topicOf(name);
    const job = await this.#popped.pop({ socket, rights }, [topic], readWait(query.get('wait')));
    if (job === null) return done(null);
    const { id, dueAt, acceptedAt, body } = job;
    const delay = String(Math.max(0, dueAt - acceptedAt));
    const { encoding, ...text } = bodyText(body);
    const message = { delay, ...text, createTime: String(acceptedAt) };
    if (query.get('ack') === 'true') await this.#popped.finish(id, rights);
    const full = { ...message, topic: foreignOfTopic(topic), id, status: statusReady };
    const json = writeMessage(full, encoding);
    return { isOk: true, status: 200, json: `{"success":true,"data":${json},"code":200,"message":null}` };
  }
}

function stored(
  message: Message,
  format: PlainTopic['format'],
): { readonly contentType: string; readonly body: Buffer } {
  if (format === 'message')
    return { contentType: 'application/json', body: Buffer.from(writeMessage(message)) };
  return textBody(message.body ?? '');
}

/** Years before 0 have another text; any past time is due now. */
function instantOf(ms: number): string {
  if (ms > largestEpochMs) throw invalidField('delay', 'must be at most 3650d');
  return formatInstant(Math.max(0, ms));
}

function readWait(given: string | null): number {
  if (given === null) return compatLimits.getMs;
  const parsed = parseDuration(given);
  if (!parsed.ok) throw invalidField('wait', parsed.message);
  return Math.min(parsed.value, pullLimits.waitMsMax);
}

/** undefined: there is none. Throws DqError. */
function decoded(segment: string | undefined): string | undefined {
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment);
  } catch {
    throw invalidField('path', 'invalid percent-encoding; write %XX of UTF-8');
  }
}

function done(data: string | null): HttpReply {
  const reply = { success: true, data, code: 200, message: null };
  return { isOk: true, status: 200, json: JSON.stringify(reply) };
}

function failed(message: string, data: string | null = null): HttpReply {
  return { isOk: false, status: 200, json: JSON.stringify({ success: false, data, code: 500, message }) };
}
