// The data of php-delayqueue in MySQL and Redis, written with the statements and commands that it uses
// itself; and a model of its timer and its consumer.

import { crc32 } from 'node:zlib';
import { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';
import type { MariadbServer } from '../../scripts/services/mariadb.ts';
import type { RedisServer } from '../../scripts/services/redis.ts';

/** Its own tables (dq.sql). */
const tables = `
CREATE TABLE dq_alert (id int(11) NOT NULL AUTO_INCREMENT, host varchar(255) NOT NULL DEFAULT '',
  port int(11) NOT NULL DEFAULT '0', user varchar(255) NOT NULL DEFAULT '', pwd varchar(255) NOT NULL DEFAULT '',
  ext varchar(2048) NOT NULL DEFAULT '', PRIMARY KEY (id)) DEFAULT CHARSET=utf8;
CREATE TABLE dq_redis (id int(11) NOT NULL AUTO_INCREMENT, t_name varchar(200) NOT NULL DEFAULT '',
  t_content varchar(2048) NOT NULL DEFAULT '', PRIMARY KEY (id)) DEFAULT CHARSET=utf8;
CREATE TABLE dq_topic (id int(11) NOT NULL AUTO_INCREMENT, t_name varchar(1024) NOT NULL DEFAULT '',
  delay int(11) NOT NULL DEFAULT '0', callback varchar(1024) NOT NULL DEFAULT '',
  timeout int(11) NOT NULL DEFAULT '3000', email varchar(1024) NOT NULL DEFAULT '',
  topic varchar(255) NOT NULL DEFAULT '', re_notify_flag varchar(1024) NOT NULL DEFAULT '重试标记',
  createor varchar(1024) NOT NULL DEFAULT '', status tinyint(4) NOT NULL DEFAULT '1',
  method varchar(32) NOT NULL DEFAULT 'GET', priority int(11) NOT NULL DEFAULT '2', PRIMARY KEY (id)) DEFAULT CHARSET=utf8;`;

let made = 0;

export interface PhpDatabase {
  readonly url: string;
  /** in the order of the ids */
  topic(row: Readonly<Record<string, string | number>>): Promise<void>;
  run(sql: string): Promise<string>;
}

export async function phpDatabase(server: MariadbServer): Promise<PhpDatabase> {
  const name = `php${++made}`;
  const url = await server.createDatabase(name);
  const run = (sql: string) => server.run(sql, name);
  await run(tables);
  return {
    url,
    run,
    async topic(row) {
      const values = Object.values(row).map((value) => `'${String(value).replaceAll("'", "''")}'`);
      await run(`INSERT INTO dq_topic (${Object.keys(row).join()}) VALUES (${values.join()})`);
    },
  };
}

export interface PhpJob {
  readonly topic: string;
  readonly id: string;
  /** JSON, with the members that php-delayqueue adds */
  readonly body: string;
  /** Unix seconds */
  readonly score: number;
}

export class PhpQueue {
  readonly raw: Redis;

  constructor(server: RedisServer) {
    this.raw = new Redis(server.url, { protocol: 2 });
    onTestFinished(async () => {
      await this.raw.quit();
    });
  }

  bucket(topic: string): string {
    return `dq_bucket_${crc32(topic) % 2}`;
  }

  /** One pipeline of its handle(): HSET and ZADD in MULTI. */
  async add(jobs: readonly PhpJob[]): Promise<void> {
    await Promise.all(
      jobs.map(({ topic, id, body, score }) =>
        this.raw
          .multi()
          .hset('dq_job_info', `${topic}:${id}`, body)
          .zadd(this.bucket(topic), score, `${topic}:${id}`)
          .exec(),
      ),
    );
  }

  /** A step of its timer: due jobs of a bucket go to the list. */
  async timer(bucket: string, now: number): Promise<void> {
    for (const member of await this.raw.zrangebyscore(bucket, '-inf', `(${now}`, 'LIMIT', 0, 20)) {
      if ((await this.raw.setnx(`lock:${member}`, 1)) === 0) continue;
      if ((await this.raw.zrem(bucket, member)) === 1) await this.raw.rpush('dq_2ready_queue', member);
      await this.raw.del(`lock:${member}`);
    }
  }

  /** A step of its consumer; null: nothing is ready, or the content is gone. It deletes the job before the
   *  call, and calls it also when another one has deleted it. */
  async consume(): Promise<{ readonly member: string; readonly deleted: boolean } | null> {
    const member = await this.raw.lpop('dq_2ready_queue');
    if (member === null) return null;
    const body = await this.raw.hget('dq_job_info', member);
    if (body === null) return null;
    const deleted = (await this.raw.hdel('dq_job_info', member)) === 1;
    await this.raw.zrem(this.bucket(member.slice(0, member.indexOf(':'))), member);
    return { member, deleted };
  }
}
