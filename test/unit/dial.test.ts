// Dials with addresses whose answers the test gives, and with real sockets where the system decides.
import { ADDRCONFIG } from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  answeringAddress,
  DialedStream,
  type DialFailure,
  type DialOptions,
  dial,
  findBy,
  inTurns,
  openSocket,
} from '../../src/runtime/dial.ts';
import { runtimeLimits } from '../../src/runtime/limits.ts';

const familyOf = (address: string) => (address.includes(':') ? 6 : 4);
const resolvingTo =
  (...addresses: string[]): NonNullable<DialOptions['find']> =>
  (_name, found) =>
    process.nextTick(
      found,
      null,
      addresses.map((address) => ({ address, family: familyOf(address) })),
    );

/** A dial whose sockets do what the test says. */
function startTrial(addresses: readonly string[], more: Partial<DialOptions> = {}) {
  const sockets = new Map<string, Socket>();
  const ends: (Error | string)[] = [];
  const dialing = dial(
    {
      ...{ host: 'name.test', port: 80, timeoutMs: 10_000, find: resolvingTo(...addresses) },
      connect: (address) => {
        const socket = new Socket();
        Object.defineProperty(socket, 'remoteAddress', { value: address });
        sockets.set(address, socket);
        return socket;
      },
      ...more,
    },
    (error, socket) => ends.push(error ?? String(socket.remoteAddress)),
  );
  return {
    dialing,
    ends,
    dialled: () => [...sockets.keys()],
    isOpen: (address: string) => sockets.get(address)?.destroyed === false,
    connect: (address: string) => sockets.get(address)?.emit('connect'),
    fail: (address: string, code: string) =>
      sockets.get(address)?.emit('error', Object.assign(new Error(code), { code })),
  };
}
const found = () => new Promise<void>((resolve) => process.nextTick(() => process.nextTick(resolve)));

describe('a look-up by the system', () => {
  /** `own`: with the families of this machine; `all`: with both; null: no answer */
  const ask = (own: readonly string[] | Error, all: readonly string[] | Error | null) =>
    new Promise<readonly string[] | Error>((resolve) => {
      const find = findBy((_name, { hints }, found) => {
        const answer = hints === ADDRCONFIG ? own : all;
        if (answer instanceof Error) found(answer, []);
        else if (answer !== null)
          found(
            null,
            answer.map((address) => ({ address, family: familyOf(address) })),
          );
      });
      find('name.test', (error, addresses) => resolve(error ?? addresses.map(({ address }) => address)));
    });

  it('waits for no answer about a family that the machine lacks', async () => {
    expect(await ask(['192.0.2.1'], null)).toEqual(['192.0.2.1']);
  });

  it('asks for both families where a name is local, or has no address of those of the machine', async () => {
    const both = ['127.0.0.1', '::1'];
    expect(await ask(['127.0.0.1'], both)).toEqual(both);
    expect(await ask(['::1'], both)).toEqual(both);
    expect(await ask(new Error('EAI_AGAIN'), both)).toEqual(both);
    expect(await ask(new Error('first'), new Error('ENOTFOUND'))).toEqual(new Error('ENOTFOUND'));
  });
});

describe('dial', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('an address that answers late is not given up for another', async () => {
    const { dialled, isOpen, connect, ends } = startTrial(['192.0.2.1', '192.0.2.2']);
    await found();
    vi.advanceTimersByTime(runtimeLimits.dialStaggerMs);
    expect(dialled()).toEqual(['192.0.2.1', '192.0.2.2']);
    vi.advanceTimersByTime(10 * runtimeLimits.dialStaggerMs);
    expect(isOpen('192.0.2.1')).toBe(true);
    connect('192.0.2.1');
    expect(ends).toEqual(['192.0.2.1']);
    expect(isOpen('192.0.2.2')).toBe(false);
  });

  it('a dead address delays the next one by the stagger only', async () => {
    const { dialled, isOpen, connect, ends } = startTrial(['192.0.2.1', '192.0.2.2', '192.0.2.3']);
    await found();
    expect(dialled()).toEqual(['192.0.2.1']);
    vi.advanceTimersByTime(runtimeLimits.dialStaggerMs);
    expect(dialled()).toEqual(['192.0.2.1', '192.0.2.2']);
    connect('192.0.2.2');
    vi.advanceTimersByTime(10_000);
    expect(ends).toEqual(['192.0.2.2']);
    expect([dialled().length, isOpen('192.0.2.1')]).toEqual([2, false]);
  });

  it('an address without a route costs no time, and is not the reason beside one with a route', async () => {
    const { dialled, fail, ends } = startTrial(['2001:db8::1', '192.0.2.1', '192.0.2.2']);
    await found();
    fail('2001:db8::1', 'ENETUNREACH');
    expect(dialled()).toEqual(['2001:db8::1', '192.0.2.1']);
    fail('192.0.2.1', 'ECONNREFUSED');
    fail('192.0.2.2', 'ECONNREFUSED');
    expect(ends).toMatchObject([
      { code: 'ECONNREFUSED', tries: 'ECONNREFUSED 192.0.2.1:80, ECONNREFUSED 192.0.2.2:80' },
    ]);
  });

  it('ends in its time, and names the addresses that did not answer', async () => {
    const { isOpen, ends } = startTrial(['2001:db8::1', '192.0.2.1']);
    await found();
    vi.advanceTimersByTime(10_000);
    expect(ends).toMatchObject([{ code: 'ETIMEDOUT' }]);
    expect((ends[0] as DialFailure).tries).toBe('ETIMEDOUT [2001:db8::1]:80, ETIMEDOUT 192.0.2.1:80');
    expect([isOpen('2001:db8::1'), isOpen('192.0.2.1')]).toEqual([false, false]);
  });

  it('never dials an address that is judged forbidden', async () => {
    const forbidden = new Error('forbidden');
    const judge = (address: string) => (address === '169.254.1.1' ? forbidden : null);
    const mixed = startTrial(['169.254.1.1', '192.0.2.1'], { judge });
    await found();
    expect(mixed.dialled()).toEqual(['192.0.2.1']);
    mixed.fail('192.0.2.1', 'ECONNREFUSED');
    expect(mixed.ends).toMatchObject([{ code: 'ECONNREFUSED' }]);
    const alone = startTrial(['169.254.1.1'], { judge });
    const literal = startTrial([], { judge, host: '169.254.1.1' });
    await found();
    expect([alone.dialled(), literal.dialled()]).toEqual([[], []]);
    expect([alone.ends, literal.ends]).toEqual([[forbidden], [forbidden]]);
  });

  it('ends with the error of its cancel, and closes its sockets', async () => {
    const { dialing, isOpen, connect, ends } = startTrial(['192.0.2.1']);
    await found();
    const error = new Error('given up');
    dialing.cancel(error);
    connect('192.0.2.1');
    expect(ends).toEqual([error]);
    expect(isOpen('192.0.2.1')).toBe(false);
  });

  it('a cancelled dial ignores a later answer of the resolver', async () => {
    const { dialing, dialled, ends } = startTrial(['192.0.2.1']);
    const error = new Error('given up');
    dialing.cancel(error);
    await found();
    expect([dialled(), ends]).toEqual([[], [error]]);
  });

  it('families take turns, the first one of the resolver first', () => {
    expect(inTurns(['::1', '::2', '::3', '1.1.1.1'])).toEqual(['::1', '1.1.1.1', '::2', '::3']);
    expect(inTurns(['1.1.1.1', '1.1.1.2', '::1'])).toEqual(['1.1.1.1', '::1', '1.1.1.2']);
  });
});

describe('dial: real sockets', () => {
  async function listen(host: string): Promise<{ port: number; accepted: Socket[] }> {
    const accepted: Socket[] = [];
    const server = createServer((socket) => {
      accepted.push(socket);
      socket.pipe(socket);
    });
    server.listen(0, host);
    await once(server, 'listening');
    onTestFinished(() => {
      for (const socket of accepted) socket.destroy();
      server.close();
    });
    return { port: (server.address() as AddressInfo).port, accepted };
  }
  const timeoutMs = 5_000;

  it.each(['127.0.0.1', '::1'])('a name reaches its loopback address %s', async (address) => {
    const { port } = await listen(address);
    const find = resolvingTo('::1', '127.0.0.1');
    const socket = await openSocket({ host: 'name.test', port, timeoutMs, find });
    expect(socket.remoteAddress).toBe(address);
    socket.destroy();
  });

  it('a socket that is connected elsewhere than judged is closed without a byte', async () => {
    const { port, accepted } = await listen('127.0.0.1');
    const judge = (address: string) => (address === '127.0.0.1' ? new Error('elsewhere') : null);
    const connect = () => connectTcp({ host: '127.0.0.1', port });
    const opening = openSocket({ host: '192.0.2.1', port, timeoutMs, judge, connect });
    await expect(opening).rejects.toThrow('elsewhere');
    expect(accepted.every(({ bytesRead }) => bytesRead === 0)).toBe(true);
  });

  it('the answering address: without a dial where a name has one address', async () => {
    const { port, accepted } = await listen('127.0.0.1');
    const place = { host: 'name.test', port, timeoutMs };
    expect(await answeringAddress({ ...place, find: resolvingTo('127.0.0.1') })).toBe('127.0.0.1');
    expect(accepted).toEqual([]);
    expect(await answeringAddress({ ...place, find: resolvingTo('::1', '127.0.0.1') })).toBe('127.0.0.1');
  });

  it('a stream takes what is written before its connection', async () => {
    const { port } = await listen('127.0.0.1');
    const find = resolvingTo('::1', '127.0.0.1');
    const stream = new DialedStream({ host: 'name.test', port, timeoutMs, find });
    stream.write('hello');
    const [echo] = await once(stream, 'data');
    expect(String(echo)).toBe('hello');
    stream.destroy();
    await once(stream, 'close');
  });

  it('a stream reports the failure of its dial, and closes at once when it is destroyed', async () => {
    const { port } = await listen('127.0.0.1');
    const refused = new DialedStream({ host: '127.0.0.2', port, timeoutMs });
    expect(await once(refused, 'error').catch((error) => [error])).toMatchObject([{ code: 'ECONNREFUSED' }]);
    const hanging = () => new DialedStream({ host: 'name.test', port, timeoutMs, find: () => {} });
    await once(hanging().destroy(), 'close');
    const dialling = hanging();
    await new Promise((resolve) => setImmediate(resolve));
    await once(dialling.destroy(), 'close');
  });
});
