// /v1/alerts lists the mails due for dead letters, and the incidents of this instance. /v1/alerts/test sends
// one mail or one message to a hook at once, with the same senders.

import { hostname } from 'node:os';
import { listAlertsSchema, testAlertSchema } from '../../contract/api/alert.ts';
import { isMailAddress, noMail } from '../../core/alert-receiver.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { helpOf, type Incident } from '../../core/incident.ts';
import { HookSender } from '../../mail/hook-sender.ts';
import type { MailText } from '../../mail/mail-text.ts';
import { type MailSender, openMailSender } from '../../mail/smtp-sender.ts';
import type { AlertEntry } from '../../ports/job-store.ts';
import { IncidentFiles } from '../../process/incident-files.ts';
import { wallNow } from '../../runtime/time.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { readLimit, rejectBadCursor } from '../http/request-head.ts';
import { needs } from '../http/route-access.ts';

export function alertRoutes(api: Api, { role }: ApiContext): void {
  const { config, store, version } = role;
  const incidents = new IncidentFiles(config.dataDir);
  const sender = openMailSender(config);
  const hooks = new HookSender(config, { min: 0, max: 0 });
  const mail = {
    server: sender !== null,
    addresses: config['alerts.emails'],
    hooks: hooks.names,
    defaultHooks: config['alerts.defaultHooks'],
  };

  api.get('/v1/alerts', { schema: listAlertsSchema, config: needs('read', 'every') }, async (request) => {
    const { limit, cursor } = request.query;
    const page = await store.alerts.list(readLimit(limit), cursor ?? null).catch(rejectBadCursor);
    const own = cursor === undefined ? [...(await incidents.list())].reverse() : [];
    return {
      incidents: own.map(incidentJson),
      ...(cursor === undefined ? { mail } : {}),
      items: page.items.map(alertJson),
      ...(page.total === undefined ? {} : { total: page.total }),
      nextCursor: page.nextCursor,
      missing: page.missing,
    };
  });

  api.post(
    '/v1/alerts/test',
    // The scope of setting a topic's addresses: either makes dq write to any address.
    { schema: testAlertSchema, config: needs('admin', 'every') },
    async (request, answer) => {
      const { to } = request.body;
      if (hooks.has(to)) {
        await testHook(hooks, to, version);
        return answer.code(202).send({ to });
      }
      if (!isMailAddress(to))
        throw invalidField('to', 'must be a mail address such as ops@example.org, or a name of alerts.hooks');
      if (sender === null) throw new DqError('smtp_failed', `${noMail}: set it, and reload`);
      await sendTest(sender, to, version);
      return answer.code(202).send({ to });
    },
  );
}

async function sendTest(sender: MailSender, to: string, version: string): Promise<void> {
  const text = testText('Test mail from dq: alerts reach this address.', version);
  const answers = await sender.send({ to: [to], ...text });
  for (const answer of answers.values())
    if (answer.kind !== 'accepted')
      throw new DqError('smtp_failed', `mail server: did not accept the mail: ${answer.reason}`);
}

async function testHook(hooks: HookSender, name: string, version: string): Promise<void> {
  const data = { type: 'dq.test', host: hostname(), version, at: formatInstant(wallNow()) };
  const text = testText('Test message from dq: alerts reach this hook.', version);
  const answer = await hooks.send(name, { ...text, data });
  if (answer.kind !== 'accepted')
    throw new DqError('hook_failed', `hook ${name}: did not accept the message: ${answer.reason}`);
}

const testText = (sentence: string, version: string): MailText => ({
  subject: 'dq: test of alerts',
  text: `${sentence}\n\n-- \ndq ${version} on ${hostname()}\n`,
});

function alertJson(entry: AlertEntry) {
  return {
    topic: entry.topic,
    id: entry.id,
    version: String(entry.version),
    deadAt: formatInstant(entry.deadAt),
    deadReason: entry.reason,
    attempt: entry.failures,
    lastReason: entry.attempt?.reason ?? null,
    status: entry.attempt?.status ?? null,
    replyExcerpt: entry.attempt?.replyExcerpt ?? '',
    detail: entry.attempt?.detail ?? '',
    state: entry.state,
  };
}

function incidentJson(incident: Incident) {
  const { kind, about, state, at, detail, alert } = incident;
  const help = { ...helpJson(incident), ...(state === 'over' ? { command: null } : {}) };
  return { kind, about, state, at: formatInstant(at), detail, ...help, alert };
}

/** The topic, the oldest of late jobs, and what to run while the failure lasts. */
export function helpJson(incident: Incident) {
  const { oldest, topic = oldest?.topic ?? null, waiting = null } = incident;
  return { topic, id: oldest?.id ?? null, waiting, command: helpOf(incident).command };
}
