// Reads sdmq and mykit-delay: jobs in a hash of Redis and in a table of MySQL. A job in both is read from
// Redis: these systems deliver from there.

import { wallNow } from '../../runtime/time.ts';
import { bodyOfText, digestOf, type Found, jobFound, type Source, textOf, unreadable } from './source.ts';
import { type Row, SourceMysql, SourceRedis, textIn } from './source-servers.ts';

export interface SdmqLayout {
  readonly table: string;
  readonly pool: string;
}

export const sdmq: SdmqLayout = { table: 't_delay_queue_job', pool: 'io.sdmq:dq:pools' };
export const mykit: SdmqLayout = { table: 'mykit_delay_queue_job', pool: 'io.mykit.delay:mykit-delay:pools' };

/** Finished and deleted. */
const ended: ReadonlySet<string> = new Set(['3', '4']);
const rowsMax = 1_000;

/** At least one of `mysql` and `redis`. */
export function openSdmq({ table, pool }: SdmqLayout, mysql?: string, redis?: string): Source {
  const database = mysql === undefined ? null : new SourceMysql(mysql);
  const server = redis === undefined ? null : new SourceRedis(redis);
  return {
    places: [database?.place, server?.place].filter((place) => place !== undefined).join(', '),
    async *jobs() {
      const inRedis = new Set<string>();
      if (server !== null)
        for await (const page of server.hash(pool)) {
          const found: Found[] = [];
          for (let n = 0; n + 1 < page.length; n += 2) {
            const [id, value] = [page[n], page[n + 1]];
            if (id === undefined || value === undefined) continue;
            inRedis.add(id.toString());
            found.push(...pooled(id, value));
          }
          yield found;
        }
      if (database === null) return;
      for (let last = ''; ; ) {
        const rows = await database.rows(
          `SELECT * FROM ${table} WHERE id > ? AND (status IS NULL OR status NOT IN (3, 4)) ORDER BY id LIMIT ${rowsMax}`,
          [last],
        );
        yield rows.filter((row) => !inRedis.has(textIn(row, 'id'))).map(stored);
        last = textIn(rows.at(-1) ?? {}, 'id');
        if (rows.length < rowsMax) return;
      }
    },
    close: async () => {
      database?.close();
      server?.close();
    },
  };
}

function pooled(id: Buffer, value: Buffer): readonly Found[] {
  let job: Row;
  try {
    job = JSON.parse(textOf(value) ?? '') as Row;
  } catch {
    return [unreadable(id, 'the value is not JSON')];
  }
  if (typeof job !== 'object' || job === null) return [unreadable(id, 'the value is not a JSON object')];
  if (ended.has(textIn(job, 'status'))) return [];
  return [jobOf(id.toString(), textIn(job, 'topic'), job['createTime'], job['delay'], textIn(job, 'body'))];
}

function stored(row: Row): Found {
  const [id, topic, body] = [textIn(row, 'id'), textIn(row, 'topic'), textIn(row, 'body')];
  return jobOf(id, topic, row['create_time'], row['delay'], body);
}

/** The digest of both places is the same, so a job that is read from the other one is known. */
function jobOf(id: string, topic: string, createTime: unknown, delay: unknown, body: string): Found {
  const created = Number(createTime ?? 0);
  const dueAt = created + Number(delay ?? 0);
  if (!Number.isSafeInteger(dueAt) || created <= 0)
    return unreadable(id, 'it has no valid create time and delay');
  const record = Buffer.from(body);
  return jobFound({
    topic,
    id,
    dueAt,
    place: dueAt <= wallNow() ? 'due' : 'delayed',
    acceptedAt: created,
    body: bodyOfText(record),
    digest: digestOf(Buffer.from(JSON.stringify([topic, created, dueAt, body]))),
    record,
  });
}
