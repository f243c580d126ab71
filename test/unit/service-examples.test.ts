// The examples under scripts/ contain numbers that depend on limits of dq; both must change together.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { exitCodes } from '../../src/cli/exit.ts';
import { loadConfig } from '../../src/config/load.ts';
import { options } from '../../src/config/options.ts';
import { limits } from '../../src/core/limits.ts';
import { masterLimits } from '../../src/master/limits.ts';

const read = (path: string) => readFileSync(join(import.meta.dirname, '../../scripts', path), 'utf8');
const unit = read('systemd/dq.service');
const program = read('supervisor/dq.conf');
const numberOf = (text: string, name: string) => Number(new RegExp(`^${name}=(\\d+)$`, 'm').exec(text)?.[1]);

it('units: wait for a stop longer than dq needs at most', () => {
  // dq ends each stage by force two graces after its deadline.
  const stages = [options.shutdownTimeout.default, masterLimits.upkeepDrainMs, masterLimits.storeDrainMs];
  const longestMs = stages.reduce((sum, ms) => sum + ms + 2 * limits.drainGraceMs, 0);
  expect(numberOf(unit, 'TimeoutStopSec') * 1_000).toBeGreaterThan(longestMs);
  expect(numberOf(program, 'stopwaitsecs') * 1_000).toBeGreaterThan(longestMs);
});

it('units: restart after every failure except a wrong configuration', () => {
  const wrong = exitCodes.badConfiguration;
  expect(numberOf(unit, 'RestartPreventExitStatus')).toBe(wrong);
  expect(unit).toMatch(/^Restart=on-failure$/m);
  expect(program).toMatch(new RegExp(`^exitcodes=0,${wrong}$`, 'm'));
});

it('units: leave the paths to the configuration file, by which commands find the daemon', () => {
  for (const text of [unit, program]) {
    expect(text).toMatch(/^(ExecStart|command)=.* start -c \/etc\/dq\/dq\.yaml /m);
    expect(text).not.toMatch(/^[^#;].*--(data-dir|log-dir)/m);
    expect(text).not.toMatch(/^Environment=.*DQ_/m);
    // There a start without dataDir in the file is rejected.
    expect(text).toMatch(/^(WorkingDirectory|directory)=\/$/m);
  }
  const file = join(import.meta.dirname, '../../scripts/systemd/dq.yaml');
  const loaded = loadConfig({ flags: {}, env: {}, cwd: '/', file });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const { dataDir, logDir } = loaded.config;
  expect(`/var/lib/${/^StateDirectory=(.*)$/m.exec(unit)?.[1]}`).toBe(dataDir);
  expect(`/var/log/${/^LogsDirectory=(.*)$/m.exec(unit)?.[1]}`).toBe(logDir);
});

it('image: its variables are options, and its volume and ports are those of dq', () => {
  const file = read('image/Dockerfile');
  const env = Object.fromEntries(
    [...file.matchAll(/\b(DQ_\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  );
  const loaded = loadConfig({ flags: {}, env, cwd: '/' });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const { config, origins } = loaded;
  expect(config).toMatchObject({ dataDir: '/var/lib/dq', logDir: '-', 'server.host': '0.0.0.0' });
  expect(Object.values(origins).filter((origin) => origin !== 'default')).toHaveLength(3);
  expect(file).toContain(`VOLUME ${config.dataDir}\n`);
  expect(file).toContain(
    `EXPOSE ${config['server.port']} ${/^\d+/.exec(options['console.port'].defaultText ?? '')?.[0]}\n`,
  );
  // Inside the time that the manual gives a stop, as in the unit.
  const page = read('../src/manual/install-upgrade-uninstall.md');
  expect(Number(/--stop-timeout (\d+) /.exec(page)?.[1])).toBe(numberOf(unit, 'TimeoutStopSec'));
});

it('nginx: closes idle connections before dq does, and accepts the largest batch', () => {
  const proxy = read('nginx/dq.conf');
  const idle = Number(/keepalive_timeout (\d+)s;/.exec(proxy)?.[1]);
  expect(idle * 1_000).toBeLessThan(apiLimits.keepAliveMs);
  expect(Number(/client_max_body_size (\d+)m;/.exec(proxy)?.[1]) * 1024 * 1024).toBe(
    options['limits.batchBytes'].default,
  );
});
