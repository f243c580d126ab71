// Tests how a command finds its daemon and token.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { findDaemon } from '../../src/cli/daemon/find-daemon.ts';
import type { Exit } from '../../src/cli/exit.ts';
import { writeRunRecord } from '../../src/master/data/run-record.ts';
import { testDirectory } from '../support/directory.ts';

let directory: string;
beforeEach(() => {
  directory = testDirectory();
});

/** A data directory whose daemon listens on `port`. */
function dataDir(name: string, port = 6789): string {
  const path = join(directory, name);
  mkdirSync(join(path, 'run'), { recursive: true });
  writeRunRecord(path, {
    pid: 4_000_000,
    startedAt: 1,
    url: `http://127.0.0.1:${port}`,
    file: null,
    console: null,
    compat: {},
    adminToken: `dqk_of_${name}`,
    version: '0.1.0',
  });
  return path;
}

function codeOf(action: () => unknown): number | null {
  try {
    action();
    return null;
  } catch (error) {
    return (error as Exit).exitCode;
  }
}

describe('findDaemon', () => {
  it('findDaemon: reads the run record of the given data directory', () => {
    expect(findDaemon({ dataDir: dataDir('a') }, {})).toEqual({
      url: 'http://127.0.0.1:6789',
      token: 'dqk_of_a',
      pid: 4_000_000,
    });
  });

  it('findDaemon: reads the data directory from DQ_DATA_DIR and the configuration', () => {
    expect(findDaemon({}, { DQ_DATA_DIR: dataDir('b', 1) }).url).toBe('http://127.0.0.1:1');
    expect(findDaemon({}, { DQ_DATADIR: dataDir('b', 1) }).url).toBe('http://127.0.0.1:1');
    expect(() => findDaemon({}, { DQ_DATADIR: dataDir('b', 1), DQ_DATA_DIR: dataDir('a', 3) })).toThrow(
      'DQ_DATA_DIR  dataDir: DQ_DATADIR sets another value; remove one of them',
    );
    dataDir('c', 2);
    const config = join(directory, 'dq.yaml');
    writeFileSync(config, 'dataDir: c\n');
    expect(findDaemon({ config }, {}).url).toBe('http://127.0.0.1:2');
    expect(findDaemon({}, { DQ_CONFIG: config }).url).toBe('http://127.0.0.1:2');
  });

  it('findDaemon: any flag beats the environment', () => {
    const env = { DQ_URL: 'http://10.0.0.9:6789', DQ_DATA_DIR: dataDir('b', 1) };
    expect(findDaemon({}, env).url).toBe('http://10.0.0.9:6789');
    expect(findDaemon({ dataDir: dataDir('a', 3) }, env).url).toBe('http://127.0.0.1:3');
    expect(findDaemon({ url: 'http://10.0.0.7:1/' }, env).url).toBe('http://10.0.0.7:1');
  });

  it('findDaemon: sends the token of a run record to its own daemon alone', () => {
    const env = { DQ_DATA_DIR: dataDir('a') };
    expect(findDaemon({ url: 'http://10.0.0.9:6789' }, env).token).toBeNull();
    expect(findDaemon({ url: 'http://10.0.0.9:6789', token: 'dqk_mine' }, env).token).toBe('dqk_mine');
    expect(findDaemon({}, { ...env, DQ_TOKEN: 'dqk_env' }).token).toBe('dqk_env');
  });

  it('findDaemon: exits with 3 without a daemon, 78 for the configuration, 2 for a URL', () => {
    expect(codeOf(() => findDaemon({ dataDir: directory }, {}))).toBe(3);
    const config = join(directory, 'dq.yaml');
    writeFileSync(config, 'dataDri: c\n');
    expect(codeOf(() => findDaemon({ config }, {}))).toBe(78);
    for (const url of ['6789', 'ftp://x', 'http://user:word@x'])
      expect(codeOf(() => findDaemon({ url }, {}))).toBe(2);
  });
});
