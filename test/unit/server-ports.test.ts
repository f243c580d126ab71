// Tests which port the servers of a daemon have with `--port 0`, and the answers of dq-store to a move, over
// a master whose forks are scripted.
import { expect, it } from 'vitest';
import { scriptedMaster } from '../support/scripted-master.ts';
import { until } from '../support/until.ts';

function started() {
  const { master, forked } = scriptedMaster({ 'server.workers': 2, 'console.enabled': false });
  return { master, forked, servers: () => forked.filter(({ title }) => title.startsWith('dq-server')) };
}

it('a server that got another port than the one that clients know is killed; the next one asks for it', async () => {
  const { master, forked, servers } = started();
  const [store] = forked;
  if (store === undefined) throw new Error('no dq-store');
  store.ready(null);
  const [one, other] = servers();
  if (one === undefined || other === undefined) throw new Error('two servers');
  one.ready(4_001);
  one.onExit(null, 'SIGKILL');
  other.ready(4_002);
  expect(other.wasKilled).toBe(true);
  const [, , ...next] = await until('their successors', () => (servers().length === 4 ? servers() : null));
  expect(next.map(({ init }) => init.port)).toEqual([4_001, 4_001]);
  for (const server of next) server.ready(4_001);
  expect(next.map(({ wasKilled }) => wasKilled)).toEqual([false, false]);
  expect(master.url).toBe('http://127.0.0.1:4001');
});

it('dq-store answers a move too late: it is not the answer to the next question', async () => {
  const { master, forked } = started();
  const [store] = forked;
  if (store === undefined) throw new Error('no dq-store');
  store.ready(null);
  const copy = master.moveRegistry('mysql://db/dq', 'copy');
  const undo = master.moveRegistry('mysql://db/dq', 'undo');
  const [first, second] = await until('both questions', () => {
    const calls = store.sent.flatMap((message) => (message.kind === 'move_registry' ? [message.call] : []));
    return calls.length === 2 ? calls : null;
  });
  if (first === undefined || second === undefined) throw new Error('two calls');
  const answer = (call: number, why: string | null) =>
    store.onMessage({ kind: 'registry_moved', call, why, isInForce: false });
  answer(first, 'the copy failed');
  answer(second, null);
  expect(await undo).toMatchObject({ why: null });
  expect(await copy).toMatchObject({ why: 'the copy failed' });
});
