// Tests when the console starts and ends, over a master whose forks are scripted and real connections.
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { masterLimits } from '../../src/master/limits.ts';
import { type ConsoleDoor, openConsoleDoor } from '../../src/master/workers/console-door.ts';
import { type Forked, scriptedMaster } from '../support/scripted-master.ts';
import { until } from '../support/until.ts';

/** A master with a console on a free port, whose store is ready. */
async function started() {
  let door: ConsoleDoor | null = null;
  const { master, forked } = scriptedMaster(
    { 'console.port': 0, 'console.enabled': true },
    async (...given) => {
      door = await openConsoleDoor(...given);
      return door;
    },
  );
  await until('dq-store is forked', () => forked.length === 1);
  forked[0]?.ready(1);
  const consoles = () => forked.filter(({ title }) => title === 'dq-console');
  const open = async () => {
    const socket = connect((door as unknown as ConsoleDoor).endpoint.port, '127.0.0.1');
    socket.on('error', () => {});
    onTestFinished(() => void socket.destroy());
    await once(socket, 'connect');
    return socket;
  };
  return { master, forked, consoles, open, isWanted: () => (door as unknown as ConsoleDoor).isWanted };
}

const nth = async (consoles: () => Forked[], count: number): Promise<Forked> => {
  await until(`${count} consoles were forked`, () => consoles().length === count);
  return consoles()[count - 1] as Forked;
};

it('console: two connections at once start one process, which gets both when it is ready', async () => {
  const { consoles, forked, master, open } = await started();
  for (const worker of forked.slice(1)) worker.ready(1);
  // Without a console the daemon is ready, and has its address.
  expect([master.state, consoles().length]).toEqual(['ready', 0]);
  expect(master.console?.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  await Promise.all([open(), open()]);
  const console = await nth(consoles, 1);
  expect(console.init.door?.port).toBe(Number(new URL(master.console?.url ?? '').port));
  expect(console.connections).toEqual([]);
  console.ready(1);
  await until('it has both', () => console.connections.length === 2);
  // Nothing was read of them.
  expect(console.connections.map(({ bytesRead }) => bytesRead)).toEqual([0, 0]);
  await open();
  await until('and later ones', () => console.connections.length === 3);
  expect(consoles()).toHaveLength(1);
});

it('console: one that starts later gets the port that the servers have', async () => {
  const { forked, consoles, open } = await started();
  for (const worker of forked.slice(1)) worker.ready(4_001);
  await open();
  const console = await nth(consoles, 1);
  console.ready(null);
  expect(console.sent).toContainEqual({ kind: 'listening', port: 4_001 });
});

it.each([
  ['unused', masterLimits.consoleRestMs],
  ['terminated', masterLimits.serverDrainMs],
] as const)('console: an %s one ends; later connections wait for the next one', async (kind, deadlineMs) => {
  const { consoles, open } = await started();
  await open();
  const console = await nth(consoles, 1);
  console.ready(1);
  await until('it has the connection', () => console.connections.length === 1);
  const ends = () => console.onMessage({ kind });
  ends();
  ends();
  const drains = console.sent.filter(({ kind }) => kind === 'drain');
  expect(drains).toEqual([{ kind: 'drain', deadlineMs, why: kind }]);
  console.onMessage({ kind: 'taken' });
  await open();
  console.onExit(0, null);
  const next = await nth(consoles, 2);
  expect(next.init.restarts).toBe(0);
  next.ready(1);
  await until('it has the one that waited', () => next.connections.length === 1);
  next.onMessage({ kind: 'taken' });
  next.onMessage({ kind });
  next.onExit(0, null);
  // No page is open, so none follows.
  await Promise.resolve();
  expect(consoles()).toHaveLength(2);
});

it('console: a connection that a dead console did not take goes to the next one', async () => {
  const { consoles, open, isWanted } = await started();
  const clients = await Promise.all([open(), open()]);
  const console = await nth(consoles, 1);
  console.ready(1);
  await until('they are on their way', () => console.connections.length === 2);
  const oneClosed = Promise.race(clients.map((client) => once(client.resume(), 'close')));
  console.onMessage({ kind: 'taken' });
  await oneClosed;
  expect(isWanted()).toBe(false);
  console.onExit(null, 'SIGKILL');
  expect(isWanted()).toBe(true);
  const next = await nth(consoles, 2);
  next.ready(1);
  await until('it has it', () => next.connections.length === 1);
  expect(next.connections[0]).toBe(console.connections[1]);
});

it('console: the stop of the daemon closes its port and the connections that wait', async () => {
  const { master, consoles, open } = await started();
  const socket = await open();
  await nth(consoles, 1);
  const closed = once(socket.resume(), 'close');
  master.stop();
  await closed;
  expect(master.console).toBeNull();
  await expect(open()).rejects.toThrow('ECONNREFUSED');
});
