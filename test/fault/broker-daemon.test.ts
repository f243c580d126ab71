// A daemon that publishes to a real RabbitMQ and a real ActiveMQ: every job is confirmed once, whatever
// happens to the brokers.
import { type Channel, connect } from 'amqplib';
import { expect, it } from 'vitest';
import { startActivemq } from '../../scripts/services/activemq.ts';
import { startRabbitmq } from '../../scripts/services/rabbitmq.ts';
import { startDaemon } from '../support/daemon.ts';
import { startLoad } from '../support/load.ts';
import { createTopic, groupBy, jobsLeft, numbers } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { stompConsumer } from '../support/stomp-consumer.ts';
import { until } from '../support/until.ts';

/** to each broker, while it is healthy and while it fails */
const jobs = 300;
/** to each broker */
const perSecond = 60;
const isMissing = (await lacks('rabbitmq')) || (await lacks('activemq'));

it.skipIf(isMissing)(
  'brokers that are killed, blocked and frozen: each job is confirmed once, none is lost',
  { timeout: 900_000 },
  async () => {
    const [rabbitmq, activemq] = await Promise.all([
      owned('test', startRabbitmq()),
      owned('test', startActivemq({ storeLimit: 512 * 1_048_576 })),
    ]);
    const queue = async <T>(use: (channel: Channel) => Promise<T>): Promise<T> => {
      const connection = await connect(rabbitmq.url);
      const result = await use(await connection.createChannel());
      await connection.close();
      return result;
    };
    await queue((channel) => channel.assertQueue('orders'));

    const brokers = [
      `rabbitmq=amqp091+${rabbitmq.url}`,
      `activemq=stomp+${activemq.url}`,
      `denied=amqp091+amqp://guest:wrong@127.0.0.1:${rabbitmq.port}`,
    ];
    const daemon = await startDaemon({ config: { brokers } });
    const mq = (topic: string, broker: string, to: string, more = {}) =>
      createTopic(daemon, {
        ...{ topic, delivery: 'mq', target: { broker, to }, backoff: ['1s'], maxAttempts: 100 },
        // On a busy machine a healthy broker may take seconds.
        ...{ timeout: '30s', ...more },
      });
    await mq('orders', 'rabbitmq', 'orders');
    await mq('payments', 'activemq', '/queue/payments');
    await mq('absent', 'rabbitmq', 'absent', { maxAttempts: 3 });
    await mq('denied', 'denied', 'orders', { maxAttempts: 3 });

    const linesOf = (topic: string) => daemon.log('notify').filter((line) => line['topic'] === topic);
    const delivered = (topic: string) => linesOf(topic).filter(({ outcome }) => outcome === 'delivered');
    /** An attempt that was logged after the first `after` ones has timed out. */
    const hasTimedOut = (topic: string, after: number) => () =>
      linesOf(topic)
        .slice(after)
        .some(({ reason }) => reason === 'timeout');
    const hasFailed = (topic: string, after: number) => () =>
      linesOf(topic)
        .slice(after)
        .some(({ outcome }) => outcome === 'failed');

    /** Pushes to both brokers, at least `jobs` and while `trouble` lasts, until all are delivered. */
    const published = async (ids: string, trouble: () => Promise<unknown>): Promise<void> => {
      const loads = ['orders', 'payments'].map((topic) => ({
        topic,
        before: delivered(topic).length,
        load: startLoad({ url: () => daemon.url, topic, perSecond, ids }),
      }));
      await trouble();
      for (const { topic, before, load } of loads) {
        await until('enough jobs', () => load.acknowledged.size >= jobs, { deadlineMs: 600_000 });
        const { acknowledged, failures } = await load.stop();
        expect(failures).toEqual([]);
        const count = () => delivered(topic).length - before;
        await until(`all of ${topic}`, () => count() >= acknowledged.size, { everyMs: 200 });
      }
    };
    /** id of a job → ids of its messages */
    const messages = async (): Promise<Record<'orders' | 'payments', Map<string, string[]>>> => {
      const found = { orders: new Map<string, string[]>(), payments: new Map<string, string[]>() };
      const add = (topic: 'orders' | 'payments', job: unknown, message: unknown) => {
        const of = found[topic].get(String(job)) ?? [];
        found[topic].set(String(job), [...of, String(message)]);
      };
      await queue(async (channel) => {
        for (;;) {
          const message = await channel.get('orders', { noAck: true });
          if (message === false) return;
          add('orders', message.properties.headers?.['dq-job-id'], message.properties.messageId);
        }
      });
      const consumer = stompConsumer(activemq, '/queue/payments');
      const expected = new Set(delivered('payments').map(({ id }) => id)).size;
      while (found.payments.size < expected - taken)
        for (const { headers } of await consumer.take(1_000))
          add('payments', headers['dq-job-id'], headers['webhook-id']);
      consumer.close();
      taken += found.payments.size;
      return found;
    };
    let taken = 0;

    await published('h', async () => {
      for (const n of numbers(10)) for (const topic of ['absent', 'denied']) await daemon.push(topic, `${n}`);
    });
    for (const [topic, reason] of Object.entries({ absent: 'mq_unroutable', denied: 'mq_refused' })) {
      await until(`all of ${topic} are dead`, () => linesOf(topic).length === 30);
      expect(linesOf(topic).filter(({ verdict }) => verdict === 'bury')).toHaveLength(10);
      expect(new Set(linesOf(topic).map((line) => line['reason']))).toEqual(new Set([reason]));
    }
    const calm = await messages();
    for (const topic of ['orders', 'payments'] as const) {
      expect(delivered(topic).length).toBe(calm[topic].size);
      expect(linesOf(topic).filter(({ outcome }) => outcome !== 'delivered')).toEqual([]);
      for (const [job, ids] of calm[topic]) expect(ids, job).toHaveLength(1);
    }

    for (const topic of ['orders', 'payments'])
      expect(await daemon.api('PATCH', `/v1/topics/${topic}`, { timeout: '2s' })).toMatchObject({
        status: 200,
      });
    await published('f', async () => {
      let before = linesOf('orders').length;
      await rabbitmq.process.kill();
      await until('an attempt fails', hasFailed('orders', before));
      await rabbitmq.process.start();
      await until('it goes on', () => linesOf('orders').at(-1)?.['outcome'] === 'delivered');
      before = linesOf('orders').length;
      await rabbitmq.setMemoryAlarm(true);
      await until('an attempt times out', hasTimedOut('orders', before));
      await rabbitmq.setMemoryAlarm(false);
      before = linesOf('payments').length;
      await activemq.process.freeze();
      await until('an attempt times out', hasTimedOut('payments', before));
      activemq.process.thaw();
      await until('it goes on', () => linesOf('payments').at(-1)?.['outcome'] === 'delivered');
      before = linesOf('payments').length;
      await activemq.process.kill();
      await until('an attempt fails', hasFailed('payments', before));
      await activemq.process.start();
    });
    const after = await messages();
    for (const topic of ['orders', 'payments'] as const) {
      const confirmed = groupBy(delivered(topic), ({ id }) => String(id));
      for (const [job, lines] of confirmed) expect(lines, job).toHaveLength(1);
      // A message whose confirmation was lost comes again, with the same id.
      for (const [job, ids] of after[topic]) expect(new Set(ids).size, job).toBe(1);
      expect(calm[topic].size + after[topic].size).toBe(confirmed.size);
    }
    expect(await jobsLeft(daemon)).toBe(20);
  },
);
