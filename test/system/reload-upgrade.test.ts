// Tests an upgrade: switch the link, reload; the new code runs, and the port stays open.
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { copyDq } from '../support/copied-dq.ts';
import { startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { processesOf, reload } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const repository = join(import.meta.dirname, '../..');
const ownVersion = readFileSync(join(repository, 'dist/version'), 'utf8').trim();

/** A copy of the build with another version. */
function install(release: string, version: string): void {
  mkdirSync(release);
  copyDq(release);
  const dist = join(release, 'dist');
  writeFileSync(join(dist, 'version'), `${version}\n`);
  const scripts = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.c?js$/.test(name),
  );
  for (const name of scripts) {
    const text = readFileSync(join(dist, name), 'utf8');
    writeFileSync(join(dist, name), text.replace(`true ? "${ownVersion}"`, `true ? "${version}"`));
  }
  // File names contain digests; in a real build this file would have another name.
  writeFileSync(join(dist, 'cli.js'), `${readFileSync(join(dist, 'cli.js'), 'utf8')}\n// ${version}\n`);
}

it('reload: runs the code of a switched link with the port open; reports that a restart is due', async () => {
  const root = testDirectory();
  install(join(root, '1'), '8.0.1');
  install(join(root, '2'), '8.0.2');
  const current = join(root, 'current');
  symlinkSync('1', current);
  const daemon = await startDaemon({ launcher: join(current, 'bin/dq') });
  const versions = async () => (await processesOf(daemon)).map(({ version }) => version);
  expect(new Set(await versions())).toEqual(new Set(['8.0.1']));

  const port = Number(new URL(daemon.url).port);
  let [opened, refused] = [0, 0];
  const probe = setInterval(() => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('connect', () => {
      opened += 1;
      socket.end();
    });
    socket.on('error', () => (refused += 1));
  }, 5);
  onTestFinished(() => clearInterval(probe));
  await until('the port is probed', () => opened > 0);

  expect((await reload(daemon)).stderr).not.toContain('dq restart');
  rmSync(current);
  // Without a link no process can start, so the reload fails.
  expect(await reload(daemon)).toMatchObject({ code: 1, stderr: expect.stringContaining('ENOENT') });
  symlinkSync('2', current);
  // Half an upgrade.
  const worker = join(root, '2/dist/worker.js');
  const whole = readFileSync(worker);
  writeFileSync(worker, 'throw new Error("half a file")');
  expect(await runDq(['restart', '--data-dir', daemon.dataDir], { cwd: daemon.directory })).toMatchObject({
    code: 1,
    stderr:
      'dq: the restart was rejected, the daemon still runs: no worker of this build can start: Error: half a file\n',
  });
  writeFileSync(worker, whole);
  const { code, stderr } = await reload(daemon);
  expect(code).toBe(0);
  expect(stderr).toContain('dq-master was not replaced (on disk is version 8.0.2, it runs 8.0.1)');
  expect(await versions()).toEqual(['8.0.1', ...daemon.workers().map(() => '8.0.2')]);
  const { body } = await daemon.api('GET', '/v1/processes');
  expect(body.processes.map(({ generation }: { generation: number }) => generation)).toEqual(
    body.processes.map(() => 3),
  );
  clearInterval(probe);
  expect(refused).toBe(0);
  expect(opened).toBeGreaterThan(20);
});
