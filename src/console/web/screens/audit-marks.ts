// What operators did to one job, for the marks of its timeline. Only the scope admin may read the audit log;
// other sessions get no marks.

import { usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import type { AuditEntry, Page } from '../api/types.ts';

export interface JobMark {
  /** epoch ms */
  readonly at: number;
  readonly action: string;
  readonly actor: string;
}

export function useJobMarks(topic: string, id: string): readonly JobMark[] {
  const path = may('admin') ? '/v1/audit' : null;
  const { data } = usePoll<Page<AuditEntry>>(path, 15_000, { topic, id, limit: '50' });
  return (data?.items ?? [])
    .filter(({ status }) => status < 300)
    .map(({ at, action, actor }) => ({ at: Date.parse(at), action, actor }));
}
