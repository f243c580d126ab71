// GET /v1/audit: who changed what. A caller whose token covers some topics only sees entries of these topics.

import { Type } from 'typebox';
import { type AuditEntry, auditIdPattern } from '../../core/audit.ts';
import { formatInstant, parseInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { reaches, reachesEveryTopic } from '../../core/token.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { invalidCursor, pageOf, pagingParams, readLimit } from '../http/paging.ts';
import { requireTopic, rightsOf } from '../http/route-access.ts';
import { closed, instant, instantText, nullable, problems, reply, text } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';

const anyValue = (description: string, example: unknown) =>
  Type.Unsafe<unknown>({ description, examples: [example] });
const Entry = closed(
  {
    id: text('orders entries by time', '019a8e6b0f2c0a1b2c3d4e5f'),
    at: instant('when dq answered the call'),
    actor: text('token, sign-in link, "this machine" or "dq CLI"', 'li.wei'),
    address: text('IP address of the caller, or of the proxy before dq', '127.0.0.1'),
    action: text('operationId of the call', 'patchTopic'),
    topic: nullable('string', { description: 'null: concerns no single topic', examples: ['order.close'] }),
    jobId: nullable('string', { description: 'null: concerns no single job', examples: [null] }),
    detail: Type.Union(
      [
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
        Type.Null(),
      ],
      { description: 'the difference, or filter and count', examples: [null] },
    ),
    status: Type.Integer({ description: 'HTTP status of the answer', examples: [200] }),
    code: nullable('string', { description: 'of the error; null: it succeeded', examples: [null] }),
  },
  { title: 'AuditEntry' },
);
const schema = {
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
    limit: Type.Optional(
      Type.String({
        description: `items of a page, 1–${apiLimits.auditPageMax}`,
        default: String(apiLimits.pageItems),
        examples: ['20'],
      }),
    ),
  }),
  response: { 200: reply('a page', pageOf(Entry)), ...problems(503) },
};

export function auditRoute(api: Api, { role }: ApiContext): void {
  api.get(
    '/v1/audit',
    { schema, config: { access: { scope: 'admin', topics: 'handler' } } },
    async (request) => {
      const { topic, id, actor, action, since, until, cursor } = request.query;
      const limit = readLimit(request.query.limit, apiLimits.auditPageMax);
      if (topic !== undefined) requireTopic(request, topic);
      if (id !== undefined && topic === undefined) throw invalidField('id', 'requires topic');
      if (cursor !== undefined && !auditIdPattern.test(cursor)) throw invalidCursor();
      const filter = {
        ...{ topic, jobId: id, actor, action },
        since: readTime('since', since),
        until: readTime('until', until),
      };
      const page = await role.registry.audit(filter, cursor ?? null, limit);
      const rights = rightsOf(request);
      const isVisible = (entry: AuditEntry) =>
        reachesEveryTopic(rights) || (entry.topic !== null && reaches(rights, entry.topic));
      return { items: page.items.filter(isVisible).map(entryJson), nextCursor: page.next };
    },
  );
}

function readTime(field: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parsed = parseInstant(text, true);
  if (!parsed.ok) throw invalidField(field, parsed.message);
  return parsed.value;
}

function entryJson({ at, ...entry }: AuditEntry): object {
  return { ...entry, at: formatInstant(at) };
}
