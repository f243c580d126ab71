// Packs dist.package as Debian packages for amd64 and arm64: dq-daemon_VERSION_CPU.deb, in this directory or
// in --to DIR. `npm run package:deb` writes dist.package first. Needs dpkg-deb.
// The name is dq-daemon: Debian has another package dq, whose program is /usr/bin/dq, too.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const root = join(import.meta.dirname, '..');
const source = join(root, 'dist.package');
/** by the name that Debian uses: the one of Node */
const cpus = { amd64: 'x64', arm64: 'arm64' } as const;

const { values: given } = parseArgs({ options: { to: { type: 'string', default: '.' } } });
const { name, version, description, homepage } = JSON.parse(
  readFileSync(join(source, 'package.json'), 'utf8'),
) as { name: string; version: string; description: string; homepage?: string };

for (const [architecture, cpu] of Object.entries(cpus)) {
  const stage = mkdtempSync(join(tmpdir(), 'dq-deb-'));
  try {
    fill(stage, architecture, cpu);
    const file = resolve(given.to, `${name}_${version}_${architecture}.deb`);
    const args = ['--root-owner-group', '-Zxz', '--build', stage, file];
    const { status, stderr } = spawnSync('dpkg-deb', args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`dpkg-deb fails: ${stderr}`);
    process.stdout.write(`${file}\n`);
  } finally {
    rmSync(stage, { recursive: true });
  }
}

function fill(stage: string, architecture: string, cpu: string): void {
  const write = (path: string, text: string, mode = 0o644): void => {
    const target = join(stage, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
    chmodSync(target, mode);
  };
  const binary = new RegExp(`/prebuilds/linux-${cpu}(/.*\\.glibc\\.node)?$`);
  const isOther = (path: string) => path.includes('/prebuilds/linux-') && !binary.test(path);
  cpSync(source, join(stage, 'usr/lib/dq'), { recursive: true, filter: (path) => !isOther(path) });
  mkdirSync(join(stage, 'usr/bin'));
  symlinkSync('../lib/dq/bin/dq', join(stage, 'usr/bin/dq'));
  write('usr/lib/systemd/system/dq.service', unit());
  write('etc/dq/dq.yaml', readFileSync(join(source, 'scripts/systemd/dq.yaml'), 'utf8'));
  const licence = readFileSync(join(source, 'LICENSE'), 'utf8');
  const others = 'The licences of the libraries: /usr/lib/dq/dist/THIRD-PARTY-NOTICES and the folders of\n';
  write('usr/share/doc/dq-daemon/copyright', `${licence}\n${others}/usr/lib/dq/node_modules.\n`);
  // Whatever the umask of the checkout was.
  chmodAll(stage);
  const kibibytes = Math.ceil(sizeOf(stage) / 1024);
  write('DEBIAN/control', control(architecture, kibibytes));
  write('DEBIAN/conffiles', '/etc/dq/dq.yaml\n');
  for (const script of ['postinst', 'prerm', 'postrm'])
    write(`DEBIAN/${script}`, readFileSync(join(root, 'scripts/deb', script), 'utf8'), 0o755);
}

/** The template with the paths of this package, without its header about an installation by hand. */
function unit(): string {
  const template = readFileSync(join(source, 'scripts/systemd/dq.service'), 'utf8');
  return template
    .slice(template.indexOf('[Unit]'))
    .replaceAll('/opt/dq/current/bin/dq', '/usr/bin/dq')
    .replaceAll('/opt/dq/current', '/usr/lib/dq');
}

/** The libraries are those of the native library. */
function control(architecture: string, kibibytes: number): string {
  return `Package: ${name}
Version: ${version}
Architecture: ${architecture}
Maintainer: the maintainers of dq
Installed-Size: ${kibibytes}
Depends: nodejs (>= 20.19), libc6 (>= 2.29), libstdc++6, passwd
Conflicts: dq
Section: net
Priority: optional
${homepage === undefined ? '' : `Homepage: ${homepage}\n`}Description: delay queue daemon with HTTP callbacks
 ${description}.
`;
}

function* everyPath(directory: string): Generator<string> {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true }))
    yield join(entry.parentPath, entry.name);
}

function chmodAll(stage: string): void {
  chmodSync(stage, 0o755);
  for (const path of everyPath(stage)) {
    const stats = lstatSync(path);
    if (stats.isDirectory() || (stats.isFile() && path.endsWith('/bin/dq'))) chmodSync(path, 0o755);
    else if (stats.isFile()) chmodSync(path, 0o644);
  }
}

function sizeOf(stage: string): number {
  let bytes = 0;
  for (const path of everyPath(stage)) bytes += lstatSync(path).size;
  return bytes;
}
