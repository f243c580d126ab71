// Reads php-delayqueue: topics, alerts and Redis servers in MySQL, jobs in each Redis.

import { stringify } from 'yaml';
import { createLocalTime } from '../../core/calendar.ts';
import { formatDuration } from '../../core/duration.ts';
import { namedMembers } from '../../core/json-text.ts';
import { limits } from '../../core/limits.ts';
import { parseRule } from '../../core/rule/reply-rule.ts';
import { excerpt } from '../output/output.ts';
import { type HashJob, HashJobs, type HashLayout } from './hash-jobs.ts';
import { type Found, jobFound, type Source, type SourceJob, type SourceTopic, unreadable } from './source.ts';
import { type Row, SourceMysql, SourceRedis, textIn } from './source-servers.ts';

export interface PhpOptions {
  readonly mysql: string;
  /** empty: those of the table dq_redis */
  readonly redis: readonly string[];
  readonly prefix: string;
  /** count any status of a reply as its body says, as php-delayqueue does */
  readonly anyStatus: boolean;
  readonly timezone: string;
}

export async function openPhp(options: PhpOptions): Promise<Source> {
  const mysql = new SourceMysql(options.mysql);
  const servers: SourceRedis[] = [];
  const close = async () => {
    mysql.close();
    for (const server of servers) server.close();
  };
  try {
    const given = options.redis.length > 0 ? options.redis : await registeredServers(mysql);
    for (const text of given) servers.push(new SourceRedis(text));
  } catch (error) {
    await close();
    throw error;
  }
  const jobs = servers.map((server) => new HashJobs(server, layoutOf(options.prefix)));
  const read = jobReader(options.timezone);
  return {
    places: [mysql.place, ...servers.map(({ place }) => place)].join(', '),
    topics: async () => lastOfEach(await mysql.rows('SELECT * FROM dq_topic ORDER BY id'), options.anyStatus),
    async *jobs() {
      for (const server of jobs) yield* server.pages(read);
    },
    async remove(moved) {
      const pairs = moved.map(({ topic, id, record }) => ({
        field: Buffer.from(`${topic}:${id}`),
        value: record,
      }));
      // Two servers can have the same id: after a change of their list.
      const removed = new Set<number>();
      for (const server of jobs) for (const n of await server.remove(pairs)) removed.add(n);
      return removed.size;
    },
    settings: async () => alertSettings(await mysql.rows('SELECT * FROM dq_alert ORDER BY id LIMIT 1')),
    close,
  };
}

/** `host:port:password[,host:port:password]`: php-delayqueue never uses the second. */
async function registeredServers(mysql: SourceMysql): Promise<readonly string[]> {
  const rows = await mysql.rows('SELECT t_content FROM dq_redis ORDER BY id');
  return rows
    .map((row) => textIn(row, 't_content').split(',')[0]?.trim() ?? '')
    .filter((text) => text !== '');
}

function layoutOf(prefix: string): HashLayout {
  return {
    table: `${prefix}job_info`,
    buckets: `${prefix}bucket_`,
    // The last one holds jobs of topics that its timer did not know.
    lists: ['1ready_queue', '2ready_queue', '3ready_queue', 'ready_queue'].map((name) => `${prefix}${name}`),
    scoreMs: 1_000,
    membersOf: (field) => [field],
    fieldOf: (member) => member,
  };
}

// ── topics

function lastOfEach(rows: readonly Row[], anyStatus: boolean): readonly SourceTopic[] {
  const last = new Map(rows.map((row) => [textIn(row, 'topic').trim(), row]));
  return [...last].map(([name, row]) => topicOf(name, row, anyStatus));
}

/** The default of the column: no rule. */
const noRule = '重试标记';
const titleMax = 180;

function topicOf(name: string, row: Row, anyStatus: boolean): SourceTopic {
  const number = (column: string) => Math.max(0, Math.trunc(Number(row[column]) || 0));
  const flag = textIn(row, 're_notify_flag').trim();
  const rule = flag === noRule ? '' : flag;
  const parsed = rule === '' ? null : parseRule(rule);
  const isOnline = Number(row['status']) === 1;
  const notes =
    parsed?.ok === false ? [`retry rule ${rule}: ${parsed.message}; set it, then resume the topic`] : [];
  const settings = {
    title: excerpt(textIn(row, 't_name'), titleMax),
    owner: excerpt(textIn(row, 'createor'), titleMax),
    callbackUrl: textIn(row, 'callback').trim(),
    method: textIn(row, 'method').trim().toLowerCase() === 'post' ? 'POST' : 'GET',
    format: 'form',
    delay: formatDuration(number('delay') * 1_000),
    timeout: formatDuration(timeoutOf(number('timeout'))),
    alertEmails: mailsIn(textIn(row, 'email')),
    retryIf: parsed?.ok === true ? rule : '',
    priority: ['normal', 'high', 'normal', 'low'][number('priority')] ?? 'normal',
    // The first call and 11 more: the end test of php-delayqueue is "more than 10 failures".
    maxAttempts: 12,
    backoff: '2n+1',
    ...(anyStatus ? { okStatus: ['2xx', '4xx', '5xx'] } : {}),
  };
  return { name, settings, isOffline: !isOnline || parsed?.ok === false, notes };
}

/** php-delayqueue has no limit with 0. */
function timeoutOf(ms: number): number {
  return ms === 0 ? 60_000 : Math.min(Math.max(ms, 100), 60_000);
}

/** Without the password. */
function alertSettings([row]: readonly Row[]): string {
  if (row === undefined || textIn(row, 'host') === '') return '';
  const [host, port, user] = [textIn(row, 'host'), textIn(row, 'port'), textIn(row, 'user')];
  const scheme = port === '465' ? 'smtps' : 'smtp';
  const login = user === '' ? '' : `${encodeURIComponent(user)}:PASSWORD@`;
  const mails = redisMails(textIn(row, 'ext'));
  return stringify({
    smtp: { url: `${scheme}://${login}${host}${port === '' ? '' : `:${port}`}`, from: user },
    ...(mails.length === 0 ? {} : { alerts: { emails: mails } }),
  });
}

function redisMails(ext: string): readonly string[] {
  try {
    const { redis } = JSON.parse(ext) as { redis?: unknown };
    return typeof redis === 'string' ? mailsIn(redis) : [];
  } catch {
    return [];
  }
}

function mailsIn(text: string): readonly string[] {
  return text
    .split(',')
    .map((mail) => mail.trim())
    .filter((mail) => mail !== '');
}

// ── jobs

type Members = ReadonlyMap<string, unknown>;

/** php-delayqueue's own members of a body. */
const ownMembers: ReadonlySet<string> = new Set(['notify_time', 'dq_set_time', 'exp_notify_nums']);

/** `timezone`: of php-delayqueue, which writes times without an offset */
function jobReader(timezone: string): (job: HashJob, name: Pick<SourceJob, 'topic' | 'id'>) => Found {
  const localTime = createLocalTime(timezone);
  const instantOf = (value: unknown): number | null => {
    const [, ...parts] = /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)$/.exec(String(value)) ?? [];
    if (parts.length === 0) return null;
    const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map(Number);
    return localTime(year, month, day, hour, minute, second);
  };
  return ({ field, value, place, dueAt }, name) => {
    const content = withoutOwn(value);
    if (content === null) return unreadable(field, 'the content is not a JSON object');
    const { own, bytes } = content;
    const failures = Math.trunc(Number(own.get('exp_notify_nums') ?? 0)) || 0;
    return jobFound({
      ...name,
      place,
      dueAt: place === 'lost' ? instantOf(own.get('notify_time')) : dueAt,
      acceptedAt: instantOf(own.get('dq_set_time')),
      failures: Math.min(Math.max(failures, 0), limits.failuresMax),
      body: { contentType: 'application/json', bytes },
      record: value,
    });
  };
}

/** Cuts php-delayqueue's members out of the text; the others keep their bytes. null: not a JSON object. */
function withoutOwn(value: Buffer): { readonly own: Members; readonly bytes: Buffer } | null {
  const members = namedMembers(value);
  if (members === null) return null;
  const own = new Map<string, unknown>();
  const kept: Buffer[] = [];
  for (const { name, span, value: at } of members) {
    if (ownMembers.has(name)) own.set(name, JSON.parse(value.toString('utf8', at.from, at.to)));
    else kept.push(value.subarray(span.from, span.to));
  }
  const pieces = kept.flatMap((piece, n) => (n === 0 ? [piece] : [Buffer.from(','), piece]));
  return { own, bytes: Buffer.concat([Buffer.from('{'), ...pieces, Buffer.from('}')]) };
}
