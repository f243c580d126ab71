// The audit log: who changed what.

import { Type } from 'typebox';
import { contractLimits } from './limits.ts';
import {
  closed,
  instant,
  instantText,
  type JsonOf,
  limitParam,
  orNull,
  pageOf,
  pagingParams,
  problems,
  reply,
  text,
  textOrNull,
} from './schema.ts';

const anyValue = (description: string, example: unknown) =>
  Type.Unsafe<unknown>({ description, examples: [example] });

const AuditEntry = closed(
  {
    id: text('orders entries by time', '019a8e6b0f2c0a1b2c3d4e5f'),
    at: instant('when dq answered the call'),
    actor: text('token, sign-in link, "this machine", or "dq CLI" and the user of the system', 'li.wei'),
    address: text('IP address of the caller, or of the proxy before dq', '127.0.0.1'),
    action: text('operationId of the call', 'patchTopic'),
    topic: textOrNull('null: concerns no single topic', 'order.close'),
    jobId: textOrNull('null: concerns no single job'),
    detail: orNull(
      closed(
        {
          changes: Type.Optional(
            Type.Array(
              closed({
                field: text('name of the field', 'maxAttempts'),
                before: anyValue('earlier value; null: none. *** stands for a hidden value', 5),
                after: anyValue('new value; null: none', 10),
              }),
              { description: 'fields whose value differs' },
            ),
          ),
          filter: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), {
              description: 'what the caller selected or gave',
              examples: [{ topic: 'order.close' }],
            }),
          ),
          count: Type.Optional(Type.Integer({ description: 'jobs that the call changed', examples: [12] })),
        },
        { title: 'AuditDetail' },
      ),
      'the difference, or filter and count',
    ),
    status: Type.Integer({ description: 'HTTP status of the answer', examples: [200] }),
    code: textOrNull('of the error; null: it succeeded'),
  },
  { title: 'AuditEntry' },
);
export type AuditEntryJson = JsonOf<typeof AuditEntry>;

export const auditSchema = {
  operationId: 'audit',
  tags: ['access'],
  summary: 'Changes by operators and sign-ins, newest first',
  description:
    'Entries appear within a second and stay for audit.days, at most 100,000. The log files of kind audit have all of them. A page can be short and have a nextCursor.',
  querystring: closed({
    topic: Type.Optional(text('only this topic', 'order.close')),
    id: Type.Optional(text('only this job; requires topic', '4711')),
    actor: Type.Optional(text('only this actor', 'li.wei')),
    action: Type.Optional(text('only this operationId', 'patchTopic')),
    since: instantText('recorded then or later'),
    until: instantText('recorded before'),
    ...pagingParams,
    limit: limitParam('items of a page', contractLimits.auditPageMax),
  }),
  response: { 200: reply('a page', pageOf(AuditEntry)), ...problems(503) },
};
