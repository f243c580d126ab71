// Checks the receivers of alerts: the mail server by greeting, TLS and login, each hook by its name and a
// connection. Sends no mail and no request: a person or a robot would take it for an alert.

import type { Config } from '../config/options.ts';
import { type AlertHook, parseAlertHook } from '../core/alert-receiver.ts';
import { messageOf } from '../core/errors.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { parseSmtpUrl } from '../core/url/server-url.ts';
import { whyNoMail } from '../mail/smtp-sender.ts';
import { openSocket } from '../runtime/dial.ts';
import { monotonicNow } from '../runtime/time.ts';
import { within } from '../runtime/timeout.ts';
import { doctorLimits } from './limits.ts';

const ofMail = findingsOf('mail server');
const ofHook = findingsOf('hook');

/** The topics of a running daemon. Rejects without one. */
export interface MailTopicReader {
  /** names of topics with mail addresses of their own */
  mailTopics(dataDir: string): Promise<readonly string[]>;
}

/** Without smtp.url empty, unless topics have addresses. */
export async function checkMailServer(config: Config, { mailTopics }: MailTopicReader): Promise<Finding[]> {
  const url = config['smtp.url'];
  // The check of the daemon says why it cannot be read.
  if (url === '') return withoutServer(await mailTopics(config.dataDir).catch(() => []));
  const parsed = parseSmtpUrl(url);
  if (!parsed.ok) return [];
  const { host, port, login } = parsed.value;
  const server = `${host}:${port}`;
  const from = monotonicNow();
  const { alertConnectMs: connectMs } = doctorLimits;
  const times = { wholeMs: connectMs, connectMs, idleMs: connectMs };
  // A lost answer of the library must not hold up the other checks.
  const why = await within(2 * connectMs, whyNoMail(url, times), () => new Error('no answer in time')).catch(
    messageOf,
  );
  if (why !== null) return [ofMail('failed', 'mail_failed', { server, why })];
  const ms = Math.ceil(monotonicNow() - from);
  return [ofMail('ok', login === null ? 'mail_ok' : 'mail_login', { server, ms })];
}

function withoutServer(topics: readonly string[]): Finding[] {
  if (topics.length === 0) return [];
  const named = { topics: topics.slice(0, doctorLimits.heldShown).join(', ') };
  const more = topics.length - doctorLimits.heldShown;
  return [ofMail('warning', 'mail_none', more > 0 ? { ...named, more } : named)];
}

/** One finding for each hook, in their order. Its URL holds a credential: only the host is shown. */
export function checkHooks(config: Config): Promise<Finding[]> {
  const hooks = config['alerts.hooks'].flatMap((text) => {
    const parsed = parseAlertHook(text);
    return parsed.ok ? [parsed.value] : [];
  });
  return Promise.all(hooks.map(checkHook));
}

async function checkHook({ name, url }: AlertHook): Promise<Finding> {
  const { hostname, protocol, port } = new URL(url);
  const isTls = protocol === 'https:';
  const host = hostname.replace(/^\[|\]$/g, '');
  const address = { host, port: Number(port) || (isTls ? 443 : 80) };
  const place = `${hostname}:${address.port}`;
  const from = monotonicNow();
  try {
    // The handshake, too: a robot with a wrong certificate gets no alert.
    const tls = isTls ? {} : null;
    const socket = await openSocket({ ...address, timeoutMs: doctorLimits.alertConnectMs }, tls);
    socket.on('error', () => undefined).destroy();
    return ofHook('ok', 'hook_ok', { name, place, ms: Math.ceil(monotonicNow() - from) });
  } catch (error) {
    return ofHook('failed', 'hook_failed', { name, place, why: messageOf(error) });
  }
}
