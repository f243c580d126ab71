// /v1/alerts lists the mails due for dead letters, and the incidents of this instance. /v1/alerts/test sends
// one mail or one message to a hook at once, with the same senders.

import { hostname } from 'node:os';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { isMailAddress } from '../../core/mail-address.ts';
import { HookSender } from '../../mail/hook-sender.ts';
import type { MailText } from '../../mail/mail-text.ts';
import { type MailSender, openMailSender } from '../../mail/smtp-sender.ts';
import type { AlertEntry } from '../../ports/job-store.ts';
import { type Incident, IncidentFiles, incidentKinds } from '../../process/incident-files.ts';
import { wallNow } from '../../runtime/time.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { Missing, NextCursor, pagingParams, readLimit, rejectBadCursor } from '../http/paging.ts';
import {
  closed,
  DeadReason,
  FinishedAttempts,
  instant,
  JobId,
  nullable,
  problems,
  reply,
  TopicName,
  text,
  Version,
} from '../http/schemas.ts';

const tags = ['alerts'];

const Alert = Type.Object(
  {
    topic: TopicName,
    id: JobId,
    version: Version,
    deadAt: instant('when the job died'),
    reason: DeadReason,
    attempt: FinishedAttempts,
    lastReason: nullable('string', { description: 'why the last attempt failed', examples: ['timeout'] }),
    status: nullable('integer', { description: 'HTTP status of the last attempt', examples: [500] }),
    replyExcerpt: text('start of the reply to the last attempt', 'internal error'),
    state: Type.Enum(['owed', 'claimed', 'sent', 'nobody'], {
      description:
        '`owed`: due · `claimed`: dq is sending it · `sent` · `nobody`: no hook, and no address or no mail server is configured',
    }),
  },
  { title: 'Alert' },
);

const IncidentItem = Type.Object(
  {
    kind: Type.Enum([...incidentKinds], { description: 'what is wrong' }),
    about: text('the crashing role; otherwise empty', 'notifier'),
    state: Type.Enum(['begun', 'over'], { description: 'begun: it lasts · over: it has ended' }),
    at: instant('when this state began'),
    detail: text('what an operator needs to know', 'jobs.db: disk full'),
    alert: Type.Enum(['owed', 'sent', 'nobody'], { description: 'state of the mail about it' }),
  },
  { title: 'Incident' },
);

const listSchema = {
  operationId: 'listAlerts',
  tags,
  summary: 'Alerts of dead jobs, newest first, and incidents of this instance',
  querystring: closed(pagingParams),
  response: {
    200: reply(
      'a page',
      closed({
        incidents: Type.Array(IncidentItem, { description: 'newest first; only on the first page' }),
        mail: Type.Optional(
          closed(
            {
              server: Type.Boolean({ description: 'smtp.url is set', examples: [true] }),
              addresses: Type.Array(Type.String(), {
                description: 'alerts.emails: recipients of every alert',
                examples: [['ops@example.org']],
              }),
              hooks: Type.Array(Type.String(), {
                description: 'names of alerts.hooks; never their URLs',
                examples: [['ops-chat']],
              }),
              defaultHooks: Type.Array(Type.String(), {
                description: 'alerts.defaultHooks: hooks that get every alert',
                examples: [['ops-chat']],
              }),
            },
            { title: 'AlertMail' },
          ),
        ),
        items: Type.Array(Alert),
        nextCursor: NextCursor,
        missing: Missing,
      }),
    ),
    ...problems(503),
  },
};

const Recipient = text('one mail address, or the name of a hook', 'ops@example.org');
const testSchema = {
  operationId: 'testAlert',
  tags,
  summary: 'Send a test alert to a mail address or a hook',
  body: closed({ to: Recipient }),
  response: {
    202: reply('the mail server or the hook accepted the alert', closed({ to: Recipient })),
    ...problems(413, 415, 502),
  },
};

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

  api.get(
    '/v1/alerts',
    { schema: listSchema, config: { access: { scope: 'read', topics: 'every' } } },
    async (request) => {
      const { limit, cursor } = request.query;
      const page = await store.alerts.list(readLimit(limit), cursor ?? null).catch(rejectBadCursor);
      const own = cursor === undefined ? [...(await incidents.list())].reverse() : [];
      return {
        incidents: own.map(incidentJson),
        ...(cursor === undefined ? { mail } : {}),
        items: page.items.map(alertJson),
        nextCursor: page.nextCursor,
        missing: page.missing,
      };
    },
  );

  api.post(
    '/v1/alerts/test',
    // The scope of setting a topic's addresses: either makes dq write to any address.
    { schema: testSchema, config: { access: { scope: 'admin', topics: 'every' } } },
    async (request, answer) => {
      const { to } = request.body;
      if (hooks.has(to)) {
        await testHook(hooks, to, version);
        return answer.code(202).send({ to });
      }
      if (!isMailAddress(to))
        throw invalidField('to', 'must be a mail address such as ops@example.org, or a name of alerts.hooks');
      if (sender === null) throw new DqError('smtp_failed', 'smtp.url: not configured; set it in dq.yaml');
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

function alertJson(entry: AlertEntry): object {
  return {
    topic: entry.topic,
    id: entry.id,
    version: String(entry.version),
    deadAt: formatInstant(entry.deadAt),
    reason: entry.reason,
    attempt: entry.failures,
    lastReason: entry.attempt?.reason ?? null,
    status: entry.attempt?.status ?? null,
    replyExcerpt: entry.attempt?.replyExcerpt ?? '',
    state: entry.state,
  };
}

function incidentJson({ kind, about, state, at, detail, alert }: Incident): object {
  return { kind, about, state, at: formatInstant(at), detail, alert };
}
