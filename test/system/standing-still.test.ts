// Workers that are there and do nothing: a main loop that never comes back, a process that was stopped from
// outside.
import { describe, expect, it } from 'vitest';
import { alteredDq } from '../support/altered-dq.ts';
import type { Daemon } from '../support/daemon.ts';
import { isAlive, openFilesOf, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { type Sink, startSink } from '../support/sink.ts';
import { openSocketsTo } from '../support/sockets.ts';
import { until } from '../support/until.ts';

const stateOf = async (daemon: Daemon, id: string) =>
  (await daemon.api('GET', `/v1/topics/t/jobs/${id}`)).body.state as string | undefined;
const callerTo = (daemon: Daemon, sink: Sink) =>
  until('the caller is found', () => daemon.workers().find(({ pid }) => openSocketsTo(pid, sink.port)));
/** The log is written a moment after the deed. */
const logged = (daemon: Daemon, line: string) =>
  until(line, () => daemon.log('error').some(({ message }) => message === line));
const another = (daemon: Daemon, title: string, pid: number) =>
  daemon.workers().some((worker) => worker.title === title && worker.pid !== pid);

describe('a worker whose main loop stands still', () => {
  it('is ended with its reason, by its watchdog or before that by the master, and replaced; its job is delivered by another', async () => {
    const dq = alteredDq();
    const sink = await startSink(() => {});
    // Before its watchdog has begun: the master has to see it.
    dq.blockOnceReady('dq-upkeep');
    const daemon = await startDaemon({ launcher: dq.launcher });
    const upkeep = daemon.pidOf('dq-upkeep');
    await addTopic(daemon, 't', sink.url, { timeout: '60s' });
    await daemon.push('t', '{}', { id: 'a' });
    await until('the callback is running', () => sink.open().length === 1);
    const { title, pid } = await callerTo(daemon, sink);
    await until('its watchdog has begun', () => dq.isWatched(pid));
    dq.block(title);
    await until('it stands', () => dq.blocked(title) && dq.blocked('dq-upkeep'));
    sink.answer((arrival) => sink.finish(arrival));
    await until('another has its place', () => another(daemon, title, pid));
    await until('its last words', () =>
      daemon.output().includes(`${title}: watchdog: the main loop stood still for 15 s; process killed`),
    );
    await logged(daemon, `${title} (pid ${pid}) was ended by SIGKILL`);
    await until('upkeep is another one', () => another(daemon, 'dq-upkeep', upkeep));
    await logged(daemon, `dq-upkeep (pid ${upkeep}) was ended by SIGKILL: has sent nothing for 20 s`);
    // The lease has a minute to run.
    await until('the job is called again', () => sink.arrivals.length === 2);
    await until('it is done', async () => (await stateOf(daemon, 'a')) === 'done');
    expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });
});

describe('a notifier that is stopped in the middle of a callback', () => {
  it('is outlived: its lease runs out, another delivers, and what it says when it goes on changes nothing', async () => {
    const sink = await startSink(() => {});
    const daemon = await startDaemon({ config: { lease: { margin: '2100ms' } } });
    await addTopic(daemon, 't', sink.url, { timeout: '5s' });
    await daemon.push('t', '{}', { id: 'a' });
    await until('the callback is running', () => sink.open().length === 1);
    const { pid } = await callerTo(daemon, sink);
    process.kill(pid, 'SIGSTOP');
    sink.answer((arrival) => sink.finish(arrival));
    await until('another calls', () => sink.arrivals.length === 2);
    await until('it is done', async () => (await stateOf(daemon, 'a')) === 'done');
    process.kill(pid, 'SIGCONT');
    // It had one call under way, whose time is over: it gives the connection up, and settles what is not
    // its own any more.
    await until('it has gone on', () => sink.arrivals[0]?.endedAt !== null);
    await until('it works again', async () => {
      const { body } = await daemon.api('GET', '/v1/processes');
      return body.processes.every((one: { inFlight: number }) => one.inFlight === 0);
    });
    expect(await stateOf(daemon, 'a')).toBe('done');
    expect(isAlive(pid)).toBe(true);
    expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(openFilesOf(pid).length).toBeGreaterThan(0);
  });
});
