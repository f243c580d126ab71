// Tests the servers of other tests: they have the requested settings, and no process or file outlives their
// starter.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { dirname, join } from 'node:path';
import { connect } from 'amqplib';
import rhea, { type EventContext } from 'rhea';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type ActivemqServer, startActivemq } from '../../scripts/services/activemq.ts';
import { startRabbitmq } from '../../scripts/services/rabbitmq.ts';
import { startRedis, startRedisServers } from '../../scripts/services/redis.ts';
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { isAlive } from '../support/daemon.ts';
import { selfSigned } from '../support/self-signed.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

describe.skipIf(await lacks('redis'))('redis', () => {
  it('serves with its configuration; stop removes process and directory', async () => {
    const server = await owned('test', startRedis({ config: ['maxmemory 7mb', 'requirepass s3cret'] }));
    expect(await server.ask('CONFIG', 'GET', 'maxmemory')).toBe('maxmemory\n7340032');
    expect(server.url).toBe(`redis://:s3cret@127.0.0.1:${server.port}`);
    const { pid, directory } = server.process;
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });

  it('restarts after kill -9 with its port and files; a pause loses no reply', async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync always'] }));
    await server.ask('SET', 'a', '1');
    await server.process.kill();
    await expect(server.ask('PING')).rejects.toThrow();
    await server.process.start();
    expect(await server.ask('GET', 'a')).toBe('1');
    await server.process.freeze();
    const answer = server.ask('GET', 'a');
    server.process.thaw();
    expect(await answer).toBe('1');
  });

  it('several are independent', async () => {
    const servers = await startRedisServers(2);
    for (const server of servers) await owned('test', Promise.resolve(server));
    await servers[0]?.ask('SET', 'a', '1');
    expect(await servers[1]?.ask('GET', 'a')).toBe('');
  });

  it('Sentinel group: a replica becomes the master when the master is killed', async () => {
    const group = await owned('test', startSentinelGroup());
    expect(await group.masterPort()).toBe(group.master.port);
    await group.master.process.kill();
    await until(
      'the sentinels name the replica',
      async () => (await group.masterPort()) === group.replicas[0]?.port,
      30_000,
    );
  });

  it('Cluster: every node serves its slots, and a replica takes them over', async () => {
    const cluster = await owned('test', startRedisCluster({ replicas: 1 }));
    const [first, second] = cluster.masters;
    expect(await first?.ask('CLUSTER', 'INFO')).toMatch(/cluster_slots_ok:16384/);
    await first?.process.kill();
    await until(
      'the replica serves them',
      async () => (await cluster.replicas[0]?.ask('ROLE'))?.startsWith('master'),
      30_000,
    );
    await until('the cluster is whole', async () =>
      (await second?.ask('CLUSTER', 'INFO'))?.includes('cluster_state:ok'),
    );
  });
});

describe.skipIf(await lacks('mysql'))('mariadb', () => {
  it('serves, keeps its data through kill -9; stop removes process and directory', async () => {
    const server = await owned('test', mariadb());
    await server.createDatabase('dq');
    await server.run('CREATE TABLE t (x INT) ENGINE=InnoDB; INSERT INTO t VALUES (1)', 'dq');
    await server.process.kill();
    await server.process.start();
    expect(await server.run('SELECT x FROM t', 'dq')).toBe('1\n');
    const { pid, directory } = server.process;
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });
});

describe.skipIf(await lacks('rabbitmq'))('rabbitmq', () => {
  it('serves AMQP 0-9-1, 1.0 and TLS, keeps a durable message through kill -9; stop removes all', async () => {
    const server = await owned('test', startRabbitmq({ tls: selfSigned }));
    const publisher = await connect(server.url);
    // kill -9 ends this connection.
    publisher.on('error', () => {});
    const channel = await publisher.createConfirmChannel();
    channel.on('error', () => {});
    await channel.assertQueue('q', { durable: true });
    channel.sendToQueue('q', Buffer.from('kept'), { persistent: true });
    await channel.waitForConfirms();
    const blocked = once(publisher, 'blocked');
    await server.setMemoryAlarm(true);
    expect(await server.ask('rabbit_alarm:get_alarms()')).toContain('{resource_limit,memory,');
    channel.sendToQueue('q', Buffer.from('blocks the connection'));
    expect(await blocked).toEqual(['low on memory']);
    await server.process.kill();
    await server.process.start();
    await server.addUser('reader', 'p@ss', ['', '', '.*']);
    const options = { protocol: 'amqps', hostname: 'localhost', port: server.tlsPort ?? 0 };
    const login = { username: 'reader', password: 'p@ss' };
    const consumer = await connect({ ...options, ...login }, { ca: [selfSigned.cert] });
    // So does stop() after a failed expectation.
    consumer.on('error', () => {});
    const message = await (await consumer.createChannel()).get('q', { noAck: true });
    expect(message === false ? null : message.content.toString()).toBe('kept');
    await consumer.close();
    expect(await viaAmqp10(server.port, '/amq/queue/q', 'next')).toBe('next');
    const { pid, directory } = server.process;
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });
});

/** Sends a durable message to this address and receives it. */
async function viaAmqp10(port: number, address: string, body: string): Promise<unknown> {
  const container = rhea.create_container();
  const login = { username: 'guest', password: 'guest' };
  const connection = container.connect({ host: '127.0.0.1', port, ...login, reconnect: false });
  const sender = connection.open_sender(address);
  await once(container, 'sendable');
  sender.send({ body, durable: true });
  await once(container, 'accepted');
  connection.open_receiver(address);
  const [context] = (await once(container, 'message')) as [EventContext];
  connection.close();
  await once(container, 'connection_close');
  return context.message?.body;
}

describe.skipIf(await lacks('activemq'))('activemq', () => {
  it('serves STOMP, keeps a message through kill -9, stops a producer at its limit; stop removes all', async () => {
    const server = await owned('test', startActivemq({ storeLimit: 1_048_576, failsAtLimit: true }));
    const send = (queue: string, receipt: string, body: string) =>
      `SEND\ndestination:/queue/${queue}\npersistent:true\nreceipt:${receipt}\n\n${body}\0`;
    const producer = stomp(server);
    await producer(send('q', '1', 'kept'), 'receipt-id:1');
    await server.process.kill();
    await server.process.start();
    await stomp(server)('SUBSCRIBE\nid:0\ndestination:/queue/q\nack:auto\n\n\0', 'kept');
    // The broker counts the large message when it has written it, which can be after the next one. This
    // queue has no receiver: the broker removes the files of received messages every 500 ms.
    const large = send('full', '2', 'x'.repeat(1_100_000));
    await stomp(server)(large, 'Persistent store is Full', send('full', '3', 'more'));
    const { pid, directory } = server.process;
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });
});

/** A STOMP connection: sends a frame and resolves when this text has been received. `again`: sent repeatedly
 *  until then. */
function stomp({
  port,
  user,
  password,
}: ActivemqServer): (frame: string, awaited: string, again?: string) => Promise<void> {
  const socket = connectTcp(port, '127.0.0.1').setEncoding('utf8');
  onTestFinished(() => void socket.destroy());
  let received = '';
  socket.on('data', (text: string) => (received += text));
  // kill -9 ends the connection.
  socket.on('error', () => {});
  socket.write(`CONNECT\naccept-version:1.2\nhost:dq\nlogin:${user}\npasscode:${password}\n\n\0`);
  return async (frame, awaited, again = '') => {
    socket.write(frame);
    const isReceived = () => {
      if (again !== '' && !received.includes(awaited)) socket.write(again);
      return received.includes(awaited);
    };
    await until(`${awaited} is received`, isReceived, 20_000);
  };
}

describe.skipIf(await lacks('redis'))('a starter that is killed', () => {
  it('leaves no server and no directory', async () => {
    const starter = spawn(
      process.execPath,
      ['--import', 'tsx', join(import.meta.dirname, '../support/services-starter.ts')],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const exited = once(starter, 'exit');
    const [line] = (await once(starter.stdout, 'data')) as [Buffer];
    const { pid, directory } = JSON.parse(line.toString()) as { pid: number; directory: string };
    expect([isAlive(pid), existsSync(directory)]).toEqual([true, true]);
    starter.kill('SIGKILL');
    await exited;
    await until('the server is gone', () => !isAlive(pid));
    await until('its directory is gone', () => !existsSync(dirname(directory)));
  });
});
