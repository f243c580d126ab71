// Tests host names whose name server does not answer, beside healthy topics.
import { expect, it, onTestFinished } from 'vitest';
import { cannotReplaceResolver, startSystemNameServer } from '../../scripts/services/name-server.ts';
import { startDaemon } from '../support/daemon.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

it.skipIf(cannotReplaceResolver() !== null)(
  'daemon: 30 hanging names cost other names no attempt',
  async () => {
    const names = await startSystemNameServer((name) =>
      name.startsWith('good') ? ['127.0.0.1'] : 'silence',
    );
    onTestFinished(() => names.stop());
    // Each call dials and looks up the name.
    const sink = await startSink((_arrival, response) => {
      response.writeHead(200, { connection: 'close' }).end('{}');
    });
    const daemon = await startDaemon({ prefix: names.prefix, config: { 'notifier.workers': 1 } });
    const create = async (topic: string, host: string, more = {}) => {
      const callbackUrl = `http://${host}:${sink.port}/`;
      const reply = await daemon.api('POST', '/v1/topics', { topic, callbackUrl, ...more });
      expect(reply.status).toBe(201);
    };
    const count = 30;
    const all = Array.from({ length: count }, (_, n) => n);
    await Promise.all(all.map((n) => create(`hung${n}`, `hung${n}.test`, { timeout: '3s' })));
    await Promise.all(all.map((n) => daemon.push(`hung${n}`, '{}')));
    // As many as the threads of libuv.
    await until('hung names are asked for', () => new Set(names.asked).size >= 8);
    for (const n of [0, 1, 2, 3, 4]) {
      // One that was never resolved before, and one that was resolved before.
      await create(`good${n}`, `good${n}.test`, { timeout: '10s', maxAttempts: 1 });
      await daemon.push(`good${n}`, '{}');
      await daemon.push('good0', '{}');
      await until('both are delivered', () => sink.arrivals.length === 2 * (n + 1));
    }
    const attempts = () => daemon.log('notify').filter(({ topic }) => String(topic).startsWith('good'));
    const good = await until('all are logged', () => (attempts().length >= 10 ? attempts() : null));
    expect(good.map(({ outcome }) => outcome)).toEqual(Array(10).fill('delivered'));
  },
);
