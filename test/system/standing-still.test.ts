// Tests workers that do nothing: with a blocked main loop, and stopped from outside.
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
const callerTo = (workers: ReturnType<Daemon['workers']>, sink: Sink) =>
  until('the caller is found', () => workers.find(({ pid }) => openSocketsTo(pid, sink.port)));
/** Log lines are written a moment after their event. */
const logged = (daemon: Daemon, line: string) =>
  until(line, () => daemon.log('error').some(({ message }) => message === line));
const another = (daemon: Daemon, title: string, pid: number) =>
  daemon.workers().some((worker) => worker.title === title && worker.pid !== pid);

/** For the silence of 20 ticks, and for the start of a process after it, on a busy machine. */
const replacedMs = 120_000;

describe('a worker with a blocked main loop', { timeout: 400_000 }, () => {
  it('is killed with its reason and replaced; another worker delivers its job', async () => {
    const dq = alteredDq();
    const sink = await startSink(() => {});
    dq.blockOnceReady('dq-upkeep');
    const daemon = await startDaemon({ launcher: dq.launcher });
    const upkeep = daemon.pidOf('dq-upkeep');
    await addTopic(daemon, 't', sink.url, { timeout: '60s' });
    await daemon.push('t', '{}', { id: 'a' });
    await until('the callback is running', () => sink.open().length === 1);
    const { title, pid } = await callerTo(daemon.workers(), sink);
    dq.block(title);
    await until('both are blocked', () => dq.blocked(title) && dq.blocked('dq-upkeep'));
    sink.answer((arrival) => sink.finish(arrival));
    await until('it is replaced', () => another(daemon, title, pid), replacedMs);
    await logged(daemon, `${title} (pid ${pid}) was ended by SIGKILL: has sent nothing for 20 s`);
    await until('upkeep is replaced', () => another(daemon, 'dq-upkeep', upkeep), replacedMs);
    await logged(daemon, `dq-upkeep (pid ${upkeep}) was ended by SIGKILL: has sent nothing for 20 s`);
    // The lease lasts another minute.
    await until('the job is called again', () => sink.arrivals.length === 2);
    await until('it is done', async () => (await stateOf(daemon, 'a')) === 'done');
    expect(sink.arrivals.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });
});

describe('a notifier stopped during a callback', () => {
  it('its lease expires, another delivers, and its late outcome changes nothing', async () => {
    const sink = await startSink(() => {});
    const daemon = await startDaemon({ config: { lease: { margin: '2100ms' } } });
    // Long enough to find the caller. Well below 20 s, after which the master kills a silent worker.
    await addTopic(daemon, 't', sink.url, { timeout: '8s' });
    // Before the callback, because it reads all of /proc.
    const workers = daemon.workers();
    await daemon.push('t', '{}', { id: 'a' });
    await until('the callback is running', () => sink.open().length === 1);
    const { pid } = await callerTo(workers, sink);
    process.kill(pid, 'SIGSTOP');
    sink.answer((arrival) => sink.finish(arrival));
    await until('another calls', () => sink.arrivals.length === 2);
    await until('it is done', async () => (await stateOf(daemon, 'a')) === 'done');
    process.kill(pid, 'SIGCONT');
    // The time of its call is over: it closes the connection and settles a job that it no longer holds.
    await until('it has continued', () => sink.arrivals[0]?.endedAt !== null);
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
