// /v1/alerts: who was told of what, and who is still to be told. /v1/alerts/test sends one mail on the spot, by the same way.

import { hostname } from 'node:os';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { isMailAddress } from '../../core/mail-address.ts';
import { openMailSender } from '../../mail/smtp-sender.ts';
import type { AlertEntry } from '../../ports/job-store.ts';
import { type Incident, IncidentFiles, incidentKinds } from '../../process/incident-files.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { Missing, pagingParams, readLimit, refuseCursor } from '../http/paging.ts';
import { closed, Instant, nullable, problems, reply, VersionText } from '../http/schemas.ts';

const tags = ['alerts'];

const Alert = Type.Object({
  topic: Type.String(),
  id: Type.String(),
  version: VersionText,
  deadAt: Instant,
  reason: Type.Enum(['attempts_exhausted', 'gone', 'no_retry', 'poison']),
  attempt: Type.Integer({ description: 'attempts finished' }),
  lastReason: nullable('string'),
  status: nullable('integer'),
  replyExcerpt: Type.String({ description: 'of the last attempt' }),
  state: Type.Enum(['owed', 'claimed', 'sent', 'nobody'], {
    description: 'claimed: being mailed; nobody: there was no address, or no mail server',
  }),
});

const IncidentItem = Type.Object({
  kind: Type.Enum([...incidentKinds]),
  about: Type.String({ description: 'the role that crashes; else empty' }),
  state: Type.Enum(['begun', 'over']),
  at: Instant,
  detail: Type.String(),
  alert: Type.Enum(['owed', 'sent', 'nobody']),
});

export function alertRoutes(api: Api, { role }: ApiContext): void {
  const { config, store, version } = role;
  const incidents = new IncidentFiles(config.dataDir);
  const sender = openMailSender(config);

  api.get(
    '/v1/alerts',
    {
      schema: {
        operationId: 'listAlerts',
        tags,
        summary: 'Alerts of dead jobs, newest death first, and incidents of this instance',
        querystring: closed(pagingParams),
        response: {
          200: reply(
            'a page',
            closed({
              incidents: Type.Array(IncidentItem, { description: 'newest first; on the first page only' }),
              items: Type.Array(Alert),
              nextCursor: nullable('string', { description: 'null at the end' }),
              missing: Missing,
            }),
          ),
          ...problems(503),
        },
      },
      config: { access: { scope: 'read', topics: 'every' } },
    },
    async (request) => {
      const { limit, cursor } = request.query;
      const page = await store.alerts.list(readLimit(limit), cursor ?? null).catch(refuseCursor);
      const own = cursor === undefined ? [...(await incidents.list())].reverse() : [];
      return {
        incidents: own.map(incidentJson),
        items: page.items.map(alertJson),
        nextCursor: page.nextCursor,
        missing: page.missing,
      };
    },
  );

  api.post(
    '/v1/alerts/test',
    {
      schema: {
        operationId: 'testAlert',
        tags,
        summary: 'Send a test mail',
        body: closed({ to: Type.String({ description: 'one address' }) }),
        response: {
          202: reply('the mail server has taken it', closed({ to: Type.String() })),
          ...problems(413, 415, 502),
        },
      },
      // As telling a topic's addresses is: whoever may do it makes dq write to anybody.
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (request, answer) => {
      const { to } = request.body;
      if (!isMailAddress(to)) throw invalidField('to', 'must be a mail address such as ops@example.org');
      if (sender === null) throw new DqError('smtp_failed', 'no smtp.url is configured');
      const text = `This is the test that was asked for: alerts of dq reach this address.\n\n-- \ndq ${version} on ${hostname()}\n`;
      const sent = await sender.send({ to: [to], subject: 'dq: test of alerts', text });
      const failure = sent.kind === 'failed' ? sent : sent.answers.get(to);
      if (failure !== undefined && failure.kind !== 'accepted')
        throw new DqError('smtp_failed', `the mail was not taken: ${failure.reason}`);
      return answer.code(202).send({ to });
    },
  );
}

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
