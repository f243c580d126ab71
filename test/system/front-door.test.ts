// Tests commands of another user, and --url of another server: one sentence with the remedy, no stack.
import { spawn } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { launcher, startDaemon } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { runDq } from '../support/run-dq.ts';
import { selfSigned } from '../support/self-signed.ts';

const patience = { timeout: 180_000 };

/** One line, without internals that a user cannot use. */
function expectSentence(stderr: string, says: RegExp, about: string): void {
  expect(stderr, about).toMatch(says);
  expect(stderr.trimEnd().split('\n'), about).toHaveLength(1);
  expect(stderr, about).not.toMatch(/\n\s+at |TypeError|node:/);
}

const commands: readonly (readonly string[])[] = [
  ['topic', 'ls'],
  ['topic', 'get', 't'],
  ['topic', 'add', 't', '--callback', 'http://127.0.0.1:9/'],
  ['push', 't', '1'],
  ['get', 't', 'a'],
  ['cancel', 't', 'a'],
  ['run', 't', 'a'],
  ['ls', 't'],
  ['dead', 'ls'],
  ['dead', 'requeue', 't'],
  ['token', 'add', 'x'],
  ['token', 'ls'],
];

describe('--url of another server', patience, () => {
  const expectOf = async (asked: typeof commands, url: string, says: RegExp) => {
    for (const command of asked) {
      const run = await runDq([...command, '--url', url]);
      expect(run.code, command.join(' ')).toBe(69);
      expectSentence(run.stderr, says, command.join(' '));
    }
  };

  it('a page, or the JSON of another API: not a dq server', async () => {
    for (const [type, text, asked] of [
      ['text/html', '<h1>Welcome to nginx!</h1>', commands.slice(0, 1)],
      ['application/json', '[]', commands.slice(0, 1)],
      ['application/json', '{"status":"ok"}', commands],
    ] as const) {
      const server = createHttpServer((request, response) => {
        request.resume();
        response.writeHead(200, { 'content-type': type }).end(text);
      });
      await expectOf(
        asked,
        `http://127.0.0.1:${await listening(server)}`,
        /answers 200, but not like dq; check that it is the address of a dq daemon/,
      );
    }
  });

  it('another protocol: the remedy names it', async () => {
    const tls = await listening(createTlsServer(selfSigned));
    const redis = await listening(
      createServer((socket: Socket) => {
        socket.on('error', () => {});
        socket.once('data', () => socket.end("-ERR wrong number of arguments for 'get' command\r\n"));
      }),
    );
    const plain = await listening(createHttpServer((_request, response) => void response.end('x')));
    for (const [url, says] of [
      [
        `http://127.0.0.1:${redis}`,
        /does not answer: .*; the port does not speak HTTP: check that it is the port of dq, and for TLS/,
      ],
      [`http://127.0.0.1:${tls}`, /for TLS write https:\/\//],
      [`https://127.0.0.1:${plain}`, /the port does not speak TLS: try http:\/\/\n$/],
      [`https://127.0.0.1:${tls}`, /NODE_EXTRA_CA_CERTS=FILE/],
    ] as const) {
      const run = await runDq(['topic', 'ls', '--url', url]);
      expect(run.code, url).toBe(69);
      expectSentence(run.stderr, says, url);
    }
  });
});

describe.runIf(process.getuid?.() === 0)('commands of another user', patience, () => {
  it('name the user of the daemon and the remedy', async () => {
    const daemon = await startDaemon();
    // In a directory that others may enter, as /var/lib often is.
    for (const path of [daemon.directory, daemon.dataDir]) chmodSync(path, 0o755);
    const asNobody = (args: readonly string[]): Promise<{ code: number | null; stderr: string }> =>
      new Promise((resolve, reject) => {
        const all = ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, launcher, ...args];
        const child = spawn('setpriv', all, { cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] });
        let stderr = '';
        child.stderr.on('data', (chunk: Buffer) => (stderr += chunk));
        child.once('error', reject);
        child.once('close', (code) => resolve({ code, stderr }));
      });
    // Two ways to a daemon: the API, by its run record, and the control socket.
    for (const command of [
      ...commands.slice(0, 4),
      ['token', 'add', 'x'],
      ['status'],
      ['stop'],
      ['reload'],
    ]) {
      const run = await asNobody([...command, '--data-dir', daemon.dataDir]);
      expect(run.code, command.join(' ')).toBe(69);
      expectSentence(
        run.stderr,
        /^dq: cannot ask the daemon on \S+: permission denied for user nobody; run this as the user of the daemon \(uid 0\) or as root/, // check-words: data
        command.join(' '),
      );
    }
    const start = await asNobody(['start', '--port', '0', '--data-dir', daemon.dataDir, '--log-dir', '/tmp']);
    expect(start.code).toBe(1);
    expectSentence(start.stderr, /^dq: the data directory \S+ cannot be used: .*EACCES/, 'start');
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
  });
});
