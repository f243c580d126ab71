// Reads the servers of another system. Redis: keys by prefix, hashes and sorted sets page by page; each reply
// is bytes: ids and bodies need not be text. MySQL or MariaDB: tables.
// Invariant: reads Redis only, except eval(); runs SELECT alone in MySQL, after SET NAMES.

import { Redis, type RedisOptions } from 'ioredis';
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise';
import { messageOf } from '../../core/errors.ts';
import { parseRedisUrl } from '../../core/url/redis-url.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { DialedStream } from '../../runtime/dial.ts';
import { tlsOf } from '../../store/redis/client/connection.ts';
import { DialingConnector } from '../../store/redis/client/dialing-connector.ts';
import { Route } from '../../store/redis/client/hops.ts';
import { requireSetUp } from '../../store/redis/client/set-up.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';

type Argument = string | number | Buffer;
type Command = readonly Argument[];
export type Reply = Buffer | number | null | readonly Reply[];

export class SourceRedis {
  /** without the password */
  readonly place: string;
  readonly #client: Redis;
  /** of a lost connection: its commands fail with "Connection is closed" */
  #cause: unknown;

  /** `text`: host:port, host:port:password or a redis:// URL. Connects at the first command. */
  constructor(text: string, database = 0) {
    const { place, ...options } = optionsOf(text, database);
    this.place = place;
    this.#client = new Redis({
      ...options,
      Connector: DialingConnector,
      protocol: 2,
      lazyConnect: true,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      connectTimeout: cliLimits.sourceMs,
      socketTimeout: cliLimits.sourceMs,
    } as Omit<RedisOptions, 'replyMapping'>);
    requireSetUp(this.#client);
    this.#client.on('error', (error) => {
      this.#cause = error;
    });
  }

  async ask(...command: Command): Promise<Reply> {
    const [reply = null] = await this.askAll([command]);
    return reply;
  }

  /** In one piece; a reply per command. */
  async askAll(commands: readonly Command[]): Promise<readonly Reply[]> {
    if (commands.length === 0) return [];
    try {
      return (await Promise.all(
        commands.map(([name = '', ...rest]) => this.#client.callBuffer(String(name), ...rest)),
      )) as readonly Reply[];
    } catch (error) {
      const cause = this.#cause ?? error;
      throw new Exit('storeUnreachable', `Redis at ${this.place}: ${messageOf(cause)}`, { cause });
    }
  }

  /** Sorted. `type`: zset or list */
  async keysOf(prefix: string, type: string): Promise<readonly string[]> {
    const pattern = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}*`;
    const found = new Set<string>();
    for await (const keys of this.#scan(['SCAN'], ['MATCH', pattern]))
      for (const key of keys) found.add(key.toString());
    const keys = [...found].sort();
    // SCAN itself filters by type only from Redis 6 on.
    const types = await this.askAll(keys.map((key) => ['TYPE', key]));
    return keys.filter((_, n) => String(types[n]) === type);
  }

  /** Pages of [field, value, field, value …]. A field may come twice. */
  hash(key: string): AsyncIterable<readonly Buffer[]> {
    return this.#scan(['HSCAN', key], []);
  }

  /** Pages of [member, score, …]. */
  sortedSet(key: string): AsyncIterable<readonly Buffer[]> {
    return this.#scan(['ZSCAN', key], []);
  }

  async *list(key: string): AsyncIterable<readonly Buffer[]> {
    for (let from = 0; ; from += pageItems) {
      const items = (await this.ask('LRANGE', key, from, from + pageItems - 1)) as readonly Buffer[];
      if (items.length > 0) yield items;
      if (items.length < pageItems) return;
    }
  }

  close(): void {
    this.#client.disconnect();
  }

  async *#scan(command: Command, options: Command): AsyncGenerator<readonly Buffer[]> {
    let cursor = '0';
    do {
      const reply = (await this.ask(...command, cursor, ...options, 'COUNT', pageItems)) as [
        Buffer,
        readonly Buffer[],
      ];
      cursor = reply[0].toString();
      if (reply[1].length > 0) yield reply[1];
    } while (cursor !== '0');
  }
}

const pageItems = 1_000;

function optionsOf(text: string, db: number) {
  if (text.includes('://')) {
    const parsed = parseRedisUrl(text);
    if (!parsed.ok) throw new Exit('usage', `--redis: ${parsed.message}`);
    const { kind, hosts, tls, user, password, database, shown } = parsed.value;
    if (kind !== 'server') throw new Exit('usage', '--redis: must be one server: redis://host:port/database');
    const [{ host, port } = { host: '', port: 0 }] = hosts;
    const login = {
      ...(user === null ? {} : { username: user }),
      ...(password === null ? {} : { password }),
    };
    const secured = tls ? { tls: tlsOf(parsed.value) } : {};
    return { place: shown, host, port, ...login, db: database, ...secured, route: new Route(parsed.value) };
  }
  const [, host = '', port = '', password = ''] = /^([^:\s]+):(\d{1,5})(?::(.*))?$/.exec(text.trim()) ?? [];
  if (host === '') throw new Exit('usage', '--redis: must be host:port, host:port:password or redis://…');
  const login = password === '' ? {} : { password };
  return { place: `${host}:${port}${db === 0 ? '' : `/${db}`}`, host, port: Number(port), ...login, db };
}

export type Row = Readonly<Record<string, unknown>>;

export class SourceMysql {
  readonly place: string;
  readonly #options: Parameters<typeof createConnection>[0];
  #connection: Connection | null = null;

  constructor(url: string) {
    const parsed = parseMysqlUrl(url);
    if (!parsed.ok) throw new Exit('usage', `--mysql: ${parsed.message}`);
    const { tls, ...server } = parsed.value;
    const { host, port } = server;
    this.place = placeOf(parsed.value);
    this.#options = {
      ...server,
      stream: () => new DialedStream({ host, port, timeoutMs: cliLimits.sourceMs }),
      ...(tls === 'off' ? {} : { ssl: { rejectUnauthorized: tls === 'verified' } }),
      charset: 'utf8mb4',
      dateStrings: true,
      connectTimeout: cliLimits.sourceMs,
    };
  }

  async rows(sql: string, values: readonly (string | number)[] = []): Promise<readonly Row[]> {
    try {
      this.#connection ??= await this.#open();
      const [rows] = await this.#connection.query<RowDataPacket[]>({
        sql,
        values: [...values],
        timeout: cliLimits.sourceMs,
      });
      return rows;
    } catch (error) {
      throw new Exit('storeUnreachable', `MySQL ${this.place}: ${messageOf(error)}`, { cause: error });
    }
  }

  /** The server may end it while the import reads Redis: the next query opens another one. */
  async #open(): Promise<Connection> {
    const connection = await createConnection(this.#options as Parameters<typeof createConnection>[0]);
    connection.on('error', () => {
      this.#connection = null;
    });
    // Some servers ignore the character set that the client asked for when it connected.
    await connection.query('SET NAMES utf8mb4');
    return connection;
  }

  close(): void {
    this.#connection?.destroy();
  }
}

/** '' for NULL */
export function textIn(row: Row, column: string): string {
  const value = row[column];
  return value === null || value === undefined ? '' : String(value);
}
