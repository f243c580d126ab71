// Finds the programs that tests and the benchmark start, and installs them on Debian. Installed servers are
// not started: a policy file forbids apt to do so.

import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { runTool } from './server-process.ts';

export const serviceKinds = ['redis', 'mysql', 'rabbitmq', 'activemq', 'grpc'] as const;
export type ServiceKind = (typeof serviceKinds)[number];
type ProgramKind = ServiceKind | 'php' | 'phpCurl' | 'laravel' | 'shells' | 'browser';

const needed: Readonly<
  Record<ProgramKind, { readonly programs: readonly string[]; readonly packages: readonly string[] }>
> = {
  redis: { programs: ['redis-server'], packages: ['redis-server'] },
  // The core packages bring no service and ask no questions.
  mysql: {
    programs: ['mariadbd', 'mariadb-install-db', 'mariadb'],
    packages: ['mariadb-server-core', 'mariadb-client-core'],
  },
  // erl_call administers the broker; rabbitmqctl would take seconds.
  rabbitmq: { programs: ['rabbitmq-server', 'erl', 'erl_call'], packages: ['rabbitmq-server'] },
  activemq: { programs: ['activemq', 'java'], packages: ['activemq', 'default-jre-headless'] },
  // 3 MB. Go, the fifth language of src/manual/signatures.md, would be 80 MB.
  php: { programs: ['php'], packages: ['php-cli'] },
  // Its file has the version of PHP in its path.
  phpCurl: { programs: ['php', '/var/lib/dpkg/info/php-curl.list'], packages: ['php-cli', 'php-curl'] },
  // 11 MB: the worker of Laravel, for the queue driver of the PHP client.
  laravel: {
    programs: ['php', '/usr/share/php/Illuminate/Queue/autoload.php'],
    packages: ['php-cli', 'php-curl', 'php-illuminate-queue'],
  },
  // 9 MB: a client of the C implementation of gRPC, and the compiler of its messages.
  grpc: {
    programs: ['protoc', '/usr/bin/python3', '/usr/lib/python3/dist-packages/grpc/__init__.py'],
    packages: ['protobuf-compiler', 'python3-grpcio'],
  },
  shells: { programs: ['zsh', 'fish'], packages: ['zsh', 'fish'] },
  // Its sandbox does not run as root; the font shows the Chinese page.
  browser: { programs: ['chromium'], packages: ['chromium', 'fonts-noto-cjk'] },
};
/** of util-linux: setpriv ends servers with their starter, flock serializes installations */
const tools = ['setpriv', 'flock'];

/** The reason why these programs cannot be started here, or null. Changes nothing. */
export function whyMissing(kind: ProgramKind): string | null {
  const missing = [...tools, ...needed[kind].programs].filter((program) => findProgram(program) === null);
  return missing.length === 0 ? null : `${missing.join(', ')} not found`;
}

/** Packages that whyNotInstalled() installs for programs that are missing; empty where it cannot install. */
export function packagesToInstall(): readonly string[] {
  if (!canInstall()) return [];
  const kinds = (Object.keys(needed) as ProgramKind[]).filter((kind) => whyMissing(kind) !== null);
  return kinds.flatMap((kind) => needed[kind].packages);
}

function canInstall(): boolean {
  return process.getuid?.() === 0 && findProgram('apt-get') !== null && findProgram('flock') !== null;
}

/** The same after installing missing programs, as root with apt-get. Processes may call it concurrently. */
export async function whyNotInstalled(kind: ProgramKind): Promise<string | null> {
  const missing = whyMissing(kind);
  if (missing === null) return null;
  const { packages } = needed[kind];
  const byHand = `apt-get install ${packages.join(' ')}`;
  if (process.getuid?.() !== 0) return `${missing}; as root: ${byHand}`;
  if (!canInstall()) return missing;
  try {
    await runTool('flock', [join(tmpdir(), 'dq-install.lock'), 'sh', '-ec', script, 'sh', ...packages], {
      env: { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
      timeoutMs: installMsMax,
    });
  } catch (error) {
    return `${missing}; ${byHand} failed: ${String(error).trim().split('\n').at(-1)}`;
  }
  return whyMissing(kind);
}

const installMsMax = 5 * 60_000;

/** policy-rc.d rejects every service start with 101; an existing one stays in force. */
const script = `
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > $policy
  chmod 755 $policy
fi
install() { apt-get install -y --no-install-recommends "$@"; }
dpkg -s "$@" >/dev/null 2>&1 || install "$@" || { apt-get update; install "$@"; }`;

/** mariadbd is in a directory of root's PATH. */
export function findProgram(name: string): string | null {
  if (isAbsolute(name)) return existsSync(name) ? name : null;
  const directories = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  return directories.map((directory) => join(directory, name)).find((path) => existsSync(path)) ?? null;
}
