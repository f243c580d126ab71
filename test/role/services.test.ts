// Tests the servers of other tests: no process or file outlives their stop, or a starter that is killed. What
// they serve, and how they return after kill -9, is tested by the tests that use them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startActivemq } from '../../scripts/services/activemq.ts';
import { startRabbitmq } from '../../scripts/services/rabbitmq.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { isAlive } from '../support/daemon.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

describe.each([
  ['redis', startRedis],
  ['mysql', mariadb],
  ['rabbitmq', startRabbitmq],
  ['activemq', startActivemq],
] as const)('%s', async (name, start) => {
  it.skipIf(await lacks(name))('stop removes process and directory', async () => {
    const server = await owned<Awaited<ReturnType<typeof start>>>('test', start());
    const { pid, directory } = server.process;
    expect([isAlive(pid), existsSync(directory)]).toEqual([true, true]);
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });
});

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
