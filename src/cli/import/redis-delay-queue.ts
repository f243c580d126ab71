// Reads redis-delay-queue. Its values are in the serialization of the application; the import takes those
// that are JSON. Its serializer may write a member as a JSON string.

import { HashJobs } from './hash-jobs.ts';
import { digestOf, type Found, jsonBody, type Source, splitKey, textOf, unreadable } from './source.ts';
import { SourceRedis } from './source-redis.ts';

export function openRedisDelayQueue(redis: string, project: string): Source {
  const server = new SourceRedis(redis);
  const quote = Buffer.from('"');
  const jobs = new HashJobs(server, {
    table: `{${project}}:Redis_Delay_Table`,
    buckets: `{${project}}:RD_ZSET_BUCKET:`,
    lists: [`{${project}}:RD_LIST_TOPIC:`],
    scoreMs: 1,
    membersOf: (field) => [field, Buffer.concat([quote, field, quote])],
    fieldOf: bare,
  });
  return {
    places: `${server.place} ${project}`,
    topics: async () => [],
    async *jobs() {
      for await (const page of jobs.pages()) {
        if ('deleted' in page) yield Array.from({ length: page.deleted }, (): Found => ({ kind: 'deleted' }));
        else yield page.map(foundOf);
      }
    },
    settings: async () => '',
    close: async () => server.close(),
  };
}

/** Without the quotes of a JSON string. */
function bare(text: Buffer): Buffer {
  return text.length > 1 && text[0] === 0x22 && text.at(-1) === 0x22 ? text.subarray(1, -1) : text;
}

function foundOf({
  field,
  value,
  place,
  dueAt,
}: {
  field: Buffer;
  value: Buffer;
  place: 'due' | 'delayed' | 'lost';
  dueAt: number | null;
}): Found {
  const key = textOf(bare(field));
  const name = key === null ? null : splitKey(key);
  if (name === null) return unreadable(field, 'the name is not topic:id in UTF-8');
  const body = textOf(value) === null ? null : jsonBody(value);
  if (body === null) return unreadable(field, 'the value is not JSON');
  const rest = { acceptedAt: null, failures: 0, leaseMs: null, digest: digestOf(value), record: value };
  return { kind: 'job', job: { ...name, place, dueAt, body, ...rest } };
}
