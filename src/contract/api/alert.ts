// Alerts about dead letters, incidents of an instance, and the test of a receiver.

import { Type } from 'typebox';
import { incidentKinds } from '../../core/incident.ts';
import { alertStates } from '../../core/job.ts';
import {
  closed,
  count,
  countOrNull,
  death,
  flag,
  instant,
  type JsonOf,
  Missing,
  NextCursor,
  pagingParams,
  problems,
  type ReplyOf,
  reply,
  text,
  textOrNull,
  texts,
} from './schema.ts';

const tags = ['alerts'];

const Alert = Type.Object(
  {
    ...death,
    state: Type.Enum([...alertStates], {
      description:
        '`owed`: due · `claimed`: dq is sending it · `sent` · `nobody`: no hook, and no address or no mail server is configured',
    }),
  },
  { title: 'Alert' },
);
export type AlertJson = JsonOf<typeof Alert>;

/** What a person looks at while an incident lasts. */
export const incidentHelp = {
  topic: textOrNull(
    'the topic to look at: of late jobs that of the job that was due first; null: it concerns no topic, or is over',
    'order.close',
  ),
  id: textOrNull('id of the job that was due first; null: jobs are not late, or no longer', '4711'),
  waiting: countOrNull('delayed and ready jobs of the topics when it began; null: it concerns no topic', 419),
  command: text('what to run while it lasts', 'dq explain order.close'),
};

const Incident = Type.Object(
  {
    kind: Type.Enum([...incidentKinds], { description: 'what is wrong' }),
    about: text('the failing part: a role, a server, a receiver, a topic; else empty', 'notifier'),
    state: Type.Enum(['begun', 'over'], { description: 'begun: it lasts · over: it has ended' }),
    at: instant('when dq recorded this state'),
    detail: text('what an operator needs to know', 'jobs.db: disk full'),
    ...incidentHelp,
    command: textOrNull('what to run while it lasts; null: it is over', 'dq explain order.close'),
    alert: Type.Enum(['owed', 'sent', 'nobody'], { description: 'state of the mail about it' }),
  },
  { title: 'Incident' },
);
export type IncidentJson = JsonOf<typeof Incident>;

export const listAlertsSchema = {
  operationId: 'listAlerts',
  tags,
  summary: 'Alerts of dead jobs, newest first, and incidents of this instance',
  querystring: closed(pagingParams),
  response: {
    200: reply(
      'a page',
      closed({
        incidents: Type.Array(Incident, { description: 'newest first; only on the first page' }),
        mail: Type.Optional(
          closed(
            {
              server: flag('smtp.url is set', true),
              addresses: texts('alerts.emails: recipients of every alert', ['ops@example.org']),
              hooks: texts('names of alerts.hooks; never their URLs', ['ops-chat']),
              defaultHooks: texts('alerts.defaultHooks: hooks that get every alert', ['ops-chat']),
            },
            { title: 'AlertMail' },
          ),
        ),
        items: Type.Array(Alert),
        total: Type.Optional(
          count('number of all alerts; absent for the time of a reload from an earlier build', 1_240),
        ),
        nextCursor: NextCursor,
        missing: Missing,
      }),
    ),
    ...problems(503),
  },
};
export type AlertsJson = ReplyOf<typeof listAlertsSchema>;

const Recipient = text('one mail address, or the name of a hook', 'ops@example.org');

export const testAlertSchema = {
  operationId: 'testAlert',
  tags,
  summary: 'Send a test alert to a mail address or a hook',
  body: closed({ to: Recipient }),
  response: {
    202: reply('the mail server or the hook accepted the alert', closed({ to: Recipient })),
    ...problems(413, 415, 502),
  },
};
