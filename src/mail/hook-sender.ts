// Sends an alert to a hook and returns the answer. Never retries.
// Invariants: a hook that failed gets nothing before its pause ends, so that it delays no other recipient;
// no answer contains a URL or a secret, also where the reply repeats it, as error pages do. Redirects are not
// followed.

import type { Agent } from 'undici';
import { type AlertHook, parseAlertHook } from '../core/alert-hook.ts';
import { reasonOf } from '../core/errors.ts';
import { openSocket } from '../runtime/dial.ts';
import { monotonicNow, timeoutSignal, wallNow } from '../runtime/time.ts';
import { hookAnswer, hookRequest } from './hook-request.ts';
import { mailLimits } from './limits.ts';
import type { BackoffTimes } from './mail-circuit-breaker.ts';
import type { MailText } from './mail-text.ts';
import type { Answer } from './smtp-sender.ts';

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
      const waitMs = Math.min(this.#times.min * 2 ** Math.min(failures - 1, 30), this.#times.max);
      this.#pauses.set(name, { failures, until: monotonicNow() + waitMs });
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
    return { kind: 'deferred', reason: timeout.aborted ? 'no reply in time' : reasonOf(error) };
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
