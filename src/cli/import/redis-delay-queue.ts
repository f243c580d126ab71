// Reads redis-delay-queue. Its values are in the serialization of the application; the import takes those
// that are JSON. Its serializer may write a member as a JSON string.

import { HashJobs } from './hash-jobs.ts';
import { jobFound, jsonBody, type Source, textOf, unreadable } from './source.ts';
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
    jobs: () =>
      jobs.pages(({ field, value, place, dueAt }, name) => {
        const body = textOf(value) === null ? null : jsonBody(value);
        if (body === null) return unreadable(field, 'the value is not JSON');
        return jobFound({ ...name, place, dueAt, body, record: value });
      }),
    close: async () => server.close(),
  };
}

/** Without the quotes of a JSON string. */
function bare(text: Buffer): Buffer {
  return text.length > 1 && text[0] === 0x22 && text.at(-1) === 0x22 ? text.subarray(1, -1) : text;
}
