// Real daemon on a failing disk: COMMIT with an I/O error, a file system that becomes read-only. dq reports
// no unstored job as stored; the daemon stays, and continues when the disk works again.

import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Daemon, isAlive, startDaemon } from '../support/daemon.ts';
import { mountExt4, mountReadOnly, unmountable, unmountableExt4 } from '../support/mounted.ts';
import { addTopic, forAll, groupBy, jobsLeft, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const push = (daemon: Daemon, id: string, bytes = 200) =>
  daemon.push('t', Buffer.alloc(bytes, 97), { id }, 'text/plain');
const codeOf = ({ status, body }: Awaited<ReturnType<typeof push>>) =>
  status < 300 ? 'stored' : (body.code as string);
const pidOf = (daemon: Daemon) => daemon.workers().find(({ title }) => title === 'dq-store')?.pid;
const lines = (daemon: Daemon, kind: 'error' | 'notice', text: string) =>
  daemon.log(kind).filter(({ message }) => String(message).includes(text));

const at = (why: string | null, title: string) => (why === null ? title : `${title}: ${why}`);

it.skipIf(unmountableExt4 !== null)(
  at(unmountableExt4, 'a failing COMMIT, then a disk that cannot be written, for a while and for good'),
  async () => {
    const sink = await startSink();
    const { directory, freeze, abort } = mountExt4(32 * 1024 * 1024);
    const daemon = await startDaemon({ dataDir: join(directory, 'data') });
    await addTopic(daemon, 't', sink.url);
    await daemon.api('POST', '/v1/topics/t/pause');
    const stored = numbers(50).map((n) => `early${n}`);
    await forAll(stored, async (id) => expect(codeOf(await push(daemon, id))).toBe('stored'));
    // Deleting this job frees pages: the next push needs no more disk space.
    expect(codeOf(await push(daemon, 'large', 60_000))).toBe('stored');
    await daemon.api('DELETE', '/v1/topics/t/jobs/large');

    const pid = daemon.pidOf('dq-store');
    execFileSync('prlimit', ['--pid', String(pid), '--fsize=5000']);
    const reply = await push(daemon, 'unlucky');
    expect(reply).toMatchObject({ status: 503, body: { code: 'unknown', id: 'unlucky' } });
    const again = await until('dq-store to be restarted', () => {
      const now = pidOf(daemon);
      return now !== undefined && now !== pid ? now : null;
    });
    // The API tells callers to repeat such a push with its id.
    await until('the push to be stored', async () => codeOf(await push(daemon, 'unlucky')) === 'stored');
    expect(lines(daemon, 'error', 'can no longer trust its store').length).toBeGreaterThan(0);
    const checked = await until('the check to be logged', () => {
      const [line] = lines(daemon, 'notice', 'store: jobs.db was not closed');
      return line;
    });
    expect(checked).toMatchObject({ wasChecked: true, pid: again });

    freeze(true);
    const codes = await Promise.all(numbers(10).map(async (n) => codeOf(await push(daemon, `first${n}`))));
    for (const code of codes) expect(['unknown', 'not_stored']).toContain(code);
    await expectRefusing(daemon);
    const waits = () => lines(daemon, 'error', 'waiting for its disk').length > 0;
    await until('dq-store to wait for its disk', waits);
    const deaths = () => lines(daemon, 'error', 'dq-store (pid').length;
    const before = deaths();
    // Longer than the delays between repeated deaths would be.
    await expectRefusing(daemon);
    expect(deaths()).toBe(before);
    freeze(false);
    await until('a push to be stored', async () => codeOf(await push(daemon, 'after')) === 'stored');
    await daemon.api('POST', '/v1/topics/t/resume');
    await until('all to arrive', async () => (await jobsLeft(daemon)) === 0);
    const arrived = groupBy(sink.arrivals, ({ id }) => id);
    for (const id of [...stored, 'unlucky', 'after']) expect(arrived.get(id), id).toHaveLength(1);

    // As after a disk error.
    abort();
    await expectRefusing(daemon);
    expect(isAlive(daemon.pid)).toBe(true);
    const stopped = await runDq(['stop', '--data-dir', daemon.dataDir], { isProcess: true });
    expect(stopped).toMatchObject({ code: 0, stderr: 'dq: stopped\n' });
    expect(daemon.output()).not.toContain('ended by force');
  },
);

/** A push that is running when dq-store ends is unknown; later ones wait up to 5 s for a store. */
const expectRefusing = (daemon: Daemon) =>
  until('a push to be not_stored', async () => codeOf(await push(daemon, 'second')) === 'not_stored');

describe.skipIf(unmountable !== null)(at(unmountable, 'a read-only data directory'), () => {
  it('dq start fails with one sentence', async () => {
    const directory = mountReadOnly();
    const run = await runDq(['start', '--port', '0', '--data-dir', directory, '--log-dir', tmpdir()]);
    expect(run).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^dq: the data directory .* cannot be used: EROFS: read-only file system.*\n$/,
      ),
    });
    expect(readdirSync(directory)).toEqual([]);
  });
});
