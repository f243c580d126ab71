// Tests the start of a server: when it opens its port, and requests that arrive before the API is ready.
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { startIntake } from '../support/intake.ts';
import { refuses } from '../support/listening.ts';
import { until } from '../support/until.ts';

/** A registry that returns the tokens when the test says so: the API cannot be ready before. */
function slowTokens() {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let asked = false;
  const registry = (real: Registry): Registry =>
    Object.assign(Object.create(real) as Registry, {
      tokens: async (since: number) => {
        asked = true;
        await released;
        return real.tokens(since);
      },
    });
  return { registry, release: () => release(), asked: () => asked };
}

it('replacing a dead server: opens the port first, answers waiting requests in order', async () => {
  const [port = 0] = await freePorts(1);
  const tokens = slowTokens();
  const starting = startIntake({ restarts: 1, config: { 'server.port': port }, registry: tokens.registry });
  await until('the API is being made', tokens.asked);
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  const gone = connect(port, '127.0.0.1');
  const push = (id: string) =>
    `POST /v1/topics/none/jobs?id=${id} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}`;
  gone.end(push('gone'));
  await new Promise((resolve) => gone.once('connect', resolve));
  gone.destroy();
  socket.write(`${push('a')}GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  expect(await refuses(port)).toBe(false);
  expect(text).toBe('');
  tokens.release();
  const dq = await starting;
  await until('both are answered', () => text.includes('"live":true'));
  expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 200']);
  socket.destroy();
  await until('nothing is in flight', () => dq.role.inFlight() === 0);
});

it('start and reload: opens the port when the API is ready', async () => {
  const [port = 0] = await freePorts(1);
  const tokens = slowTokens();
  const starting = startIntake({ config: { 'server.port': port }, registry: tokens.registry });
  await until('the API is being made', tokens.asked);
  expect(await refuses(port)).toBe(true);
  tokens.release();
  await starting;
  expect(await refuses(port)).toBe(false);
});
