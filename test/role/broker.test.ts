// A notifier with real brokers: what a message carries, which answer of the broker fails an attempt, and that
// an error of one topic disturbs no other one.
import { once } from 'node:events';
import { type Channel, type ChannelModel, connect, type GetMessage } from 'amqplib';
import rhea, { type EventContext, type Message } from 'rhea';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ActivemqServer } from '../../scripts/services/activemq.ts';
import { startActivemq } from '../../scripts/services/activemq.ts';
import { type RabbitmqServer, startRabbitmq } from '../../scripts/services/rabbitmq.ts';
import { brokerLimits } from '../../src/broker/limits.ts';
import type { Config } from '../../src/config/options.ts';
import type { Target } from '../../src/core/broker.ts';
import { webhookIdOf } from '../../src/core/delivery.ts';
import { extensionOf } from '../../src/core/extension.ts';
import { readTraceContext } from '../../src/core/trace-context.ts';
import { checkBrokers } from '../../src/doctor/brokers.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { TopicDraft } from '../../src/ports/registry.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { selfSigned } from '../support/self-signed.ts';
import { lacks, owned } from '../support/services.ts';
import { stompConsumer } from '../support/stomp-consumer.ts';
import { until } from '../support/until.ts';
import { defaultConfig, ids, type Rig, startRig } from './rig.ts';

const mq = (to: string, key: string | null = null, more: Partial<TopicDraft> = {}): Partial<TopicDraft> => ({
  ...{ delivery: 'mq', target: { broker: 'main', to, key } satisfies Target },
  // A busy broker confirms late, and a repeated attempt would be one more.
  timeoutMs: 30_000,
  ...more,
});

/** A notifier with these brokers, and a timer for its retries. */
async function notifierWith(brokers: readonly string[], more: object = {}): Promise<Rig> {
  const rig = await startRig();
  const ctx = rig.context({ config: { brokers, ...more } });
  await rig.run(createTimer(ctx));
  await rig.run(createNotifier(ctx));
  return rig;
}

/** The state of each finding by its broker, with the reason and the start of the remedy. No finding contains
 *  a login. */
async function doctorOf(config: Partial<Config>): Promise<Readonly<Record<string, string>>> {
  const findings = await checkBrokers({ ...defaultConfig, ...config });
  expect(JSON.stringify(findings)).not.toMatch(/p@ss|p%40ss|guest:|wrong@/);
  return Object.fromEntries(
    findings.map(({ state, about }) => {
      const [, name = '', why = '', remedy = ''] =
        /^(\w+) at \S+?:\d+\S*? ?(?:: (\w+) \(.*\); (.*?)(?:, (?:and|or) .*)?|accepts .*)$/s.exec(about) ??
        [];
      return [name, [state, why, remedy].filter((part) => part !== '').join(' ')];
    }),
  );
}

/** The reason of an attempt at each of these brokers, or its outcome, and what doctor says of them. */
async function causesOf(type: string, urls: Readonly<Record<string, string>>, to: string) {
  const brokers = Object.entries(urls).map(([name, url]) => `${name}=${type}+${url}`);
  const egress = { 'egress.deny': ['127.0.0.2'] };
  const rig = await notifierWith(brokers, egress);
  const examined = doctorOf({ brokers, ...egress });
  for (const broker of Object.keys(urls)) {
    const target = { broker, to, key: null };
    await rig.topic(broker, '', mq(to, null, { target, maxAttempts: 1, timeoutMs: 10_000 }));
    await rig.push(broker, 'a');
  }
  await until('all are judged', () => rig.notified().length === brokers.length);
  const reasons = rig.notified().map(({ topic, reason, outcome }) => [topic, reason ?? outcome]);
  return { rig, reasons: Object.fromEntries(reasons), examined: await examined };
}

/** of a delivered job of topic t */
async function versionOf(rig: Rig, id: string): Promise<number> {
  return (await rig.store.history.get({ topic: 't', id }))?.version ?? 0;
}

const lastOf = (rig: Rig, topic: string) => rig.notified().findLast((line) => line['topic'] === topic);

describe.skipIf(await lacks('rabbitmq'))('amqp091', () => {
  const starting = owned('file', startRabbitmq({ tls: selfSigned }));

  async function withChannel(): Promise<{ server: RabbitmqServer; channel: Channel }> {
    const server = await starting;
    const connection: ChannelModel = await connect(server.url);
    onTestFinished(() => connection.close());
    return { server, channel: await connection.createChannel() };
  }

  const take = (channel: Channel, queue: string): Promise<GetMessage> =>
    until(`a message in ${queue}`, async () => (await channel.get(queue, { noAck: true })) || undefined);

  /** How often each job is in the queue, which is empty then. */
  async function takeAll(channel: Channel, queue: string): Promise<ReadonlyMap<string, number>> {
    const found = new Map<string, number>();
    for (;;) {
      const message = await channel.get(queue, { noAck: true });
      if (message === false) return found;
      const id = String(message.properties.headers?.['dq-job-id']);
      found.set(id, (found.get(id) ?? 0) + 1);
    }
  }

  it('publishes the pushed bytes with their type, the id of the receiver and the facts of the attempt', async () => {
    const { server, channel } = await withChannel();
    await channel.assertQueue('plain');
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('t', '', mq('plain', null, { headers: { tenant: 'a' } }));
    const trace =
      readTraceContext('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'a=1') ?? undefined;
    const body = Buffer.from([0, 255, 1]);
    await rig.push('t', 'ü/1', { body, contentType: 'x/y', extension: extensionOf({ trace }) });
    const { content, properties } = await take(channel, 'plain');
    await until('the ack', () => rig.counted('t', 'delivered') === 1);
    expect(content).toEqual(body);
    const version = await versionOf(rig, 'ü/1');
    expect(properties).toMatchObject({
      ...{ contentType: 'x/y', deliveryMode: 2, appId: 'dq' },
      messageId: webhookIdOf({ topic: 't', id: 'ü/1', origin: version }),
      headers: {
        ...{ tenant: 'a', 'dq-topic': 't', 'dq-job-id': 'ü/1', 'dq-attempt': 1, 'dq-max-attempts': 10 },
        tracestate: 'a=1',
      },
    });
    expect(properties.headers?.['traceparent']).toMatch(
      /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/,
    );
    expect(lastOf(rig, 't')).toMatchObject({ outcome: 'delivered', verdict: 'ack', status: null });
  });

  it('publishes to an exchange with the key of the target', async () => {
    const { server, channel } = await withChannel();
    await channel.assertExchange('events', 'topic');
    await channel.assertQueue('orders');
    await channel.bindQueue('orders', 'events', 'order.*');
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('t', '', mq('events', 'order.created'));
    await rig.push('t', 'a', { contentType: null });
    const { fields, properties } = await take(channel, 'orders');
    expect(fields).toMatchObject({ exchange: 'events', routingKey: 'order.created' });
    expect(properties.contentType).toBeUndefined();
  });

  it.each([
    ['a queue that does not exist', mq('missing'), 'mq_unroutable', 'NO_ROUTE'],
    ['an exchange that does not exist', mq('missing', 'k'), 'mq_unroutable', 'NOT_FOUND'],
    ['an exchange without a queue for the key', mq('amq.direct', 'k'), 'mq_unroutable', 'NO_ROUTE'],
    ['an internal exchange', mq('internal', 'k'), 'mq_refused', 'ACCESS_REFUSED'],
  ])(
    '%s: the attempt fails, and another topic of the connection is not disturbed',
    async (_, topic, reason, detail) => {
      const { server, channel } = await withChannel();
      await channel.assertQueue('good');
      await channel.purgeQueue('good');
      await channel.assertExchange('internal', 'direct', { internal: true });
      const rig = await notifierWith([`main=amqp091+${server.url}`]);
      await rig.topic('bad', '', { ...topic, maxAttempts: 2 });
      await rig.topic('good', '', mq('good'));
      await Promise.all([rig.pushAll('bad', ids('b', 20)), rig.pushAll('good', ids('g', 100))]);
      await until('all are judged', () => rig.notified().length === 140);
      await until('the good ones are settled', () => rig.counted('good', 'delivered') === 100);
      expect((await channel.checkQueue('good')).messageCount).toBe(100);
      const bad = rig.notified().filter((line) => line['topic'] === 'bad');
      expect(bad).toHaveLength(40);
      for (const line of bad) {
        expect(line).toMatchObject({ outcome: 'failed', reason, status: null });
        expect(line['detail']).toContain(detail);
      }
    },
  );

  it('a message that is too large for the broker disturbs no other queue of the connection', async () => {
    const { server, channel } = await withChannel();
    for (const queue of ['large', 'small']) await channel.assertQueue(queue);
    onTestFinished(async () => void (await server.ask('application:unset_env(rabbit, max_message_size)')));
    await server.ask('application:set_env(rabbit, max_message_size, 1000)');
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('bad', '', mq('large', null, { maxAttempts: 2 }));
    await rig.topic('good', '', mq('small'));
    const body = Buffer.alloc(2_000);
    await Promise.all([rig.pushAll('bad', ids('b', 20), { body }), rig.pushAll('good', ids('g', 100))]);
    await until('all are judged', () => rig.notified().length === 140);
    await until('the good ones are settled', () => rig.counted('good', 'delivered') === 100);
    for (const line of rig.notified().filter((one) => one['topic'] === 'bad'))
      expect(line).toMatchObject({ reason: 'mq_refused', detail: expect.stringContaining('larger than') });
  });

  it('a full queue that rejects publications fails the attempt', async () => {
    const { server, channel } = await withChannel();
    const limits = { 'x-max-length': 1, 'x-overflow': 'reject-publish' };
    await channel.assertQueue('full', { arguments: limits });
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('t', '', mq('full', null, { maxAttempts: 1 }));
    await rig.push('t', 'a');
    await until('the first is in the queue', () => rig.counted('t', 'delivered') === 1);
    await rig.push('t', 'b');
    await until('the second fails', () => rig.notified().length === 2);
    expect(lastOf(rig, 't')).toMatchObject({ id: 'b', reason: 'mq_refused', verdict: 'bury' });
  });

  it('names the cause of a connection that cannot be opened', async () => {
    const { server, channel } = await withChannel();
    await channel.assertQueue('plain');
    await server.addUser('nothing', 'p@ss');
    await server.addUser('limited', 'p@ss', ['^$', String.raw`^amq\.default$`, '^$']);
    const { port, tlsPort } = server;
    const urls = {
      password: `amqp://guest:wrong@127.0.0.1:${port}`,
      vhost: `amqp://guest:guest@127.0.0.1:${port}/absent`,
      rights: `amqp://nothing:p%40ss@127.0.0.1:${port}`,
      limited: `amqp://limited:p%40ss@127.0.0.1:${port}`,
      closed: 'amqp://guest:guest@127.0.0.1:2',
      name: 'amqp://guest:guest@absent.invalid:5672',
      certificate: `amqps://guest:guest@127.0.0.1:${tlsPort}`,
      plain: `amqps://guest:guest@127.0.0.1:${port}`,
      denied: `amqp://guest:guest@127.0.0.2:${port}`,
      trusted: `amqps://guest:guest@127.0.0.1:${tlsPort}?tls.rejectUnauthorized=false`,
    };
    const { rig, reasons, examined } = await causesOf('amqp091', urls, 'plain');
    expect(reasons).toEqual({
      password: 'mq_refused',
      vhost: 'mq_refused',
      rights: 'mq_refused',
      closed: 'connect',
      name: 'dns',
      certificate: 'tls',
      plain: 'tls',
      denied: 'blocked_address',
      trusted: 'delivered',
      limited: 'delivered',
    });
    const login = 'check user, password and virtual host in brokers';
    expect(examined).toEqual({
      ...{ password: `failed mq_refused ${login}`, vhost: `failed mq_refused ${login}` },
      ...{ rights: `failed mq_refused ${login}`, limited: 'ok', trusted: 'ok' },
      closed: 'failed connect check that the broker runs and that its port serves amqp091 without TLS',
      name: 'failed dns check the name absent.invalid in brokers',
      certificate: 'failed tls check that the port serves TLS',
      plain: 'failed tls check that the port serves TLS',
      denied: 'failed blocked_address add the address to egress.allow',
    });
    for (const line of rig.lines) expect(JSON.stringify(line)).not.toMatch(/p@ss|p%40ss|guest:/);
  });

  it('a memory alarm: attempts time out, nothing late arrives, and jobs go on after it', async () => {
    const { server, channel } = await withChannel();
    await channel.assertQueue('alarm');
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('t', '', mq('alarm', null, { timeoutMs: 500, maxAttempts: 100 }));
    await rig.push('t', 'first');
    await until('the connection is open', () => rig.counted('t', 'delivered') === 1);
    onTestFinished(() => server.setMemoryAlarm(false));
    await server.setMemoryAlarm(true);
    // RabbitMQ tells a connection of the alarm when it publishes: on a busy machine after some time, in which
    // it may still confirm messages.
    const timeouts = () => rig.notified().filter(({ reason }) => reason === 'timeout');
    const isKnown = () => timeouts().some(({ detail }) => String(detail).includes('blocks publishers'));
    const tellers: string[] = [];
    while (!isKnown()) {
      const teller = `teller-${tellers.length}`;
      tellers.push(teller);
      await rig.pushAll('t', [teller]);
      await until('its attempt is judged', () => rig.notified().some(({ id }) => id === teller));
    }
    await rig.pushAll('t', ids('j', 30));
    // A teller's attempt that began before may end now.
    const later = () => timeouts().filter(({ id }) => !tellers.includes(String(id)));
    await until('attempts fail', () => later().length >= 12);
    for (const { detail } of later()) expect(detail).toContain('blocks publishers');
    await server.setMemoryAlarm(false);
    await until('all are delivered', () => rig.counted('t', 'delivered') === 31 + tellers.length);
    const found = await takeAll(channel, 'alarm');
    expect(found.size).toBe(31 + tellers.length);
    // An attempt that ended because of the alarm has written nothing, unless it began before dq knew of it. A
    // busy broker may confirm another one too late.
    const written = (id: string) =>
      rig
        .notified()
        .filter((one) => one.id === id)
        .filter(({ detail }) => tellers.includes(id) || !String(detail).includes('blocks publishers'));
    for (const [id, times] of found) expect(times, id).toBeLessThanOrEqual(written(id).length);
  });

  it('a channel that makes way before the broker has opened it is closed after that', async () => {
    const { server } = await withChannel();
    const open = async () => Number(await server.ask('length(rabbit_channel:list())'));
    const before = await open();
    const limit = brokerLimits as { channelsMax: number };
    const { channelsMax } = limit;
    onTestFinished(() => {
      limit.channelsMax = channelsMax;
    });
    limit.channelsMax = 1;
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    const timedOut = (id: string) => rig.notified().find((line) => line.id === id)?.reason === 'timeout';
    const publish = async (topic: string, id: string, timeoutMs: number) => {
      await rig.topic(topic, '', mq(`channel-${topic}`, null, { timeoutMs, maxAttempts: 1 }));
      await rig.push(topic, id);
    };
    const frozen = await withChannel();
    await frozen.channel.assertQueue('channel-last');
    await publish('first', 'first', 30_000);
    await until('the connection is open', () => rig.notified().length === 1);
    await server.process.freeze();
    for (const topic of ['a', 'b', 'c']) {
      await publish(topic, topic, 500);
      await until('the attempt times out', () => timedOut(topic));
    }
    server.process.thaw();
    await publish('last', 'last', 30_000);
    // In the order of the connection: the broker has opened the others before.
    await until('the last is delivered', () => rig.counted('last', 'delivered') === 1);
    await until('the others are closed', async () => (await open()) === before + 2);
  });

  it('a broker that is killed and returns: every job is confirmed', async () => {
    const server = await owned('test', startRabbitmq());
    const declare = async () => {
      const connection = await connect(server.url);
      await (await connection.createChannel()).assertQueue('kept', { durable: true });
      await connection.close();
    };
    await declare();
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('t', '', mq('kept', null, { maxAttempts: 100, concurrency: 8 }));
    await rig.pushAll('t', ids('j', 200));
    await until('some are delivered', () => rig.counted('t', 'delivered') >= 20);
    await server.process.kill();
    await until('an attempt fails', () => rig.notified().some(({ outcome }) => outcome === 'failed'));
    await server.process.start();
    await until('all are delivered', () => rig.counted('t', 'delivered') === 200);
    const connection = await connect(server.url);
    const found = await takeAll(await connection.createChannel(), 'kept');
    await connection.close();
    expect(found.size).toBe(200);
    const reasons = new Set(rig.notified().map(({ reason }) => reason));
    for (const reason of reasons) expect([null, 'reset', 'connect']).toContain(reason);
  });

  it('a stop releases the jobs that have no confirmation, and closes the connection', async () => {
    const { server } = await withChannel();
    const rig = await startRig();
    const notifier = createNotifier(rig.context({ config: { brokers: [`main=amqp091+${server.url}`] } }));
    await notifier.start();
    const frozen = await owned('test', startRabbitmq());
    const { port } = frozen;
    await frozen.process.freeze();
    const other = createNotifier(
      rig.context({ config: { brokers: [`main=amqp091+amqp://127.0.0.1:${port}`] } }),
    );
    await notifier.drain(0);
    await rig.topic('t', '', mq('plain', null, { timeoutMs: 30_000 }));
    await rig.push('t', 'a');
    await other.start();
    await until('it runs', () => other.inFlight() === 1);
    await other.drain(0);
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toMatchObject({
      state: 'ready',
      failures: 0,
      strikes: 0,
    });
    frozen.process.thaw();
  });

  it('a broker that the configuration lacks: jobs are held, and explain names it', async () => {
    const rig = await notifierWith([]);
    await rig.topic('t', '', mq('plain'));
    await rig.push('t', 'a');
    await until('the reason', async () => {
      const reasons = await rig.ask('capacity', { topic: 't' });
      return reasons?.some(({ message }) => message.includes('has no "main"'));
    });
    expect(rig.notified()).toEqual([]);
  });

  it('test call: publishes one message that says so, and counts nothing', async () => {
    const { server, channel } = await withChannel();
    await channel.assertQueue('tried');
    const rig = await notifierWith([`main=amqp091+${server.url}`]);
    await rig.topic('t', '', mq('tried'));
    const topic = (await rig.registry.get('t')) as never;
    const result = await rig.ask('test_call', { topic, body: '{"a":1}', contentType: 'application/json' });
    expect(result).toMatchObject({
      request: { method: 'PUBLISH', url: 'main/tried', headers: { 'dq-test': 'true' }, body: '{"a":1}' },
      ...{ reply: null, ruleValues: null, verdict: { outcome: 'delivered', next: 'ack' } },
    });
    const { properties, content } = await take(channel, 'tried');
    expect([properties.headers?.['dq-test'], content.toString()]).toEqual(['true', '{"a":1}']);
    expect(rig.counted('t', 'delivered')).toBe(0);
  });

  describe('amqp10, served by the same broker', () => {
    /** Receives from an address. */
    async function received(port: number, address: string): Promise<Message> {
      const container = rhea.create_container();
      const connection = container.connect({
        host: '127.0.0.1',
        port,
        username: 'guest',
        password: 'guest',
        reconnect: false,
      } as never);
      connection.open_receiver(address);
      const [context] = (await once(container, 'message')) as [EventContext];
      connection.close();
      await once(container, 'connection_close');
      return context.message as Message;
    }

    it('publishes the pushed bytes with their type, the id of the receiver and the facts of the attempt', async () => {
      const { server, channel } = await withChannel();
      await channel.assertQueue('ten');
      const rig = await notifierWith([`main=amqp10+${server.url}`]);
      await rig.topic('t', '', mq('/amq/queue/ten', 'created', { headers: { tenant: 'a' } }));
      const body = Buffer.from([0, 255, 1]);
      await rig.push('t', 'ü/1', { body, contentType: 'x/y' });
      await until('the ack', () => rig.counted('t', 'delivered') === 1);
      const message = await received(server.port, '/amq/queue/ten');
      expect((message.body as { content: Buffer }).content).toEqual(body);
      const id = webhookIdOf({ topic: 't', id: 'ü/1', origin: await versionOf(rig, 'ü/1') });
      expect(message).toMatchObject({
        ...{ message_id: id, content_type: 'x/y', durable: true, subject: 'created' },
      });
      expect(message.application_properties).toMatchObject({
        tenant: 'a',
        'dq-job-id': 'ü/1',
        'dq-attempt': 1,
      });
    });

    it('an address that does not exist fails, and another topic of the connection is not disturbed', async () => {
      const { server, channel } = await withChannel();
      await channel.assertQueue('ten-good');
      const rig = await notifierWith([`main=amqp10+${server.url}`]);
      await rig.topic('bad', '', mq('/exchange/absent/k', null, { maxAttempts: 2 }));
      await rig.topic('good', '', mq('/amq/queue/ten-good'));
      await Promise.all([rig.pushAll('bad', ids('b', 20)), rig.pushAll('good', ids('g', 100))]);
      await until('all are judged', () => rig.notified().length >= 140);
      await until('the good ones are settled', () => rig.counted('good', 'delivered') === 100);
      for (const line of rig.notified().filter((one) => one['topic'] === 'bad'))
        expect(line).toMatchObject({ outcome: 'failed', reason: 'mq_unroutable' });
    });

    it('names the cause of a connection that cannot be opened', async () => {
      const { server } = await withChannel();
      const { port, tlsPort } = server;
      const urls = {
        password: `amqp://guest:wrong@127.0.0.1:${port}`,
        closed: 'amqp://guest:guest@127.0.0.1:2',
        name: 'amqp://guest:guest@absent.invalid:5672',
        certificate: `amqps://guest:guest@127.0.0.1:${tlsPort}`,
        denied: `amqp://guest:guest@127.0.0.2:${port}`,
        trusted: `amqps://guest:guest@127.0.0.1:${tlsPort}?tls.rejectUnauthorized=false`,
      };
      const { reasons, examined } = await causesOf('amqp10', urls, '/queue/opened');
      expect(reasons).toEqual({
        password: 'mq_refused',
        closed: 'connect',
        name: 'dns',
        certificate: 'tls',
        denied: 'blocked_address',
        trusted: 'delivered',
      });
      expect(examined).toMatchObject({
        password: expect.stringMatching(/^failed mq_refused/),
        name: expect.stringMatching(/^failed dns/),
        certificate: expect.stringMatching(/^failed tls/),
        trusted: 'ok',
      });
    });
  });
});

describe.skipIf(await lacks('activemq'))('stomp', () => {
  const starting = owned('file', startActivemq());
  const urlOf = ({ url }: ActivemqServer) => `main=stomp+${url}`;

  it('publishes the pushed bytes with their type, the id of the receiver and the facts of the attempt', async () => {
    const server = await starting;
    const rig = await notifierWith([urlOf(server)]);
    await rig.topic('t', '', mq('/queue/plain', 'created', { headers: { tenant: 'a' } }));
    await rig.push('t', 'ü/1', { body: Buffer.from('{"ü":1}') });
    await until('the ack', () => rig.counted('t', 'delivered') === 1);
    const [message] = await stompConsumer(server, '/queue/plain').take(1);
    expect(message?.body).toBe('{"ü":1}');
    expect(message?.headers).toMatchObject({
      ...{
        ...{ tenant: 'a', 'dq-topic': 't', 'dq-job-id': 'ü/1', 'dq-attempt': '1', persistent: 'true' },
        type: 'created',
      },
      'content-type': 'application/json',
    });
    expect(message?.headers['webhook-id']).toBe(message?.headers['correlation-id']);
  });

  it('a header of the topic is a property, never an order to the broker', async () => {
    const server = await starting;
    const rig = await notifierWith([urlOf(server)]);
    const orders = { destination: '/queue/elsewhere', receipt: 'r', transaction: 'x', persistent: 'false' };
    await rig.topic('t', '', mq('/queue/orders', null, { headers: orders }));
    await rig.push('t', 'a\\c:b');
    await until('the ack', () => rig.counted('t', 'delivered') === 1);
    const [message] = await stompConsumer(server, '/queue/orders').take(1);
    expect(message?.headers).toMatchObject({ 'dq-job-id': 'a\\c:b', persistent: 'true' });
  });

  it('a wrong password is mq_refused; a closed port connect; a forbidden address blocked_address', async () => {
    const { port, user, url } = await starting;
    const urls = {
      password: `stomp://${user}:wrong@127.0.0.1:${port}`,
      closed: `stomp://${user}:wrong@127.0.0.1:2`,
      denied: `stomp://${user}:wrong@127.0.0.2:${port}`,
      right: url,
    };
    const { reasons, examined } = await causesOf('stomp', urls, '/queue/q');
    expect(reasons).toEqual({
      password: 'mq_refused',
      closed: 'connect',
      denied: 'blocked_address',
      right: 'delivered',
    });
    expect(examined).toMatchObject({
      password: expect.stringMatching(/^failed mq_refused/),
      right: 'ok',
      closed: 'failed connect check that the broker runs and that its port serves stomp without TLS',
    });
  });

  it('a broker that is killed and returns: every job has its receipt', async () => {
    const server = await owned('test', startActivemq());
    const rig = await notifierWith([urlOf(server)]);
    await rig.topic('t', '', mq('/queue/kept', null, { maxAttempts: 100, concurrency: 8 }));
    await rig.pushAll('t', ids('j', 200));
    await until('some are delivered', () => rig.counted('t', 'delivered') >= 20);
    await server.process.kill();
    await until('an attempt fails', () => rig.notified().some(({ outcome }) => outcome === 'failed'));
    await server.process.start();
    await until('all are delivered', () => rig.counted('t', 'delivered') === 200);
    const consumer = stompConsumer(server, '/queue/kept');
    const found = new Set<string>();
    await until('all have arrived', async () => {
      for (const { headers } of await consumer.take(1)) found.add(headers['dq-job-id'] ?? '');
      return found.size === 200;
    });
  });

  it('a full store: attempts time out while the broker does not read, and go on when it has space', async () => {
    const server = await owned('test', startActivemq({ storeLimit: 3 * 1_048_576 }));
    const rig = await notifierWith([urlOf(server)]);
    await rig.topic('t', '', mq('/queue/full', null, { maxAttempts: 100, timeoutMs: 500 }));
    const body = Buffer.alloc(200_000, 'x');
    await rig.pushAll('t', ids('j', 24), { body, contentType: 'text/plain' });
    await until(
      'attempts fail',
      () => rig.notified().filter(({ reason }) => reason === 'timeout').length >= 10,
    );
    const consumer = stompConsumer(server, '/queue/full');
    const found = new Set<string>();
    await until('all have arrived', async () => {
      for (const { headers } of await consumer.take(1)) found.add(headers['dq-job-id'] ?? '');
      return found.size === 24 && rig.counted('t', 'delivered') === 24;
    });
  });
});
