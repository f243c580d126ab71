// Tests dq service: the printed script, and the real commands in their own mount namespace, where /etc and
// /var belong to the test and `systemctl` records its calls. The service manager of this machine is not used.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { environment, launcher } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { runDq } from '../support/run-dq.ts';

const repository = join(import.meta.dirname, '../..');

/** The reason why systemd-analyze or namespaces are missing here, or null. */
const lacks = (command: string, ...args: string[]) =>
  spawnSync(command, args).status === 0 ? null : `no ${command} here`;

/** The unit in a script of `dq service install --print`. */
const unitOf = (script: string) =>
  /\/etc\/systemd\/system\/dq\.service > \/dev\/null <<'END_OF_FILE'\n([\s\S]*?\n)END_OF_FILE$/m.exec(
    script,
  )?.[1] ?? '';

it('service install --print: prints the steps with the paths of this installation', async () => {
  const { code, stdout } = await runDq(['service', 'install', '--print']);
  expect(code).toBe(0);
  expect(stdout).toContain('install -d -o dq -g dq -m 700 /var/lib/dq\n');
  expect(stdout).toContain('\ndataDir: /var/lib/dq\n');
  expect(stdout).toMatch(/\nsystemctl daemon-reload\nsystemctl enable --now dq\n$/);
  expect(unitOf(stdout)).toMatch(
    new RegExp(`^ExecStart=\\S+/node ${launcher} start -c /etc/dq/dq\\.yaml `, 'm'),
  );
  expect(unitOf(stdout)).not.toContain('/opt/dq');
  // One source: the unit for an installation by hand has the same lines, with other paths.
  const byHand = readFileSync(join(repository, 'scripts/systemd/dq.service'), 'utf8');
  const withoutPaths = (unit: string) =>
    unit
      .slice(unit.indexOf('[Unit]'))
      .replaceAll(/\S+\/(bin\/dq|node|README\.md)(?=\s)/g, '$1')
      .trim();
  expect(withoutPaths(unitOf(stdout))).toBe(withoutPaths(byHand));
  expect(byHand).toMatch(/^After=.*\btime-sync\.target\b/m);
  expect(spawnSync('sh', ['-n'], { input: stdout }).status).toBe(0);
});

const noAnalyze = lacks('systemd-analyze', '--version');
it.skipIf(noAnalyze !== null)(`service install --print: the unit is valid ${noAnalyze ?? ''}`, async () => {
  // An earlier step of the same script creates the user.
  const unit = unitOf((await runDq(['service', 'install', '--print'])).stdout).replace(
    'User=dq',
    'User=root',
  );
  const path = join(testDirectory(), 'dq.service');
  writeFileSync(path, unit);
  const run = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' });
  const about = run.stderr.split('\n').filter((line) => line.includes('dq'));
  expect({ status: run.status, about }).toEqual({ status: 0, about: [] });
});

it.skipIf(existsSync('/run/systemd/system'))('service: one error where systemd does not run', async () => {
  for (const verb of ['install', 'status', 'uninstall']) {
    const run = await runDq(['service', verb]);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toMatch(/^dq: systemd does not run on this machine; .*\n$/);
  }
});

const noNamespace = lacks('unshare', '--mount', 'true');
it.skipIf(noNamespace !== null)(
  `service: install, status, uninstall, purge ${noNamespace ?? ''}`,
  async () => {
    const root = testDirectory();
    mkdirSync(join(root, 'bin'));
    const systemctl = `#!/bin/sh
echo "$*" >> ${root}/calls
case "$*" in
  "enable --now dq") touch ${root}/active ;;
  "disable --now dq") rm ${root}/active ;;
  "show -p ActiveState --value dq") [ -e ${root}/active ] && echo active || echo inactive ;;
esac
`;
    writeFileSync(join(root, 'bin/systemctl'), systemctl, { mode: 0o755 });
    // Locks the data directory as a master does.
    const lock = `
const { DatabaseSync } = require('${repository}/node_modules/@photostructure/sqlite');
const db = new DatabaseSync('/var/lib/dq/run/lock.db');
db.exec('BEGIN EXCLUSIVE');
require('node:fs').writeFileSync('${root}/locked', '');
setInterval(() => db, 1000);
`;
    const script = `
set -e
cp -a /etc ${root}/etc
mount --bind ${root}/etc /etc
for directory in /var/lib /var/log /run; do mount -t tmpfs none $directory; done
mkdir -p /run/systemd/system /etc/systemd/system
# Where a home or temporary directory does not hide them from the service.
mount -t tmpfs none /opt
mkdir /opt/repository
mount --bind ${repository} /opt/repository
mkdir /opt/dq
ln -s /opt/repository /opt/dq/current
touch /opt/node
mount --bind ${process.execPath} /opt/node
PATH=${root}/bin:$PATH
dq() { /opt/node /opt/repository/bin/dq service "$@"; }
# Outside of the directories of the service.
purged() {
  cp /etc/dq/dq.yaml ${root}/before.yaml
  printf 'dataDir: /srv/dq\nlogDir: /var/log/dq\nredis: ["redis://:geheim@10.0.0.1"]\nmysql: { url: "mysql://dq:geheim@10.0.0.2/dq" }\n' > /etc/dq/dq.yaml
  dq uninstall --purge 2>&1 | grep -E 'not removed|geheim'
  cp ${root}/before.yaml /etc/dq/dq.yaml
}
paths='/etc/dq /var/lib/dq /var/log/dq /etc/dq/dq.yaml /etc/systemd/system/dq.service'
dq install
stat -c '%U:%G %a %n' $paths
dq status --json
echo 'port: 1' > /etc/dq/dq.yaml
dq install
cat /etc/dq/dq.yaml
mount --rbind /opt /home
/home/node /opt/repository/bin/dq service install || echo "hidden $?"
dq uninstall
ls -d $paths 2>/dev/null || true
dq status || echo "status $?"
purged
dq uninstall --purge || echo "purge $?"
dq uninstall --purge -y
ls -d $paths 2>/dev/null || true
id dq 2>/dev/null || echo 'no user'
/opt/node /opt/dq/current/bin/dq service install --print | grep ^ExecStart= | cut -d' ' -f1-3
echo '[Unit]' > /etc/systemd/system/dq.service
dq uninstall || echo "foreign $?"
rm /etc/systemd/system/dq.service
mkdir -p /var/lib/dq/run
dq install || echo "owner $?"
/opt/node -e "$lock" & locker=$!
until [ -e ${root}/locked ]; do kill -0 $locker; done
dq uninstall --purge -y || echo "used $?"
kill $locker
ls -d /var/lib/dq
`;
    const run = spawnSync('unshare', ['--mount', 'sh', '-c', script], {
      encoding: 'utf8',
      env: { ...environment(), lock },
    });
    expect(run.status, run.stderr).toBe(0);
    const [json = '', ...lines] = run.stdout.split('\n').filter((line) => !/^\S+ \d+ \//.test(line));
    expect(run.stdout.split('\n').slice(0, 5)).toEqual([
      'root:root 755 /etc/dq',
      'dq:dq 700 /var/lib/dq',
      'dq:dq 750 /var/log/dq',
      'root:dq 640 /etc/dq/dq.yaml',
      'root:root 644 /etc/systemd/system/dq.service',
    ]);
    expect(JSON.parse(json)).toMatchObject({
      active: 'active',
      command: expect.stringMatching(/^\/opt\/node \/opt\/repository\/bin\/dq start -c /),
    });
    expect(lines.filter((line) => !/^(unit|enabled|active|command) /.test(line))).toEqual([
      ...[
        'port: 1',
        'hidden 1',
        '/etc/dq',
        '/etc/dq/dq.yaml',
        '/var/lib/dq',
        '/var/log/dq',
        'status 3',
        'dq: not removed: /srv/dq',
        'dq: not removed: the jobs in Redis at redis://10.0.0.1',
        'dq: not removed: the registry in MySQL at 10.0.0.2:3306/dq',
        'purge 1',
        'no user',
        'ExecStart=/opt/node /opt/dq/current/bin/dq start',
        'foreign 1',
        'owner 1',
        'used 1',
        '/var/lib/dq',
        '',
      ],
    ]);
    const changes = readFileSync(join(root, 'calls'), 'utf8')
      .split('\n')
      .filter((call) => !call.startsWith('show'));
    const installed = ['daemon-reload', 'enable --now dq'];
    expect(changes).toEqual([...installed, ...installed, 'disable --now dq', 'daemon-reload', '']);
    // Prints each step as it runs.
    expect(run.stderr).toContain('\nsystemctl enable --now dq\n');
  },
);
