import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exitCodes } from '../../src/cli/exit.ts';
import { askMaster } from '../../src/master/control/control-client.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { addTopic } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

type Code = keyof typeof exitCodes;
interface Case {
  readonly code: Code;
  readonly args: readonly string[];
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** in its own data directory: other commands could find a start before its rejection */
  readonly alone?: boolean;
  /** stderr matches */
  readonly says: RegExp;
}

const goodLine = '{"topic":"t","id":"x","body":1}';
const badLine = '{"topic":"absent","id":"y","body":1}';

/** With a daemon that has the topic `t`. */
const withDaemon: readonly Case[] = [
  { code: 'ok', args: ['status'], says: /: ready, up / },
  { code: 'ok', args: ['push', 't', '1', '--id', 'a'], says: /^dq: due now\n$/ },
  { code: 'failed', args: ['topic', 'add', 't', '--callback', 'http://127.0.0.1:9/'], says: /exists/ },
  {
    code: 'failed',
    args: ['start', '--port', '0'],
    says: /already running on \S+ \(pid \d+, since .*\); end it with dq stop/,
  },
  { code: 'notFound', args: ['get', 't', 'absent'], says: /^dq: / },
  { code: 'notFound', args: ['push', 'absent', '1'], says: /^dq: / },
  {
    code: 'partlyFailed',
    args: ['push', '--batch', '-'],
    input: `${goodLine}\n${badLine}\n`,
    says: /1 accepted, 1 rejected/,
  },
];

const withoutDaemon: readonly Case[] = [
  { code: 'usage', args: ['nonsense'], says: /unknown command/ },
  { code: 'usage', args: ['topic', 'nonsense'], says: /unknown command/ },
  { code: 'usage', args: ['push'], says: /name a topic before the body/ },
  { code: 'usage', args: ['push', 't', '--nonsense'], says: /unknown option/ },
  { code: 'usage', args: ['topic', 'add', 't'], says: /--callback/ },
  { code: 'usage', args: ['start', '--prot', '1'], says: /--port/ },
  { code: 'usage', args: ['push', 't', '1', '--url', 'ftp://x'], says: /invalid URL ftp:/ },
  ...[
    ...[['status'], ['stop'], ['reload'], ['restart'], ['ls'], ['fsck'], ['topic', 'ls'], ['push', 't', '1']],
    ...[
      ['get', 't', '1'],
      ['cancel', 't', '1'],
      ['dead', 'requeue', '--all'],
      ['topic', 'rm', 't', '-y'],
    ],
  ].map((args): Case => ({ code: 'notRunning', args, says: /no daemon is running on \S+\/data/ })),
  { code: 'unreachable', args: ['ls', '--url', 'http://127.0.0.1:1'], says: /does not answer/ },
  { code: 'unreachable', args: ['ls'], env: { DQ_URL: 'http://127.0.0.1:1' }, says: /does not answer/ },
  {
    code: 'storeUnreachable',
    args: ['migrate', '--mysql', 'mysql://absent@127.0.0.1:1/dq'],
    says: /127\.0\.0\.1:1/,
  },
  { code: 'usage', args: ['apply', '-f', 'absent.yaml'], says: /^dq: cannot read absent\.yaml: ENOENT/ },
  {
    code: 'badConfiguration',
    args: ['ls', '-c', 'absent.yaml'],
    env: { DQ_DATA_DIR: '' },
    says: /absent\.yaml .*; nothing was done\. .*--data-dir DIR/,
  },
  { code: 'badConfiguration', args: ['start', '--port', '70000'], says: /server\.port/ },
  {
    code: 'badConfiguration',
    args: ['start', '--host', '0.0.0.0', '--port', '0'],
    alone: true,
    says: /dq token add/,
  },
  { code: 'badConfiguration', args: ['config', 'test', '-c', 'absent.yaml'], says: /absent\.yaml/ },
];

async function expectEach(
  cases: readonly Case[],
  daemon: Pick<Daemon, 'dataDir' | 'directory'>,
): Promise<void> {
  const expectOne = async ({ code, args, input, env = {}, alone = false, says }: Case) => {
    const run = await runDq(args, {
      cwd: daemon.directory,
      env: {
        DQ_DATA_DIR: alone ? join(daemon.directory, 'alone') : daemon.dataDir,
        DQ_LOGDIR: join(daemon.directory, 'logs'),
        ...env,
      },
      ...(input === undefined ? {} : { input }),
    });
    const what = `dq ${args.join(' ')}`;
    expect(run.code, `${what}: ${run.stderr}`).toBe(exitCodes[code]);
    expect(run.stderr, what).toMatch(says);
    // A sentence, never a stack.
    expect(run.stderr, what).not.toMatch(/^ {4}at /m);
  };
  await Promise.all(cases.map(expectOne));
}

describe('exit codes', { timeout: 300_000 }, () => {
  it('0, 1, 4, 5 with a daemon; 69 while it is silent; 75 for a new start', async () => {
    const daemon = await startDaemon();
    await addTopic(daemon, 't', 'http://127.0.0.1:9/');
    await expectEach(withDaemon, daemon);
    process.kill(daemon.pid, 'SIGSTOP');
    await expectEach(
      [
        {
          code: 'unreachable',
          args: ['status'],
          says: /cannot ask the daemon on \S+: the daemon did not answer within 5 s/,
        },
      ],
      daemon,
    );
    process.kill(daemon.pid, 'SIGCONT');
    // It checks the start in a new process, drains, and ends.
    expect(await askMaster(daemon.dataDir, { cmd: 'restart' }, 120_000)).toMatchObject({
      exit: exitCodes.startAgain,
    });
    await until('it has ended', () => daemon.child.exitCode !== null);
    expect(daemon.child.exitCode).toBe(exitCodes.startAgain);
  });

  it('2, 3, 69, 75, 78: without a daemon', async () => {
    const directory = testDirectory();
    await expectEach(withoutDaemon, { directory, dataDir: join(directory, 'data') });
  });

  it('are all in the tables above (70 in crash-loop.test.ts, 4 of a start that is not ready in start.test.ts)', () => {
    const shown = new Set<Code>([...withDaemon, ...withoutDaemon].map(({ code }) => code));
    const elsewhere: readonly Code[] = ['startAgain', 'crashLoop', 'notReady'];
    expect([...shown, ...elsewhere].sort()).toEqual(Object.keys(exitCodes).sort());
  });
});
