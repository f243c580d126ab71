// Tests the addresses that a notifier dials: it judges the address of a name, not the URL.
import type { LookupFunction } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { EgressPolicy } from '../../src/core/egress-policy.ts';
import { createConnector, DialError } from '../../src/notifier/connector.ts';
import { NameLookups } from '../../src/notifier/name-lookups.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { startRawServer } from '../support/raw-server.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

const resolvingTo =
  (...addresses: string[]): LookupFunction =>
  (_name, _options, found) =>
    found(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );

const answering = () =>
  startRawServer((socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'));

describe('notifier: egress', () => {
  it('dials the allowed address of a name', async () => {
    const rig = await startRig();
    const server = await answering();
    await rig.topic('t', `http://receiver.test:${server.port}/`, { timeoutMs: 60_000 });
    await rig.run(createNotifier(rig.context(), { lookup: resolvingTo('127.0.0.1') }));
    await rig.push('t', 'a');
    expect(await until('the attempt', () => rig.notified()[0])).toMatchObject({ outcome: 'delivered' });
    expect(server.received[0]).toContain(`host: receiver.test:${server.port}\r\n`);
  });

  it('calls of one name share a look-up; later calls look up again', async () => {
    const rig = await startRig();
    const server = await answering();
    const asked: Parameters<LookupFunction>[2][] = [];
    const lookup: LookupFunction = (_name, _options, found) => void asked.push(found);
    const url = `http://hanging.test:${server.port}/`;
    // All calls together take less time than a look-up may take.
    await rig.topic('t', url, { timeoutMs: 200, concurrency: 4 });
    await rig.run(createNotifier(rig.context(), { lookup, lookupFreshMs: 0 }));
    await rig.pushAll('t', ids('j', 8));
    await until('all are given up', () => rig.notified().length === 8);
    expect(rig.notified().every(({ reason }) => reason === 'timeout')).toBe(true);
    expect(asked).toHaveLength(1);
    asked[0]?.(null, [{ address: '127.0.0.1', family: 4 }]);
    await rig.topic('t', url, { timeoutMs: 60_000, concurrency: 4 });
    await rig.pushAll('t', ['a', 'b']);
    await until('the next one asks again', () => asked.length === 2);
    asked[1]?.(null, [{ address: '127.0.0.1', family: 4 }]);
    await until('both are delivered by one answer', () => rig.counted('t', 'delivered') === 2);
    expect(asked).toHaveLength(2);
  });

  it('a name that does not resolve fails as dns, a hanging one as timeout', async () => {
    const rig = await startRig();
    const lookup: LookupFunction = (name, _options, found) => {
      if (name === 'absent.test') found(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), []);
    };
    await rig.topic('absent', 'http://absent.test/');
    await rig.topic('hanging', 'http://hanging.test/', { timeoutMs: 200 });
    await rig.run(createNotifier(rig.context(), { lookup }));
    await rig.push('absent', 'a');
    await rig.push('hanging', 'a');
    await until('both attempts', () => rig.notified().length === 2);
    expect(Object.fromEntries(rig.notified().map(({ topic, reason }) => [topic, reason]))).toEqual({
      absent: 'dns',
      hanging: 'timeout',
    });
    expect(rig.notified().find(({ topic }) => topic === 'hanging')).toMatchObject({
      detail: 'no request was sent within 200 ms: waited for the look-up of the host name',
    });
  });

  it.each(['http:', 'https:'])('a socket that is connected elsewhere gets no byte (%s)', async (protocol) => {
    const server = await answering();
    // Allows the address before dialling, and rejects the address of the connected socket.
    let asked = 0;
    const egress: EgressPolicy = {
      refuses() {
        asked += 1;
        return asked > 1 ? 'elsewhere' : null;
      },
      refusesUrl: () => null,
    };
    const lookups = new NameLookups({ lookup: () => {}, probe: null, probesMax: 1 });
    const connect = createConnector({ egress, lookups, verifyTls: false, onDial: () => {} });
    const target = { hostname: '127.0.0.1', protocol, port: String(server.port) };
    const error = await new Promise((resolve) => connect(target, (...[refusal]) => resolve(refusal)));
    expect(error).toBeInstanceOf(DialError);
    expect(error).toMatchObject({ reason: 'blocked_address', message: 'elsewhere' });
    await until('the connection is closed', () => server.connections() === 1 && server.open.size === 0);
    expect(server.received).toEqual([]);
  });
});
