// OuqiangDialect reads the requests of clients of ouqiang/delay-queue and writes the replies of its server.
// Knows no sockets. Messages are those that its clients may compare.

import type { DqError } from '../../core/errors.ts';
import { optionsIn } from '../../core/extension.ts';
import { foreignOfTopic, type PlainTopic } from '../../core/topic/topic.ts';
import type { RoleContext } from '../../process/role.ts';
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
import { bodyText, jsonMembers, textBody, textOf, wholeNumber } from '../http/json-members.ts';
import { type PoppedJobs, topicOf } from '../http/popped-jobs.ts';
import { compatLimits } from '../limits.ts';

const verbs: Readonly<Record<string, HttpVerb>> = {
  '/push': 'push',
  '/pop': 'pop',
  '/get': 'get',
  '/delete': 'del',
  '/finish': 'finish',
};
const texts: ReadonlySet<string> = new Set(['topic', 'id', 'body']);
/** The members that a verb reads; it ignores the others, whatever they are. */
const membersOfVerb: { readonly [V in HttpVerb]?: readonly string[] } = {
  push: ['topic', 'id', 'delay', 'ttr', 'body'],
  pop: ['topic'],
};
/** Its server means 2^31 - 1, and accepts one more. */
const secondsMax = 2_147_483_648;
const ttrMax = 86_400;

export class OuqiangDialect implements HttpDialect {
  readonly #role: RoleContext;
  readonly #access: CompatAccess;
  readonly #jobs: CompatJobs;
  readonly #popped: PoppedJobs;
  readonly #popMs: number;

  constructor({ role, access, times }: CompatParts, jobs: CompatJobs, popped: PoppedJobs) {
    this.#role = role;
    this.#access = access;
    this.#jobs = jobs;
    this.#popped = popped;
    this.#popMs = times?.popMs ?? compatLimits.popMs;
  }

  verbOf(path: string): HttpVerb {
    return Object.hasOwn(verbs, path) ? (verbs[path] as HttpVerb) : 'other';
  }

  failure(error: DqError, status = leavesOpen(error) ? 503 : 200): HttpReply {
    return { ...failed(error.message), status };
  }

  async execute(call: HttpCall): Promise<HttpReply> {
    const { verb, body, rights } = call;
    if (verb === 'other') return { ...failed('404 page not found'), status: 404 };
    const given = readGiven(body, membersOfVerb[verb] ?? ['id']);
    if (given === null) return failed('解析json失败');
    if (verb === 'push') return this.#push(given, call);
    if (verb === 'pop') return this.#pop(given, call);
    const id = trimmed(given, 'id');
    if (id === '') return failed('job id不能为空');
    switch (verb) {
      case 'get':
        return this.#get(id, call);
      case 'finish':
        await this.#popped.finish(id, rights);
        return done(null);
      default:
        this.#access.requireScope('push', rights);
        await this.#jobs.endAll(id, rights);
        return done(null);
    }
  }

  async #push(given: Given, call: HttpCall): Promise<HttpReply> {
    const [id, topic, text] = [trimmed(given, 'id'), trimmed(given, 'topic'), trimmed(given, 'body')];
    const [delay, ttr] = [Number(given.get('delay') ?? 0), Number(given.get('ttr') ?? 0)];
    if (id === '') return failed('job id不能为空');
    if (topic === '') return failed('topic 不能为空');
    if (delay < 1 || delay > secondsMax) return failed('delay 取值范围1 - (2^31 - 1)');
    if (ttr < 1 || ttr > ttrMax) return failed('ttr 取值范围1 - 86400');
    // dq calls the other topics, for as long as they say.
    const read = ({ delivery }: PlainTopic) => ({
      id,
      delay: `${delay}s`,
      at: undefined,
      delayMsMax: secondsMax * 1_000,
      ...textBody(text),
      lease: delivery === 'pull' ? `${ttr}s` : undefined,
    });
    const result = await this.#jobs.pushed(topicOf(topic), id, read, call);
    return result.kind === 'ok' ? done(null, '添加成功') : this.failure(result.error);
  }

  async #pop(given: Given, call: HttpCall): Promise<HttpReply> {
    const names = trimmed(given, 'topic')
      .split(',')
      .map((name) => name.trim());
    const topics = [...new Set(names.filter((name) => name !== '').map(topicOf))];
    if (topics.length === 0) return failed('topic不能为空');
    if (topics.length > compatLimits.popTopicsMax)
      return failed(`topic: at most ${compatLimits.popTopicsMax} names`);
    return this.#popped.pop(call, topics, this.#popMs, (pulled) =>
      done(pulled === null ? null : { id: pulled.job.id, ...bodyText(pulled.job.body) }),
    );
  }

  async #get(id: string, { rights }: HttpCall): Promise<HttpReply> {
    this.#access.requireScope('read', rights);
    const job = await this.#jobs.latest(id, rights);
    if (job === null) return done(null);
    const { topic, dueAt, body } = job;
    const leaseMs = optionsIn(job.extension).leaseMs ?? this.#role.topics.get(topic)?.leaseMs ?? 0;
    const [delay, ttr] = [Math.floor(dueAt / 1_000), Math.ceil(leaseMs / 1_000)];
    return done({ topic: foreignOfTopic(topic), id, delay, ttr, ...bodyText(body) });
  }
}

type Given = ReadonlyMap<string, string>;

/** JSON of the members by lower-case name; null: what its server cannot read. */
function readGiven(body: Buffer, names: readonly string[]): Given | null {
  const given = jsonMembers(body, (name) => name.toLowerCase());
  if (given === null) return null;
  for (const name of names) {
    const json = given.get(name);
    if (json === undefined) continue;
    if (texts.has(name) ? textOf(json) === null : !wholeNumber.test(json)) return null;
  }
  return given;
}

/** `''` where it is absent. */
function trimmed(given: Given, name: string): string {
  return (textOf(given.get(name) ?? '""') ?? '').trim();
}

function done(data: object | null, message = '操作成功'): HttpReply {
  return { isOk: true, status: 200, json: JSON.stringify({ code: 0, message, data }) };
}

function failed(message: string): HttpReply {
  return { isOk: false, status: 200, json: JSON.stringify({ code: 1, message, data: null }) };
}
