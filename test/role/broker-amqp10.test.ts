// Publications by AMQP 1.0 to a peer that grants little credit or ends links, which neither RabbitMQ nor the
// installed ActiveMQ does when asked: rhea as a server, over a real socket.
import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import rhea, { type Container, type EventContext, type Receiver } from 'rhea';
import { expect, it, onTestFinished } from 'vitest';
import { Brokers } from '../../src/broker/brokers.ts';
import type { PublishEnd } from '../../src/broker/publication.ts';
import { until } from '../support/until.ts';

interface Peer {
  readonly ends: ReadonlyMap<string, PublishEnd>;
  publish(id: string, timeoutMs: number): void;
}

/** A peer that grants no credit by itself. `listen` adds its listeners. */
async function startPeer(listen: (container: Container) => void): Promise<Peer> {
  const container = rhea.create_container({ receiver_options: { credit_window: 0 } } as never);
  container.on('disconnected', () => {});
  listen(container);
  const server: Server = container.listen({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const broker = {
    ...({ name: 'main', type: 'amqp10', host: '127.0.0.1', vhost: '/', login: null } as const),
    ...{ port: (server.address() as AddressInfo).port, secure: false, verifyTls: true },
  };
  const brokers = new Brokers({
    brokers: new Map([['main', broker]]),
    dialingTo: () => ({}),
    name: 'test',
  });
  onTestFinished(async () => {
    await brokers.close();
    server.close();
  });
  const ends = new Map<string, PublishEnd>();
  return {
    ends,
    publish: (id, timeoutMs) => {
      const message = { id, body: Buffer.from(id), contentType: null, properties: {}, timestampMs: 0 };
      const target = { broker: 'main', to: 'q', key: null };
      brokers.publish({ target, message, timeoutMs, onEnd: (end) => ends.set(id, end) });
    },
  };
}

it('a message without credit is not sent after its attempt has timed out', async () => {
  const received: unknown[] = [];
  let receiver: Receiver | undefined;
  const { ends, publish } = await startPeer((container) => {
    container.on('receiver_open', (context: EventContext) => {
      receiver = context.receiver;
      receiver?.add_credit(2);
    });
    container.on('message', ({ message }: EventContext) => received.push(message?.message_id));
  });
  for (const id of ['a', 'b']) publish(id, 30_000);
  for (const id of ['c', 'd']) publish(id, 1_000);
  await until('all have ended', () => ends.size === 4);
  // Not in the order of their ends: after a pause of this process the timeouts come first.
  const kinds = ['confirmed', 'confirmed', 'no_reply', 'no_reply'];
  expect(['a', 'b', 'c', 'd'].map((id) => ends.get(id)?.kind)).toEqual(kinds);
  receiver?.add_credit(1);
  publish('e', 30_000);
  await until('e has ended', () => ends.size === 5);
  expect(received).toEqual(['a', 'b', 'e']);
});

it('a link that the peer ends takes its session with it', async () => {
  let open = 0;
  const { ends, publish } = await startPeer((container) => {
    container.on('session_open', () => {
      open += 1;
    });
    container.on('session_close', () => {
      open -= 1;
    });
    container.on('receiver_open', ({ receiver }: EventContext) =>
      receiver?.close({ condition: 'amqp:unauthorized-access', description: 'no' }),
    );
  });
  for (const id of ['a', 'b', 'c']) {
    publish(id, 30_000);
    await until('it has ended', () => ends.has(id));
  }
  expect(new Set([...ends.values()].map((end) => 'reason' in end && end.reason))).toEqual(
    new Set(['mq_refused']),
  );
  await until('no session is open', () => open === 0);
});
