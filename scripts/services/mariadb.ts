// Starts a MariaDB server: mariadbd on a free port with a copy of a prepared data directory, because
// preparing one takes seconds.

import { access, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from './binaries.ts';
import { tryPorts } from './free-port.ts';
import { runTool, ServerProcess, StartedServer } from './server-process.ts';
import { makeDirectory, removeDirectory } from './temporary-root.ts';

export interface MariadbOptions {
  /** options of mariadbd: `--max-connections=10` */
  readonly args?: readonly string[];
  /** Directory of the prepared data directory. Processes that name the same one share it; the caller removes
   *  it. */
  readonly templateIn?: string;
}

export class MariadbServer extends StartedServer {
  /** URL of a database, for a user made by createUser or for root, who has no password */
  url(database: string, user = 'root', password = ''): string {
    const who = password === '' ? user : `${user}:${encodeURIComponent(password)}`;
    return `mysql://${who}@127.0.0.1:${this.port}/${database}`;
  }

  /** Runs statements in `database`, which must exist, through the mariadb client as root; returns the rows,
   *  tab-separated, without their header. Client commands work too: `source FILE`. */
  run(statements: string, database = ''): Promise<string> {
    const args = ['--no-defaults', '--batch', '--skip-column-names', '--protocol=tcp', '--host=127.0.0.1'];
    const where = [
      `--port=${this.port}`,
      '--user=root',
      '--default-character-set=utf8mb4',
      '--binary-mode=0',
    ];
    const named = database === '' ? [] : [database];
    return runTool('mariadb', [...args, ...where, ...named], { input: statements, timeoutMs: 30_000 });
  }

  async createDatabase(name: string): Promise<string> {
    await this.run(`CREATE DATABASE ${name}`);
    return this.url(name);
  }
}

/** Settings of a small server; the redo log's size is fixed when the data directory is made. */
const small = [
  '--innodb-buffer-pool-size=16M',
  '--innodb-log-file-size=4M',
  '--key-buffer-size=1M',
  '--performance-schema=OFF',
  '--skip-log-bin',
  '--skip-name-resolve',
  // Each COMMIT writes to the kernel without fsync: kill -9 loses nothing, and no test cuts the power.
  '--innodb-flush-log-at-trx-commit=2',
  '--innodb-flush-method=nosync',
  '--innodb-doublewrite=OFF',
];

export function startMariadb({ args = [], templateIn }: MariadbOptions = {}): Promise<MariadbServer> {
  return tryPorts(1, async ([port = 0]) => {
    const directory = makeDirectory('mariadb');
    const data = join(directory, 'data');
    const temporary = join(directory, 'tmp');
    try {
      await mkdir(temporary);
      await runTool('cp', ['-a', '--sparse=always', await prepareTemplate(templateIn ?? directory), data]);
    } catch (error) {
      await removeDirectory(directory);
      throw error;
    }
    const process = await ServerProcess.start({
      command: findProgram('mariadbd') ?? 'mariadbd',
      args: [
        '--no-defaults',
        ...asRoot(),
        ...small,
        `--datadir=${data}`,
        // A start removes all temporary tables in its directory, and a server that misses one crashes.
        `--tmpdir=${temporary}`,
        '--bind-address=127.0.0.1',
        `--port=${port}`,
        // Relative to the data directory: mariadbd rejects a path of more than 107 bytes.
        '--socket=mariadb.sock',
        `--pid-file=${join(directory, 'mariadb.pid')}`,
        ...args,
      ],
      port,
      directory,
      isReady: () => isReady(port),
    });
    return new MariadbServer(process);
  });
}

async function isReady(port: number): Promise<boolean> {
  const args = ['--no-defaults', '--protocol=tcp', '--host=127.0.0.1', `--port=${port}`, '--user=root'];
  await runTool('mariadb', [...args, '--execute=SELECT 1'], { timeoutMs: 5_000 });
  return true;
}

/** Once per directory, by the first of several processes; an interrupted preparation starts again. */
async function prepareTemplate(directory: string): Promise<string> {
  const template = join(directory, 'template');
  if (await exists(template)) return template;
  await runTool('flock', [
    join(directory, 'template.lock'),
    'sh',
    '-ec',
    prepare,
    'sh',
    template,
    ...asRoot(),
    ...small,
  ]);
  return template;
}

const prepare = `
template=$1; shift
[ -e "$template" ] && exit 0
rm -rf "$template.new"
mariadb-install-db --no-defaults --datadir="$template.new" --skip-test-db --auth-root-authentication-method=normal "$@" >&2
mv "$template.new" "$template"`;

/** mariadbd runs as root only with this option. */
function asRoot(): readonly string[] {
  return process.getuid?.() === 0 ? ['--user=root'] : [];
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
