// Tests what the master does with `dq move` where it can never start again.
import { expect, it } from 'vitest';
import { ControlCommands } from '../../src/master/control/control-commands.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { defaultConfig } from '../role/rig.ts';

const refused = 'it runs in the foreground of a terminal';

it.each([
  ['registry.db is in force: nothing is copied', '', { refused }, []],
  ['MySQL is in force: the copy needs no restart', 'mysql://db/dq', { ends: false }, ['copy']],
])('%s', async (_, url, outcome, steps) => {
  const asked: string[] = [];
  const supervisor = {
    state: 'ready',
    async moveRegistry(_url: string, step: string) {
      asked.push(step);
      return { why: null, isInForce: url !== '' };
    },
  };
  const config = { ...defaultConfig, dataDir: '/data', 'mysql.url': url };
  const commands = new ControlCommands({
    supervisor: supervisor as never,
    data: { path: '/data' } as never,
    log: silentLog as never,
    config: () => config,
    whyNeverRestart: () => refused,
    whyNotRestart: async () => refused,
    previewConfig: () => ({ ok: true, config, origins: {}, file: null }) as never,
    whyRestart: () => null,
  });
  expect(await commands.move()).toEqual(outcome);
  expect(asked).toEqual(steps);
});
