// A server with the protocol of MySQL that accepts every login and answers statements with OK or a given
// error: those of managed servers and proxies, which no MariaDB here sends.

import { createServer } from 'node:net';
import { listening } from './listening.ts';

export interface SentError {
  readonly errno: number;
  readonly message: string;
}

export interface ScriptedMysql {
  readonly port: number;
  readonly statements: readonly string[];
  /** connections accepted so far */
  connections(): number;
}

/** `errorOf`: null = OK */
export async function startScriptedMysql(
  errorOf: (statement: string) => SentError | null,
): Promise<ScriptedMysql> {
  const statements: string[] = [];
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    // The client ends connections on purpose.
    socket.on('error', () => {});
    let bytes = Buffer.alloc(0);
    let isLoggedIn = false;
    socket.write(packet(0, greeting));
    socket.on('data', (more) => {
      bytes = Buffer.concat([bytes, more]);
      while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUIntLE(0, 3)) {
        const end = 4 + bytes.readUIntLE(0, 3);
        const answer = bytes.readUInt8(3) + 1;
        const statement = bytes.toString('utf8', 5, end);
        const isQuery = isLoggedIn && bytes[4] === 3;
        bytes = bytes.subarray(end);
        isLoggedIn = true;
        if (isQuery) statements.push(statement);
        const error = isQuery ? errorOf(statement) : null;
        socket.write(packet(answer, error === null ? ok : errorPacket(error)));
      }
    });
  });
  return { port: await listening(server), statements, connections: () => connections };
}

function packet(number: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUIntLE(payload.length, 0, 3);
  head.writeUInt8(number, 3);
  return Buffer.concat([head, payload]);
}

/** Capabilities: long passwords, a database at the login, protocol 4.1, transactions, salted and named
 *  logins. */
const greeting = Buffer.concat([
  Buffer.from('\x0a8.0.0\0', 'latin1'),
  Buffer.from([1, 0, 0, 0]),
  Buffer.from('saltsalt\0', 'latin1'),
  Buffer.from([0x09, 0xa2, 0x21, 0x02, 0x00, 0x08, 0x00, 21]),
  Buffer.alloc(10),
  Buffer.from('saltsaltsalt\0mysql_native_password\0', 'latin1'),
]);
const ok = Buffer.from([0, 0, 0, 2, 0, 0, 0]);

function errorPacket({ errno, message }: SentError): Buffer {
  const head = Buffer.from([0xff, 0, 0]);
  head.writeUInt16LE(errno, 1);
  return Buffer.concat([head, Buffer.from(`#HY000${message}`)]);
}
