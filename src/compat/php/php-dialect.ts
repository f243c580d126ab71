// php-dialect.ts reads the requests of php-delayqueue's clients and writes the replies that its server sends,
// byte for byte. php-delayqueue calls at once when it cannot read a time; dq rejects such a push. Knows no
// sockets.

import { type Clock, createClock, createLocalTime, type LocalTime } from '../../core/calendar.ts';
import { formatInstant } from '../../core/duration.ts';
import { type DqError, invalidField } from '../../core/errors.ts';
import type { JobSnapshot } from '../../core/job.ts';
import { namedMembers } from '../../core/json-text.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { Log } from '../../telemetry/log.ts';
import type { CompatJobs, CompatResult, ReadPush } from '../compat-jobs.ts';
import { compatLimits } from '../limits.ts';
import { frameOf } from './frames.ts';
import { phpMembers, phpString, storedBody } from './php-json.ts';

export interface PhpRequest {
  readonly verb: 'add' | 'del' | 'get' | 'other';
  /** JSON of each member; absent ones are undefined */
  readonly topic: Buffer | undefined;
  readonly id: Buffer | undefined;
  readonly body: Buffer | undefined;
  readonly fixTime: Buffer | undefined;
}

/** null: close the connection without a reply, because the client must not take it for a success or a
 *  failure. */
export type PhpReply = { readonly outcome: 'ok' | 'fail'; readonly frame: string } | null;

export const failed: PhpReply = {
  outcome: 'fail',
  frame: frameOf('{"code":0,"msg":"fail","data":[]}') ?? '',
};
const succeeded: PhpReply = { outcome: 'ok', frame: frameOf('{"code":1,"msg":"succ","data":[]}') ?? '' };

/** null: invalid UTF-8 or invalid JSON. */
export function readRequest(json: Buffer): PhpRequest | null {
  const members = namedMembers(json);
  if (members === null) return null;
  const found = new Map(members.map(({ name, value }) => [name, json.subarray(value.from, value.to)]));
  const command = textOf(found.get('cmd'));
  return {
    verb: command === 'add' || command === 'del' || command === 'get' ? command : 'other',
    topic: found.get('topic'),
    id: found.get('id'),
    body: found.get('body'),
    fixTime: found.get('fix_time'),
  };
}

export class PhpDialect {
  readonly #jobs: CompatJobs;
  readonly #log: Log;
  readonly #localTime: LocalTime;
  readonly #clock: Clock;

  constructor(jobs: CompatJobs, log: Log, timezone: string) {
    this.#jobs = jobs;
    this.#log = log;
    this.#localTime = createLocalTime(timezone);
    this.#clock = createClock(timezone);
  }

  /** Calls `answer` once, perhaps before it returns. */
  execute(request: PhpRequest, answer: (reply: PhpReply) => void): void {
    const topic = textOf(request.topic) ?? '';
    const id = idOf(request.id);
    switch (request.verb) {
      case 'add':
        this.#jobs.push(topic, id, this.#readPush(request, id), (result) =>
          answer(result.kind === 'ok' ? succeeded : result.kind === 'failed' ? failed : null),
        );
        break;
      case 'del':
        void this.#jobs
          .cancel({ topic, id: id ?? '' })
          .then((result) =>
            answer(replyOf(result, (cancelled) => (cancelled === null ? failed : succeeded))),
          );
        break;
      case 'get':
        void this.#jobs
          .get({ topic, id: id ?? '' })
          .then((result) => answer(replyOf(result, (job) => this.#dataReply(job))));
        break;
      default:
        answer(failed);
    }
  }

  #readPush({ body, fixTime }: PhpRequest, id: string | null): ReadPush {
    return (topic: PlainTopic) => {
      if (id === null) throw invalidField('id', 'must be text or a whole number');
      return {
        id,
        delay: undefined,
        at: this.#readAt(fixTime),
        ...storedBody(body ?? null, topic.format),
      };
    };
  }

  /** undefined: the delay of the topic. Throws DqError. */
  #readAt(value: Buffer | undefined): string | undefined {
    if (value === undefined || value[0] === 0x6e) return undefined;
    const text = textOf(value);
    const at = text === null ? null : readFixTime(text, this.#localTime);
    if (at === null) throw invalidField('fix_time', 'must be a time such as "2030-01-31 09:00:00"');
    // Years before 0 have another text; any past time is due now.
    return formatInstant(Math.max(at, 0));
  }

  #dataReply(job: JobSnapshot | null): PhpReply {
    if (job === null || job.state === 'dead') return failed;
    const { topic, id, body } = job;
    if (body.length <= compatLimits.replyBodyBytesMax) {
      const frame = this.#dataFrame(job, true) ?? this.#dataFrame(job, false);
      if (frame !== null) return { outcome: 'ok', frame };
    }
    const why = `php: cannot send a job: its reply is over ${compatLimits.frameBytesMax} bytes`;
    this.#log.error(why, undefined, { topic, id, bytes: body.length });
    return failed;
  }

  #dataFrame(job: JobSnapshot, ascii: boolean): string | null {
    return frameOf(`{"code":1,"msg":"succ","data":${this.#data(job, ascii)}}`);
  }

  #data({ body, dueAt, acceptedAt, failures }: JobSnapshot, ascii: boolean): string {
    const members = phpMembers(body, ascii);
    if (members === null) return phpString(body.toString('utf8'), ascii);
    members.set('notify_time', phpString(this.#clock(dueAt), ascii));
    members.set('dq_set_time', phpString(this.#clock(acceptedAt), ascii));
    if (failures > 0) members.set('exp_notify_nums', String(failures));
    return `{${[...members].map(([name, value]) => `${phpString(name, ascii)}:${value}`).join(',')}}`;
  }
}

/** A store that did not answer says nothing about the job. */
const storeFailures: ReadonlySet<DqError['code']> = new Set([
  'unknown',
  'not_stored',
  'restoring',
  'unavailable',
]);

function replyOf<T>(result: CompatResult<T>, reply: (value: T) => PhpReply): PhpReply {
  if (result.kind === 'ok') return reply(result.value);
  return storeFailures.has(result.error.code) ? null : failed;
}

/** null for other values. */
function textOf(value: Buffer | undefined): string | null {
  return value?.[0] === 0x22 ? JSON.parse(value.toString('utf8')) : null;
}

/** Text, or the digits of a whole number; null for other values. */
function idOf(value: Buffer | undefined): string | null {
  const text = textOf(value);
  if (text !== null || value === undefined) return text;
  const digits = value.toString('latin1');
  return /^-?\d+$/.test(digits) ? digits : null;
}

const date = '(\\d{4})([-/])(\\d{2})\\2(\\d{2})';
const time = '[ T](\\d{2}):(\\d{2})(?::(\\d{2}))?';
const offset = ' ?(?:(Z)|([+-])(\\d{2}):?(\\d{2}))';
const fixTime = new RegExp(`^${date}(?:${time})?(?:${offset})?$`);
const unixSeconds = /^@(-?\d{1,11})$/;

/** Epoch ms; null for any other text. */
export function readFixTime(text: string, localTime: LocalTime): number | null {
  const seconds = unixSeconds.exec(text)?.[1];
  if (seconds !== undefined) return Number(seconds) * 1_000;
  const match = fixTime.exec(text);
  if (match === null) return null;
  const part = (n: number) => Number(match[n] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(3), part(4), part(5), part(6), part(7)];
  const asUtc = Date.UTC(year, month - 1, day, hour, minute, second);
  if (!isSame(asUtc, [year, month, day, hour, minute, second])) return null;
  if (match[8] !== undefined) return asUtc;
  if (match[9] === undefined) return localTime(year, month, day, hour, minute, second);
  if (part(10) > 23 || part(11) > 59) return null;
  const ahead = (part(10) * 60 + part(11)) * 60_000;
  return match[9] === '+' ? asUtc - ahead : asUtc + ahead;
}

/** Date.UTC turns 30 February into 2 March, 24:00 into the next day, and the year 30 into 1930. */
function isSame(asUtc: number, parts: readonly number[]): boolean {
  const at = new Date(asUtc);
  const read = [
    at.getUTCFullYear(),
    at.getUTCMonth() + 1,
    at.getUTCDate(),
    at.getUTCHours(),
    at.getUTCMinutes(),
    at.getUTCSeconds(),
  ];
  return read.every((value, n) => value === parts[n]);
}
