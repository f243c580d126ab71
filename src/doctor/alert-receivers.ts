// Checks the receivers of alerts: the mail server by greeting, TLS and login, each hook by its name and a
// connection. Sends no mail and no request: a person or a robot would take it for an alert.

import type { Config } from '../config/options.ts';
import { type AlertHook, parseAlertHook } from '../core/alert-receiver.ts';
import { messageOf } from '../core/errors.ts';
import { parseSmtpUrl } from '../core/url/server-url.ts';
import { whyNoMail } from '../mail/smtp-sender.ts';
import { openSocket } from '../runtime/dial.ts';
import { monotonicNow } from '../runtime/time.ts';
import { within } from '../runtime/timeout.ts';
import { type Finding, of } from './finding.ts';
import { doctorLimits } from './limits.ts';

const ofMail = of('mail server');
const ofHook = of('hook');

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
  const server = parseSmtpUrl(url);
  if (!server.ok) return [];
  const { host, port, login } = server.value;
  const shown = `${host}:${port}`;
  const from = monotonicNow();
  const { alertConnectMs: connectMs } = doctorLimits;
  const times = { wholeMs: connectMs, connectMs, idleMs: connectMs };
  // A lost answer of the library must not hold up the other checks.
  const why = await within(2 * connectMs, whyNoMail(url, times), () => new Error('no answer in time')).catch(
    messageOf,
  );
  if (why !== null)
    return [
      ofMail('failed', `${shown}: ${why}; no alert by mail goes out: check smtp.url, then dq alert test`),
    ];
  const ms = Math.ceil(monotonicNow() - from);
  return [ofMail('ok', `${shown} ${login === null ? 'answers' : 'accepts the login'}, in ${ms} ms`)];
}

function withoutServer(topics: readonly string[]): Finding[] {
  if (topics.length === 0) return [];
  const shown = topics.slice(0, doctorLimits.heldShown).join(', ');
  const others = topics.length - doctorLimits.heldShown;
  const named = others > 0 ? `${shown} and ${others} more` : shown;
  return [
    ofMail(
      'warning',
      `smtp.url is not set, so no mail goes to the alert addresses of ${named}: set it, and reload`,
    ),
  ];
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
  const place = { host, port: Number(port) || (isTls ? 443 : 80) };
  const shown = `${name} at ${hostname}:${place.port}`;
  const from = monotonicNow();
  try {
    // The handshake, too: a robot with a wrong certificate gets no alert.
    const tls = isTls ? {} : null;
    const socket = await openSocket({ ...place, timeoutMs: doctorLimits.alertConnectMs }, tls);
    socket.on('error', () => undefined).destroy();
    return ofHook('ok', `${shown} accepts the connection, in ${Math.ceil(monotonicNow() - from)} ms`);
  } catch (error) {
    return ofHook(
      'failed',
      `${shown}: ${messageOf(error)}; no alert reaches it: check alerts.hooks, then dq alert test ${name}`,
    );
  }
}
