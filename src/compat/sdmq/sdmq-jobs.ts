// SdmqJobs executes the requests of clients of sdmq and mykit-delay, with the results of their servers. Reads
// the JSON that they push, and writes it in one order. Knows no transport.

import { formatInstant, largestEpochMs } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { type Rights, reaches } from '../../core/token.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { RoleContext } from '../../process/role.ts';
import { monotonicNow } from '../../runtime/time.ts';
import { newJobId } from '../../use-cases/accept-job.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';
import { requeueJob } from '../../use-cases/move-job.ts';
import type { CompatAccess } from '../compat-access.ts';
import type { CompatJobs, Producer } from '../compat-jobs.ts';
import { jsonMembers, textBody, textOf, wholeNumber } from '../http/json-members.ts';
import { type PoppedJobs, topicOf } from '../http/popped-jobs.ts';
import { compatLimits } from '../limits.ts';

export interface SdmqResult {
  readonly isOk: boolean;
  readonly data: string | null;
  /** of a failure */
  readonly message: string | null;
  /** of a push that dq rejected, or whose outcome is unknown */
  readonly error?: DqError;
}

/** Statuses of a pushed message that its servers accept: new, restored. */
const pushed: ReadonlySet<string> = new Set(['0', '5']);

export interface SdmqJobsParts {
  readonly role: RoleContext;
  readonly access: CompatAccess;
  readonly jobs: CompatJobs;
  readonly popped: PoppedJobs;
}

/** Its methods reject with DqError or StoreError where the servers have no result for a failure. */
export class SdmqJobs {
  readonly #parts: SdmqJobsParts;

  constructor(parts: SdmqJobsParts) {
    this.#parts = parts;
  }

  async push(message: Message, producer: Producer): Promise<SdmqResult> {
    const { topic = '', bizKey = '', createTime, delay = '0', status = '0' } = message;
    if (topic === '') return failed('参数topic错误');
    const id = message.id || [topic, ...(bizKey === '' ? [] : [bizKey]), newJobId()].join(':');
    if (!pushed.has(String(BigInt(status)))) return failed(`任务${id}状态异常`);
    const when =
      createTime === undefined
        ? { delay: `${Math.max(0, Number(delay))}ms`, at: undefined }
        : { delay: undefined, at: instantOf(Number(createTime) + Number(delay)) };
    const read = (of: PlainTopic) => ({ id, ...when, ...stored({ ...message, id }, of.format) });
    const result = await this.#parts.jobs.pushed(topicOf(topic), id, read, producer);
    if (result.kind === 'ok') return done(id);
    return { ...failed(result.error.message, id), error: result.error };
  }

  async delete(id: string, rights: Rights): Promise<SdmqResult> {
    const { access, jobs } = this.#parts;
    if (id === '') return withoutId;
    access.requireScope('push', rights);
    if ((await jobs.endAll(id, rights)) > 0) return done(null);
    const isDone = (await jobs.find(id, rights, 'done')).length > 0;
    return isDone ? failed(`任务 ${id} 已经完成`) : done(null);
  }

  async finish(id: string, rights: Rights): Promise<SdmqResult> {
    if (id === '') return withoutId;
    await this.#parts.popped.finish(id, rights);
    return done(null);
  }

  async restoreJob(id: string, rights: Rights): Promise<SdmqResult> {
    const { access, jobs, role } = this.#parts;
    if (id === '') return withoutId;
    access.requireScope('operate', rights);
    const found = await jobs.find(id, rights);
    if (found.length === 0) return failed('Job不存在!');
    for (const { topic, state } of found)
      if (state === 'dead')
        await requeueJob(role.store.jobs, { topic, id }).catch((error: unknown) => {
          // Another request was first.
          if (!(error instanceof DqError && error.code === 'not_dead')) throw error;
        });
    return done(null);
  }

  /** dq keeps its jobs where they are, so there is nothing to restore. */
  async restore(rights: Rights): Promise<SdmqResult> {
    this.#parts.access.requireScope('operate', rights);
    return done('花费了0 ms，恢复 0 行数据');
  }

  async clearAll(rights: Rights): Promise<SdmqResult> {
    const { access, role } = this.#parts;
    access.requireScope('operate', rights);
    const { admin } = role.store;
    const since = monotonicNow();
    const ms = () => Math.round(monotonicNow() - since);
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

export function done(data: string | null): SdmqResult {
  return { isOk: true, data, message: null };
}

export function failed(message: string, data: string | null = null): SdmqResult {
  return { isOk: false, data, message };
}

const withoutId = failed('参数jobId错误');

/** In the order in which dq writes them. */
const kinds = {
  topic: 'text',
  subtopic: 'text',
  id: 'text',
  bizKey: 'text',
  delay: 'number',
  ttl: 'number',
  body: 'text',
  createTime: 'number',
  status: 'number',
  extendData: 'text',
} as const;
type Name = keyof typeof kinds;
const names = Object.keys(kinds) as Name[];

/** Absent members are undefined. Numbers are digits: they can be larger than a double counts. */
export type Message = { readonly [N in Name]?: string };

/** Numbers may be written as text, and text as numbers. Throws DqError. */
export function readMessage(json: Buffer): Message {
  const given = jsonMembers(json);
  if (given === null) throw new DqError('malformed_json', 'body: must be a JSON object');
  const message: { [N in Name]?: string } = {};
  for (const name of names) {
    const value = given.get(name);
    if (value === undefined) continue;
    const isNumber = /^-?\d/.test(value);
    const text = isNumber ? value : textOf(value);
    if (text === null || (kinds[name] === 'number' && !wholeNumber.test(text)))
      throw new DqError('malformed_json', `${name}: must be ${kinds[name] === 'text' ? 'text' : 'a number'}`);
    message[name] = text;
  }
  return message;
}

/** `encoding`: of the body; default: text. */
export function writeMessage(message: Message, encoding?: 'base64'): string {
  const members = names.flatMap((name) => {
    const value = message[name];
    if (value === undefined) return [];
    // JSON has no leading zeros.
    return [`"${name}":${kinds[name] === 'text' ? JSON.stringify(value) : BigInt(value)}`];
  });
  if (encoding !== undefined) members.push(`"encoding":"${encoding}"`);
  return `{${members.join(',')}}`;
}
