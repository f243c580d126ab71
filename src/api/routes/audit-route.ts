// GET /v1/audit: who changed what. A caller whose token covers some topics only sees entries of these topics.

import { auditSchema } from '../../contract/api/audit.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { type AuditEntry, auditIdPattern } from '../../core/audit.ts';
import { formatInstant } from '../../core/duration.ts';
import { invalidField } from '../../core/errors.ts';
import { reaches, reachesEveryTopic } from '../../core/token.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { invalidCursor, readLimit } from '../http/paging.ts';
import { readInstant } from '../http/query.ts';
import { needs, requireTopic, rightsOf } from '../http/route-access.ts';

export function auditRoute(api: Api, { role }: ApiContext): void {
  api.get('/v1/audit', { schema: auditSchema, config: needs('admin', 'handler') }, async (request) => {
    const { topic, id, actor, action, since, until, cursor } = request.query;
    const limit = readLimit(request.query.limit, contractLimits.auditPageMax);
    if (topic !== undefined) requireTopic(request, topic);
    if (id !== undefined && topic === undefined) throw invalidField('id', 'requires topic');
    if (cursor !== undefined && !auditIdPattern.test(cursor)) throw invalidCursor();
    const filter = {
      topic,
      jobId: id,
      actor,
      action,
      since: since === undefined ? undefined : readInstant('since', since),
      until: until === undefined ? undefined : readInstant('until', until),
    };
    const page = await role.registry.audit(filter, cursor ?? null, limit);
    const rights = rightsOf(request);
    const isVisible = (entry: AuditEntry) =>
      reachesEveryTopic(rights) || (entry.topic !== null && reaches(rights, entry.topic));
    return { items: page.items.filter(isVisible).map(entryJson), nextCursor: page.next };
  });
}

function entryJson({ at, ...entry }: AuditEntry) {
  return { ...entry, at: formatInstant(at) };
}
