// A proxy that cuts a connection after a request with a certain word has arrived, so that its answer, or the
// request itself, is lost.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface AnswerLoser {
  readonly port: number;
  /** From now on it cuts after each such request. */
  arm(): void;
}

export async function startAnswerLoser(
  serverPort: number,
  word: string,
  lost: 'answer' | 'request' = 'answer',
): Promise<AnswerLoser> {
  let isArmed = false;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(serverPort, '127.0.0.1');
    let isCut = false;
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('close', () => open.delete(socket));
      socket.on('error', () => {
        // The other side hangs up, or we do.
      });
    }
    client.on('data', (bytes) => {
      if (isArmed && bytes.includes(word)) isCut = true;
      if (isCut && lost === 'request') client.destroy();
      else upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      // The server has done the work.
      if (isCut) client.destroy();
      else client.write(bytes);
    });
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    arm() {
      isArmed = true;
    },
  };
}
