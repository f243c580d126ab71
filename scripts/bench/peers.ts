// Installs the peers into a temporary folder and starts them, each with its own Redis of dq's configuration.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '../services/free-port.ts';
import { startRedis } from '../services/redis.ts';
import { ServerProcess } from '../services/server-process.ts';
import { makeDirectory } from '../services/temporary-root.ts';
import type { Options } from './bench.ts';
import { redisConfig } from './dq.ts';
import type { Measured } from './processes.ts';
import { startHelper } from './servers.ts';

const run = promisify(execFile);

export interface Peers {
  readonly bullmq: { readonly folder: string; readonly version: string } | null;
  readonly ouqiang: { readonly program: string } | null;
  remove(): void;
}

/** BullMQ from the npm registry, ouqiang/delay-queue from its source folder: Go must be installed. */
export async function installPeers({ bullmq, ouqiang }: Pick<Options, 'bullmq' | 'ouqiang'>): Promise<Peers> {
  const root = mkdtempSync(join(tmpdir(), 'dq-bench-peers-'));
  return {
    bullmq: bullmq ? await installBullmq(join(root, 'bullmq')) : null,
    ouqiang: ouqiang === '' ? null : await buildOuqiang(ouqiang, join(root, 'go')),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

async function installBullmq(folder: string): Promise<Peers['bullmq']> {
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', 'bullmq@6', 'ioredis@5'];
  await run('npm', args, { cwd: folder });
  const { stdout } = await run('npm', ['ls', 'bullmq', '--json'], { cwd: folder });
  const { dependencies } = JSON.parse(stdout) as { dependencies: { bullmq: { version: string } } };
  return { folder, version: dependencies.bullmq.version };
}

/** It has no go.mod: its vendored packages are found by its place in GOPATH. */
async function buildOuqiang(source: string, gopath: string): Promise<Peers['ouqiang']> {
  const place = join(gopath, 'src/github.com/ouqiang/delay-queue');
  cpSync(source, place, { recursive: true });
  const program = join(gopath, 'delay-queue');
  const env = {
    ...process.env,
    GOPATH: gopath,
    GOCACHE: join(gopath, 'cache'),
    GO111MODULE: 'off',
    GOFLAGS: '',
  };
  await run('go', ['build', '-o', program, '.'], { cwd: place, env });
  return { program };
}

export interface RunningPeer {
  readonly url: string;
  readonly measured: readonly Measured[];
  stop(): Promise<void>;
}

/** `workers` processes call the sink. */
export async function startBullmq(folder: string, workers: number, sinkUrl = ''): Promise<RunningPeer> {
  const redis = await startRedis({ config: redisConfig });
  const server = await startHelper('bullmq.ts', 'server', folder, redis.url);
  const calling = await Promise.all(
    Array.from({ length: workers }, () => startHelper('bullmq.ts', 'worker', folder, redis.url, sinkUrl)),
  );
  return {
    url: server.url,
    measured: [
      { role: 'server', pid: server.pid },
      ...calling.map(({ pid }) => ({ role: 'worker', pid })),
      { role: 'redis-server', pid: redis.process.pid },
    ],
    async stop() {
      await Promise.all([server, ...calling].map((one) => one.stop()));
      await redis.stop();
    },
  };
}

export async function startOuqiang(program: string): Promise<RunningPeer> {
  const redis = await startRedis({ config: redisConfig });
  const directory = makeDirectory('ouqiang');
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const config = join(directory, 'delay-queue.conf');
  writeFileSync(config, `bind_address = 127.0.0.1:${port}\nredis.host = 127.0.0.1:${redis.port}\n`);
  const server = await ServerProcess.start({
    // It logs each push; its log costs what dq's log costs, less the disk.
    ...{ command: 'sh', args: ['-c', 'exec "$0" -c "$1" > /dev/null 2>&1', program, config] },
    ...{ port, directory, isReady: async () => (await fetch(url)).status > 0 },
  });
  return {
    url,
    measured: [
      { role: 'delay-queue', pid: server.pid },
      { role: 'redis-server', pid: redis.process.pid },
    ],
    async stop() {
      await server.stop();
      await redis.stop();
    },
  };
}
