// Reads tables of another system in MySQL or MariaDB. Invariant: runs SELECT alone, after SET NAMES.

import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise';
import { messageOf } from '../../core/errors.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { DialedStream } from '../../runtime/dial.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';

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
