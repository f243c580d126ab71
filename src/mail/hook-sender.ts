// Sends an alert to a hook and returns the answer. Never retries.
// Invariants: a hook that failed gets nothing before its pause ends, so that it delays no other recipient;
// no answer contains a URL or a secret, also where the reply repeats it, as error pages do. Redirects are not
// followed. The request fits the size limit of its robot; a reply of a robot counts as accepted only with
// its success code, because robots answer rejections with the status 200.

import { createHash, createHmac } from 'node:crypto';
import type { Agent } from 'undici';
import { type AlertHook, parseAlertHook } from '../core/alert-receiver.ts';
import { signatureHeader } from '../core/delivery.ts';
import { messageOf } from '../core/errors.ts';
import { openSocket } from '../runtime/dial.ts';
import { monotonicNow, timeoutSignal, wallNow } from '../runtime/time.ts';
import { mailLimits } from './limits.ts';
import { type MailText, oneLine } from './mail-text.ts';
import { type Answer, type BackoffTimes, backoffMs } from './smtp-sender.ts';

interface Pause {
  readonly failures: number;
  /** monotonicNow() */
  readonly until: number;
}

export class HookSender {
  readonly #hooks: ReadonlyMap<string, AlertHook>;
  readonly #times: BackoffTimes;
  readonly #pauses = new Map<string, Pause>();

  /** Throws for an invalid hook. */
  constructor(config: { readonly 'alerts.hooks': readonly string[] }, times: BackoffTimes) {
    const hooks = config['alerts.hooks'].map((text) => {
      const hook = parseAlertHook(text);
      if (!hook.ok) throw new Error(`alerts.hooks ${hook.message}`);
      return hook.value;
    });
    this.#hooks = new Map(hooks.map((hook) => [hook.name, hook]));
    this.#times = times;
  }

  get names(): readonly string[] {
    return [...this.#hooks.keys()];
  }

  has(name: string): boolean {
    return this.#hooks.has(name);
  }

  isPaused(name: string): boolean {
    return monotonicNow() < (this.#pauses.get(name)?.until ?? 0);
  }

  async send(name: string, mail: MailText, signal?: AbortSignal): Promise<Answer> {
    const hook = this.#hooks.get(name);
    if (hook === undefined) throw new Error(`unknown hook: ${name}`);
    const answer = await exchange(hook, mail, signal);
    if (answer.kind !== 'deferred') this.#pauses.delete(name);
    else if (signal?.aborted !== true) {
      const failures = (this.#pauses.get(name)?.failures ?? 0) + 1;
      this.#pauses.set(name, { failures, until: monotonicNow() + backoffMs(this.#times, failures) });
    }
    return answer;
  }
}

async function exchange(hook: AlertHook, mail: MailText, signal?: AbortSignal): Promise<Answer> {
  const timeout = timeoutSignal(mailLimits.hookMs);
  try {
    const { url, headers, body } = hookRequest(hook, mail, wallNow());
    // Not at the start: most processes never send an alert.
    const { request } = (await import('undici')).default;
    const reply = await request(url, {
      method: 'POST',
      dispatcher: await dispatcher(),
      headers,
      body,
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    return hookAnswer(hook, reply.statusCode, masked(await startOf(reply.body), hook));
  } catch (error) {
    return { kind: 'deferred', reason: timeout.aborted ? 'no reply in time' : messageOf(error) };
  }
}

let agent: Agent | null = null;

/** Keeps connections for some seconds. */
async function dispatcher(): Promise<Agent> {
  const { Agent } = (await import('undici')).default;
  agent ??= new Agent({
    connect: ({ hostname, port, protocol }, callback) => {
      const [usual, tls] = protocol === 'https:' ? [443, { ALPNProtocols: ['http/1.1'] }] : [80, null];
      const place = { host: hostname, port: Number(port) || usual, timeoutMs: mailLimits.hookMs };
      openSocket(place, tls).then(
        (socket) => callback(null, socket),
        (error) => callback(error, null),
      );
    },
  });
  return agent;
}

/** The first mailLimits.mailReplyBytesMax bytes; the rest is dropped with the connection. */
async function startOf(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= mailLimits.mailReplyBytesMax) break;
  }
  return Buffer.concat(chunks).subarray(0, mailLimits.mailReplyBytesMax).toString();
}

/** Replaces the parts of the URL and of the secret that a credential may be: long ones. */
function masked(reply: string, { url, secret }: AlertHook): string {
  const { pathname, searchParams } = new URL(url);
  const parts = [secret, ...pathname.split('/').map(decoded), ...searchParams.values()]
    .filter((part) => part.length >= mailLimits.credentialMin)
    .flatMap((part) => [part, encodeURIComponent(part), part.replace(/^whsec_/, '')])
    .sort((a, b) => b.length - a.length);
  return parts.reduce((text, part) => text.replaceAll(part, '***'), reply);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // no percent-encoding
  }
}

interface HookRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export function hookRequest(hook: AlertHook, mail: MailText, nowMs: number): HookRequest {
  const { kind, url, secret } = hook;
  const json = (body: object, target = url, headers: Readonly<Record<string, string>> = {}) => ({
    url: target,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  });
  const text = `${mail.subject}\n\n${mail.text}`;
  switch (kind) {
    case 'webhook': {
      const { subject, text: plain, data } = mail;
      const request = json({ ...data, subject, text: plain });
      // The same for a repeated request about the same alerts.
      const digest = createHash('sha256').update(`${hook.name} ${request.body}`).digest('base64url');
      const id = `msg_${digest.slice(0, 32)}`;
      const timestampS = Math.floor(nowMs / 1_000);
      const signed = {
        'webhook-id': id,
        'webhook-timestamp': String(timestampS),
        'webhook-signature': signatureHeader([secret], id, timestampS, Buffer.from(request.body)),
      };
      return { ...request, headers: { ...request.headers, ...signed } };
    }
    case 'slack': {
      const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
      return json({ text: clipped(escaped, mailLimits.chatBytesMax.slack) });
    }
    case 'dingtalk': {
      const target = new URL(url);
      if (secret !== '') {
        const sign = createHmac('sha256', secret).update(`${nowMs}\n${secret}`).digest('base64');
        target.searchParams.set('timestamp', String(nowMs));
        target.searchParams.set('sign', sign);
      }
      const content = clipped(text, mailLimits.chatBytesMax.dingtalk);
      return json({ msgtype: 'text', text: { content } }, target.href);
    }
    case 'wecom':
      return json({ msgtype: 'text', text: { content: clipped(text, mailLimits.chatBytesMax.wecom) } });
    case 'feishu': {
      const timestamp = String(Math.floor(nowMs / 1_000));
      // Feishu signs the empty text; time and secret are the key.
      const sign = createHmac('sha256', `${timestamp}\n${secret}`).update('').digest('base64');
      return json({
        ...(secret === '' ? {} : { timestamp, sign }),
        msg_type: 'text',
        // It reads <at user_id="all"> in a text as a mention of each member.
        content: { text: clipped(text.replace(/<(?=\/?at\b)/gi, '< '), mailLimits.chatBytesMax.feishu) },
      });
    }
  }
}

/** `reply`: the start of the body */
export function hookAnswer({ kind }: AlertHook, status: number, reply: string): Answer {
  const isOk = status >= 200 && status < 300;
  const reason = `status ${status} ${oneLine(reply, mailLimits.alertExcerptMax)}`.trimEnd();
  if (!isOk) return { kind: isTemporary(status) ? 'deferred' : 'refused', reason };
  if (kind === 'webhook' || kind === 'slack') return { kind: 'accepted' };
  const code = codeIn(reply, kind === 'feishu' ? ['code', 'StatusCode'] : ['errcode']);
  if (code === 0) return { kind: 'accepted' };
  // Without a code the reply is not that of the robot: a proxy may have sent it.
  return { kind: code === null || busyCodes.has(code) ? 'deferred' : 'refused', reason };
}

const isTemporary = (status: number) => status >= 500 || [408, 425, 429].includes(status);

/** Too many messages, or the service is busy: dingtalk 130101, wecom 45009, feishu 9499 and 11232, -1. */
const busyCodes: ReadonlySet<number> = new Set([-1, 130_101, 45_009, 9_499, 11_232]);

function codeIn(reply: string, names: readonly string[]): number | null {
  try {
    const json: unknown = JSON.parse(reply);
    if (typeof json !== 'object' || json === null) return null;
    const found = names.map((name) => (json as Record<string, unknown>)[name]);
    return found.find((code) => typeof code === 'number') ?? null;
  } catch {
    return null; // not JSON
  }
}

/** At most `max` bytes: the start and the end, which holds the command to requeue. */
function clipped(text: string, max: number): string {
  if (Buffer.byteLength(text) <= max) return text;
  const characters = [...text];
  const end = takeBytes(characters.slice(-mailLimits.chatEndMax).reverse(), max / 2)
    .reverse()
    .join('');
  const mark = '\n…\n';
  const start = takeBytes(characters, max - Buffer.byteLength(end + mark)).join('');
  return start + mark + end;
}

function takeBytes(characters: readonly string[], max: number): string[] {
  let bytes = 0;
  const end = characters.findIndex((character) => {
    bytes += Buffer.byteLength(character);
    return bytes > max;
  });
  return end === -1 ? [...characters] : characters.slice(0, end);
}
