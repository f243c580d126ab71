// Checks the file of NODE_EXTRA_CA_CERTS, with the authorities that every process of dq trusts beside the
// usual ones. Node reads it once at the start of a process. Of a file that it cannot read it only prints a
// warning, and each call to a receiver of such an authority fails.

import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { runtimeLimits } from './limits.ts';

const variable = 'NODE_EXTRA_CA_CERTS';
/** Node skips a `TRUSTED CERTIFICATE`, without a warning. */
const beginning = /(?=-----BEGIN (?:X509 )?CERTIFICATE-----)/;

type ExtraAuthorities =
  /** not set */
  | null
  | { readonly file: string; readonly certificates: number }
  /** one sentence with the remedy */
  | { readonly file: string; readonly fault: string };

/** What a process that starts now with this environment reads. */
export function readExtraAuthorities(env: NodeJS.ProcessEnv = process.env): ExtraAuthorities {
  const file = env[variable];
  if (file === undefined || file === '') return null;
  const fault = (what: string) => ({
    file,
    fault: `${variable}: ${what}; calls to servers of its authorities fail as tls: correct the file, then dq restart`,
  });
  try {
    const stat = statSync(file);
    if (!stat.isFile()) return fault(`${file} is not a file`);
    if (stat.size > runtimeLimits.authoritiesBytesMax) return fault(`${file} is too large`);
    // Before the first one there may be other text. A block that is cut off has no end.
    const blocks = readFileSync(file, 'latin1')
      .split(beginning)
      .filter((piece) => piece.search(beginning) === 0);
    if (blocks.length === 0) return fault(`${file} has no certificate (PEM)`);
    for (const [n, block] of blocks.entries())
      if (!isValid(block)) return fault(`certificate ${n + 1} of ${file} is invalid`);
    return { file, certificates: blocks.length };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return fault(`cannot read ${file} (${code ?? message})`);
  }
}

function isValid(block: string): boolean {
  try {
    return new X509Certificate(block).fingerprint !== '';
  } catch {
    return false;
  }
}
