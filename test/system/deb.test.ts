// Tests the Debian packages: what an installation, an upgrade of a running daemon, a removal and a purge do.
// On a copy of this machine's files, in namespaces, with a systemctl that prints its calls.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { environment } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';

const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

/** Arguments of unshare. /mnt exists everywhere, and is the namespace's own. */
const onCopy = (script: string): string[] => [
  ...['--mount', '--pid', '--fork', '--net', 'sh', '-c'],
  `set -e
   ip link set lo up
   mount -t tmpfs none /mnt
   mkdir /mnt/upper /mnt/work /mnt/all
   mount -t overlay none -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/all
   mount -t proc none /mnt/all/proc
   mount --rbind /dev /mnt/all/dev
   ${script}`,
];
const noCopy =
  spawnSync('dpkg-deb', ['--version']).status === 0 && spawnSync('unshare', onCopy('true')).status === 0
    ? null
    : 'no dpkg-deb or no namespaces here';

function run(command: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: root,
    env: environment(),
    encoding: 'utf8',
    timeout: 240_000,
  });
  expect(status, stdout + stderr).toBe(0);
  return stdout;
}

/** The package as a later version would be: the same code, whose bundle says so. */
function laterPackage(file: string, directory: string): string {
  const content = join(directory, 'later');
  run('dpkg-deb', ['-R', file, content]);
  const change = (path: string, from: string, to: string) => {
    const text = readFileSync(join(content, path), 'latin1');
    writeFileSync(join(content, path), text.replaceAll(from, to), 'latin1');
  };
  change('DEBIAN/control', `Version: ${version}`, 'Version: 9.0.0');
  change('usr/lib/dq/dist/version', version, '9.0.0');
  for (const name of readdirSync(join(content, 'usr/lib/dq/dist/chunks')))
    change(`usr/lib/dq/dist/chunks/${name}`, `"${version}"`, '"9.0.0"');
  const later = join(directory, 'later.deb');
  run('dpkg-deb', ['--root-owner-group', '--build', content, later]);
  return later;
}

const script = `
cat > /usr/local/sbin/systemctl <<'END'
#!/bin/sh
echo "systemctl $*"
case "$*" in
  "reload dq") dq reload 2>&1 ;;
  "disable --now dq") dq stop 2>&1 ;;
esac
END
chmod 755 /usr/local/sbin/systemctl
mkdir -p /run/systemd/system
# The Node of this machine may come from elsewhere than a package.
package() { dpkg --force-depends "$@" 2>&1 | grep -E '^(systemctl|dq|dq-daemon)\\b' || true; }
paths='/etc/dq /etc/dq/dq.yaml /var/lib/dq /var/log/dq /usr/lib/dq /usr/bin/dq'
there() { stat -c '%U:%G %a %n' $paths 2>/dev/null || true; }
dq_as() { setpriv --reuid dq --regid dq --init-groups "$@"; }
echo '# install'; package -i /deb/first.deb; there
dq --version
dq_as dq start -d --port 0 --no-console >/dev/null
dq topic add t --pull 2>/dev/null; dq push t 1 --id a --delay 1h >/dev/null 2>&1
echo 'history: { retention: 1h }' >> /etc/dq/dq.yaml
echo '# upgrade'; package -i /deb/later.deb
dq status --json | grep -o '"title":"[a-z0-9-]*"\\|"version":"[0-9.]*"' | paste -sd' '
dq get t a 2>/dev/null | grep -c delayed; tail -n 1 /etc/dq/dq.yaml; stat -c '%U:%G %a' /etc/dq/dq.yaml
echo '# remove'; package -r dq-daemon; there
echo '# again'; package -i /deb/later.deb
dq_as dq start -d --port 0 --no-console >/dev/null; dq get t a 2>/dev/null | grep -c delayed; dq stop 2>/dev/null
echo '# purge'; package -P dq-daemon; there; id dq 2>/dev/null || echo 'no user'
`;

it.skipIf(noCopy !== null)(
  `deb: install, upgrade of a running daemon, remove, purge ${noCopy ?? ''}`,
  { timeout: 600_000 },
  () => {
    const directory = testDirectory();
    const asText = join(root, 'scripts/docs/lua-as-text.mjs');
    const node = ['--import', 'tsx', '--import', asText];
    run(process.execPath, [...node, join(root, 'scripts/package.ts'), '--to', directory]);
    const files = run(process.execPath, [...node, join(root, 'scripts/package-deb.ts'), '--to', directory]);
    const [amd64 = '', arm64 = ''] = files.trim().split('\n');
    const own = process.arch === 'arm64' ? arm64 : amd64;
    for (const [file, architecture] of [
      [amd64, 'amd64'],
      [arm64, 'arm64'],
    ] as const) {
      expect(run('dpkg-deb', ['-f', file, 'Package', 'Version', 'Architecture', 'Depends'])).toBe(
        `Package: dq-daemon\nVersion: ${version}\nArchitecture: ${architecture}\nDepends: nodejs (>= 20.19), libc6 (>= 2.29), libstdc++6, passwd\n`,
      );
      const binaries = run('dpkg-deb', ['-c', file]).match(/\S+\.node$/gm) ?? [];
      expect(binaries).toEqual([
        expect.stringContaining(architecture === 'arm64' ? 'linux-arm64/' : 'linux-x64/'),
      ]);
    }
    const debs = join(directory, 'debs');
    mkdirSync(debs);
    copyFileSync(own, join(debs, 'first.deb'));
    copyFileSync(laterPackage(own, directory), join(debs, 'later.deb'));
    writeFileSync(join(debs, 'script'), script);
    // The script is process 1 of the namespace: its end is that of all processes there.
    const shown = run('unshare', onCopy(`cp -r ${debs} /mnt/all/deb; exec chroot /mnt/all sh /deb/script`));
    const parts = Object.fromEntries(
      shown
        .split(/^# /m)
        .slice(1)
        .map((part) => part.trimEnd().split('\n'))
        .map(([title = '', ...lines]) => [title, lines]),
    );
    const data = [
      'root:root 755 /etc/dq',
      'root:dq 640 /etc/dq/dq.yaml',
      'dq:dq 700 /var/lib/dq',
      'dq:dq 750 /var/log/dq',
    ];
    const program = ['root:root 755 /usr/lib/dq', 'root:root 777 /usr/bin/dq'];
    expect(parts['install']).toEqual(['systemctl daemon-reload', ...data, ...program, version]);
    const upgrade = parts['upgrade'] ?? [];
    expect(upgrade.slice(0, 3)).toEqual([
      'systemctl daemon-reload',
      'systemctl is-active --quiet dq',
      'systemctl reload dq',
    ]);
    expect(upgrade).toContainEqual(expect.stringMatching(/^dq: reloaded: generation 2$/));
    // All but the master, which keeps its code until a restart.
    const processes = upgrade.find((line) => line.startsWith('"')) ?? '';
    expect(processes).toMatch(/"title":"dq-server-0".*"version":"9\.0\.0"/);
    expect(upgrade.slice(-3)).toEqual(['1', 'history: { retention: 1h }', 'root:dq 640']);
    expect(parts['remove']).toEqual([
      'systemctl disable --now dq',
      'dq: stopped',
      'systemctl daemon-reload',
      ...data,
    ]);
    expect(parts['again']?.at(-1)).toBe('1');
    expect(parts['purge']?.at(-1)).toBe('no user');
    expect(parts['purge']?.filter((line) => /^(root|dq):\w+ /.test(line))).toEqual([]);
  },
);
