// Tests the end of a dial that its client no longer wants.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { DialingConnector } from '../../src/store/redis/client/dialing-connector.ts';

it('a client that is closed as its server answers leaves no connection', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const dialled: Socket[] = [];
  const connector: DialingConnector = new DialingConnector({
    ...{ host: '127.0.0.1', port },
    connectTcp: (address: string, at: number) => {
      const socket = connect(at, address);
      dialled.push(socket);
      // After the listener of the dial: the dial has ended, and the connector has no socket yet.
      queueMicrotask(() => socket.once('connect', () => connector.disconnect()));
      return socket;
    },
  });
  const stream = await connector.connect();
  expect([stream, ...dialled].map(({ destroyed }) => destroyed)).toEqual([true, true]);
});
