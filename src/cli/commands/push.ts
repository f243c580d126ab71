// dq push: stores one job, or the jobs of a file. Sends the given bytes unchanged.

import type { Command } from 'commander';
import type { PushResultJson } from '../../contract/api/push.ts';
import { formatDuration, parseDuration } from '../../core/duration.ts';
import { messageOf } from '../../core/errors.ts';
import { withoutByteOrderMark } from '../../core/json-text.ts';
import { readTraceContext } from '../../core/trace-context.ts';
import { ApiRefusal, type ApiReply } from '../daemon/api-client.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { atOption, flagNames, readBody } from '../flags.ts';
import { printData, say, shownInstant } from '../output/output.ts';
import { heldWarning } from '../output/topic-words.ts';
import { pushBatch, withoutMark } from '../push-batch.ts';

/** Flags that are query parameters of a push, by the API's names. */
const jobFlags = [
  'id',
  'delay',
  'at',
  'mode',
  'idempotency',
  'lease',
  'maxAttempts',
  'backoff',
  'deadline',
] as const;

interface PushFlags extends DaemonOptions, Partial<Record<(typeof jobFlags)[number], string>> {
  readonly traceparent?: string;
  readonly type?: string;
  readonly batch?: string;
  readonly empty?: boolean;
  readonly literal?: boolean;
}

export function register(program: Command): void {
  daemonCommand(program, 'push', 'push a job and print its id', push)
    .argument('[topic]', 'topic of the job; not with --batch')
    .argument('[body...]', 'job body, @FILE, or - for standard input')
    .usage('[options] [topic] [body]')
    .option('--id <id>', 'id within the topic; default: a new one')
    .option('--delay <duration>', 'wait before the callback: 30s, 10m, 1h30m')
    .addOption(atOption('time of the callback'))
    .option('--mode <mode>', 'for an id that is live: replace (default), keep, reject')
    .option('--idempotency <duration>', 'time after the end of its id in which the push stores nothing')
    .option('--lease <duration>', 'lease of this job, for a pull topic')
    .option('--max-attempts <n>', 'attempts of this job in all; default: that of the topic')
    .option('--backoff <policy>', 'waits between attempts of this job; default: that of the topic')
    .option('--traceparent <context>', 'W3C trace context, which callbacks continue')
    .option('--deadline <time>', 'no attempt starts later: a duration from now, or a time as of --at')
    .option(
      '--type <type>',
      'content type; default: application/json, text/plain or application/octet-stream by content',
    )
    .option('--empty', 'push a job without a body')
    .option('--literal', 'push a body that looks like an item of a batch')
    .option(
      '--batch <file>',
      'jobs, one JSON object {topic, id?, delay?, at?, mode?, idempotency?, lease?, maxAttempts?, backoff?, deadline?, body, contentType?} per line; - for standard input',
    )
    .addHelpText(
      'after',
      `
Examples:
  ${quotedForm('order.close')}
  ${quotedForm('order.close')} --id 4711 --delay 30m
  dq push order.close @order.json
  dq push --batch jobs.ndjson`,
    );
}

async function push(topic: string | undefined, words: readonly string[], flags: PushFlags): Promise<void> {
  // A shell splits braces without quotes into words.
  const [body, ...more] = words;
  if (more.length > 0)
    throw new Exit('usage', `too many arguments; quote the body: ${quotedForm(topic ?? 'TOPIC')}`);
  const { batch, traceparent, type, empty, literal } = flags;
  if (batch === undefined) {
    if (topic === undefined || /^[{[@-]/.test(topic))
      throw new Exit('usage', `name a topic before the body: ${quotedForm('TOPIC')}, or a file with --batch`);
    return pushOne(topic, body, flags);
  }
  const ofOneJob = [topic, traceparent, type, empty, literal, ...jobFlags.map((name) => flags[name])];
  if (ofOneJob.some((given) => given !== undefined))
    throw new Exit('usage', '--batch: topic, id and options belong in the lines of the file');
  return pushBatch(clientOf(flags), batch, flags.json === true);
}

async function pushOne(topic: string, body: string | undefined, flags: PushFlags): Promise<void> {
  const client = clientOf(flags);
  const given = await bytesOf(topic, body, flags.empty === true);
  const contentType = flags.type ?? contentTypeOf(topic, withoutByteOrderMark(given), body);
  // Only JSON does not allow the mark. Any other file, and one with --type, is the body, byte for byte.
  const isGuessedJson = flags.type === undefined && contentType === 'application/json';
  const bytes = isGuessedJson ? withoutMark(given) : given;
  let reply: ApiReply<PushResultJson>;
  try {
    reply = await client.call<PushResultJson>({
      method: 'POST',
      path: ['v1', 'topics', topic, 'jobs'],
      query: {
        ...Object.fromEntries(jobFlags.map((name) => [name, flags[name]])),
        literal: flags.literal,
      },
      ...(flags.traceparent === undefined ? {} : { headers: traceHeader(flags.traceparent) }),
      body: { bytes, contentType },
      needs: ['id', 'state', 'dueAt'],
      flags: { ...flagNames(jobFlags), 'content-type': '--type' },
    });
  } catch (error) {
    throw withRepeatHint(error, flags.id);
  }
  printData(flags.json ? reply.text : reply.json.id);
  say(dueOf(reply, flags.delay));
  const { held, inFlight } = reply.json;
  if (held !== undefined) say(`dq: warning: ${heldWarning(topic, held)}`);
  if (inFlight) say('dq: an attempt of the replaced job is running and may still finish');
}

/** dq takes an invalid context for an absent one; a person wants to know. */
function traceHeader(traceparent: string): { readonly traceparent: string } {
  if (readTraceContext(traceparent, undefined) !== null) return { traceparent };
  throw new Exit(
    'usage',
    '--traceparent: invalid; write 00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hexadecimal digits',
  );
}

/** A push without a reply may be stored. A repeat is safe only with the same id. */
function withRepeatHint(error: unknown, id: string | undefined): unknown {
  if (error instanceof ApiRefusal) {
    const made = error.problem.code === 'unknown' ? (error.problem.id ?? id) : undefined;
    return made === undefined
      ? error
      : new Exit('failed', `${error.message} (a repeat with --id ${made} is safe)`, {
          cause: error,
        });
  }
  if (!(error instanceof Exit) || error.exitCode !== 69 || isRefusedConnection(error.cause)) return error;
  const hint =
    id === undefined ? 'without --id a repeat may make a second job' : 'a repeat with this --id is safe';
  return new Exit('unreachable', `${error.message}; the job may be stored (${hint})`);
}

function isRefusedConnection(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN';
}

/** `dq: due at 2030-01-31T09:00:00.000Z, in 30m`: shows a delay in the wrong unit. */
function dueOf({ json, at }: ApiReply<PushResultJson>, delay: string | undefined): string {
  const { dueAt, state, duplicate, replaced, endedAt } = json;
  if (endedAt !== undefined)
    return `dq: stored nothing: the job of this id is ${state} since ${shownInstant(endedAt, process.stderr)}; --idempotency 0 pushes anyway`;
  const before = duplicate
    ? 'kept the waiting job, which is '
    : replaced
      ? 'replaced the job of this id; '
      : '';
  if (state !== 'delayed') return `dq: ${before}due now`;
  // The reply's Date is the daemon's clock, truncated to seconds; the clock of this machine may differ.
  const given = delay === undefined || duplicate ? null : parseDuration(delay);
  const fromReply = at === null ? null : Math.round((Date.parse(dueAt) - at - 500) / 1_000) * 1_000;
  const inMs = given?.ok ? given.value : fromReply;
  return `dq: ${before}due at ${shownInstant(dueAt, process.stderr)}${inMs === null || inMs <= 0 ? '' : `, in ${formatDuration(inMs)}`}`;
}

function quotedForm(topic: string): string {
  return `dq push ${topic} '{"order":4711}'`;
}

/** Rejects an empty body without --empty: usually a mistake (an unset variable, a pipe without input). */
async function bytesOf(topic: string, body: string | undefined, mayBeEmpty: boolean): Promise<Buffer> {
  const bytes = body === undefined ? Buffer.alloc(0) : await readBody(body);
  if (bytes.length === 0 && !mayBeEmpty)
    throw new Exit(
      'usage',
      `the job has no body: ${quotedForm(topic)}, @FILE for a file, - for standard input, or --empty`,
    );
  if (bytes.length > 0 && mayBeEmpty)
    throw new Exit('usage', '--empty: the job has a body; omit one of them');
  return bytes;
}

/** Guesses by content. Rejects a body that begins like JSON and is invalid: a shell has usually removed its
 *  quotes. */
function contentTypeOf(topic: string, bytes: Buffer, body: string | undefined): string {
  if (bytes.length === 0) return 'text/plain';
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return 'application/octet-stream';
  }
  try {
    JSON.parse(text);
    return 'application/json';
  } catch (error) {
    if (!/^\s*[{[]/.test(text)) return 'text/plain';
    const isTyped = body !== '-' && body?.startsWith('@') === false;
    const hint = isTyped ? `quote it: ${quotedForm(topic)}` : 'for one job per line use --batch';
    throw new Exit(
      'usage',
      `the body begins like JSON and is invalid (${messageOf(error)}); ${hint}; to push it as text add --type text/plain`,
    );
  }
}
