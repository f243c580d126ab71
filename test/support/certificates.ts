// Makes certificates for one test with openssl: an authority, and valid and invalid certificates of it.
// Removed with the test.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './sqlite-store.ts';
import { hungMs } from './until.ts';

export interface Certificate {
  readonly cert: string;
  readonly key: string;
  /** the same as PEM files, with that of the authority */
  readonly files: { readonly cert: string; readonly key: string; readonly authority: string };
}

export interface Authority {
  /** path of its own certificate, for NODE_EXTRA_CA_CERTS */
  readonly path: string;
  /** For `hosts` such as `DNS:localhost,IP:127.0.0.1`; negative `days`: an expired one. */
  sign(hosts: string, days?: number): Certificate;
}

/** The reason why this machine cannot make certificates, for a skipped test, or null. */
export const noCertificates: string | null = (() => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore', timeout: hungMs });
    return null;
  } catch {
    return 'no openssl here to make certificates with';
  }
})();

/** `atEnd`: afterAll for a call at the top of a file */
export function createAuthority(atEnd: (end: () => void) => void = onTestFinished): Authority {
  const directory = temporaryDirectory();
  atEnd(directory.remove);
  const at = (name: string) => join(directory.path, name);
  const openssl = (...args: string[]) =>
    void execFileSync('openssl', args, { stdio: 'pipe', timeout: hungMs });
  const newKey = (file: string) =>
    ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', at(file)] as const;
  openssl(
    'req',
    '-x509',
    ...newKey('ca.key'),
    '-out',
    at('ca.pem'),
    '-subj',
    '/CN=trial authority',
    '-days',
    '2',
  );
  let made = 0;
  return {
    path: at('ca.pem'),
    sign(hosts, days = 1) {
      const name = `leaf${made++}`;
      writeFileSync(at(`${name}.ext`), `subjectAltName=${hosts}\n`);
      openssl('req', ...newKey(`${name}.key`), '-out', at(`${name}.csr`), '-subj', `/CN=${name}`);
      openssl(
        ...['x509', '-req', '-in', at(`${name}.csr`), '-CA', at('ca.pem'), '-CAkey', at('ca.key')],
        ...[
          '-CAcreateserial',
          '-days',
          String(days),
          '-extfile',
          at(`${name}.ext`),
          '-out',
          at(`${name}.pem`),
        ],
      );
      const files = { cert: at(`${name}.pem`), key: at(`${name}.key`), authority: at('ca.pem') };
      return { cert: readFileSync(files.cert, 'utf8'), key: readFileSync(files.key, 'utf8'), files };
    },
  };
}
