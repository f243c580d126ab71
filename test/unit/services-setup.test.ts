// Tests the line in which a test run names its installations.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { installLine } from '../support/services-setup.ts';

it.skipIf(process.getuid?.() !== 0)('services: names missing packages before it installs them', () => {
  const directory = mkdtempSync(join(tmpdir(), 'dq-path-'));
  const { PATH } = process.env;
  onTestFinished(() => {
    process.env['PATH'] = PATH;
    rmSync(directory, { recursive: true });
  });
  for (const name of ['apt-get', 'flock', 'setpriv']) writeFileSync(join(directory, name), '');
  process.env['PATH'] = directory;
  expect(installLine()).toMatch(
    /^These tests install missing packages with apt-get: .*redis-server.*rabbitmq-server.*php-cli.*zsh/,
  );
  const servers = ['redis-server', 'mariadbd', 'mariadb-install-db', 'mariadb'];
  const brokers = ['rabbitmq-server', 'erl', 'erl_call', 'activemq', 'java'];
  for (const name of [...servers, ...brokers, 'php', 'zsh', 'fish', 'chromium', 'protoc'])
    writeFileSync(join(directory, name), '');
  // Modules of Python are not in PATH.
  expect(installLine() ?? '').toMatch(/^$|apt-get: protobuf-compiler, python3-grpcio \(/);
});
