// The signals of the master before and after its workers have been started.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Signals } from '../../src/master/signals.ts';

const names = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGUSR2', 'SIGHUP', 'SIGUSR1', 'SIGPIPE'] as const;
const before = new Map(names.map((name) => [name, process.listeners(name)]));
let signals: Signals;
const handlers = { onStop: vi.fn(), onReload: vi.fn(), onReopenLogs: vi.fn() };

beforeEach(() => {
  vi.clearAllMocks();
  signals = new Signals();
});
afterEach(() => {
  for (const name of names)
    for (const listener of process.listeners(name))
      if (!before.get(name)?.includes(listener)) process.removeListener(name, listener);
});

it('signals: a stop before attach is delivered at attach, and no reload', () => {
  process.emit('SIGHUP', 'SIGHUP');
  process.emit('SIGTERM', 'SIGTERM');
  signals.attach(handlers);
  expect(handlers.onStop.mock.calls).toEqual([[1]]);
  expect(handlers.onReload).not.toHaveBeenCalled();
  process.emit('SIGINT', 'SIGINT');
  expect(handlers.onStop.mock.calls).toEqual([[1], [2]]);
});

it('signals: two stops before attach are the second stop', () => {
  process.emit('SIGTERM', 'SIGTERM');
  process.emit('SIGTERM', 'SIGTERM');
  signals.attach(handlers);
  expect(handlers.onStop.mock.calls).toEqual([[2]]);
});

it('signals: a reload and a reopen before attach are delivered once', () => {
  process.emit('SIGUSR2', 'SIGUSR2');
  process.emit('SIGHUP', 'SIGHUP');
  process.emit('SIGUSR1', 'SIGUSR1');
  signals.attach(handlers);
  expect(handlers.onReload).toHaveBeenCalledTimes(1);
  expect(handlers.onReopenLogs).toHaveBeenCalledTimes(1);
  expect(handlers.onStop).not.toHaveBeenCalled();
});
