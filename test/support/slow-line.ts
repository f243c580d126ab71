// A port in front of a distant server: delays all data in both directions and keeps its order.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/** Returns its port; ends with the test. */
export async function startSlowLine(serverPort: number, delayMs: number): Promise<number> {
  const open = new Set<Socket>();
  const pass = (from: Socket, to: Socket) => {
    open.add(from);
    // Never before earlier data: two timers of the same millisecond may fire in any order.
    let earlier = Promise.resolve();
    from.on('data', (bytes: Buffer) => {
      const waited = sleep(delayMs);
      earlier = earlier.then(() => waited).then(() => void to.write(bytes));
    });
    // When one side closes, close the other.
    from.on('error', () => {});
    from.on('close', () => to.destroy());
  };
  const server = createServer((client) => {
    const upstream = connect(serverPort, '127.0.0.1');
    pass(client, upstream);
    pass(upstream, client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return (server.address() as AddressInfo).port;
}
