// The probe of host names against a real name server.
import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNameProbe, type ProbeResult } from '../../src/notifier/name-probe.ts';
import { testDirectory } from '../support/directory.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { until } from '../support/until.ts';

it('probe: distinguishes answered from silent names', async () => {
  const dns = await startDnsServer((name) => {
    if (name === 'good.test') return ['127.0.0.1', '127.0.0.2'];
    if (name === 'absent.test') return 'NXDOMAIN';
    if (name === 'broken.test') return 'SERVFAIL';
    if (name === 'short') return ['127.0.0.1'];
    if (name === 'garbage.test') return 'garbage';
    return 'silence';
  });
  const probe = createNameProbe([dns.server]);
  const ask = (name: string) => new Promise<ProbeResult>((resolve) => probe.probe(name, resolve));
  // On a busy machine this process may read an answer after the deadline of its probe.
  const answered = (name: string) =>
    until(`${name} is answered`, async () => {
      const result = await ask(name);
      return result.kind === 'answered' && result;
    });
  const from = performance.now();
  const silent = Promise.all(Array.from({ length: 200 }, (_, n) => ask(`hung${n}.test`)));
  const found = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  expect(await answered('good.test')).toEqual({ kind: 'answered', addresses: found });
  expect(await answered('absent.test')).toEqual({ kind: 'answered', addresses: [] });
  expect(await answered('broken.test')).toEqual({ kind: 'answered', addresses: [] });
  expect(await ask('garbage.test')).toEqual({ kind: 'silent' });
  // The system would try its search domains first.
  expect(await answered('short')).toEqual({ kind: 'answered', addresses: [] });
  expect(new Set((await silent).map(({ kind }) => kind))).toEqual(new Set(['silent']));
  expect(performance.now() - from).toBeGreaterThanOrEqual(notifierLimits.lookupProbeMs - 1);
});

it('probe: knows the names that need no name server', () => {
  const probe = createNameProbe();
  expect(['localhost', 'LOCALHOST', 'a.localhost', hostname()].map((name) => probe.isLocal(name))).toEqual(
    Array(4).fill(true),
  );
  expect(['ocalhost', 'surely-absent.test', '0.0.1'].map((name) => probe.isLocal(name))).toEqual(
    Array(3).fill(false),
  );
});

it('probe: a name in a comment of the hosts file is not local', () => {
  const directory = testDirectory();
  const path = join(directory, 'hosts');
  writeFileSync(
    path,
    '# old.test\n#close.test\n127.0.0.1 a.test b.test#glued.test\n::1\tc.test # late.test\n10.0.0.1 d.test',
  );
  const probe = createNameProbe(undefined, path);
  const isLocal = (name: string) => probe.isLocal(name);
  expect(['a.test', 'B.test', 'c.test', 'd.test'].filter(isLocal)).toHaveLength(4);
  expect(['old.test', 'close.test', 'glued.test', 'late.test'].filter(isLocal)).toEqual([]);
});
