// Queries the name servers for a name without a thread (c-ares), before the system's resolver looks the
// name up. The probe shows whether a look-up would hang. It does not replace the look-up: c-ares knows no
// nsswitch module and no search domain. Also reads the two files that the system's resolver reads first:
// hosts and resolv.conf.

import { type LookupAddress, Resolver } from 'node:dns';
import { readFileSync, statSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { clearTimeout, monotonicNow, setTimeout } from '../runtime/time.ts';
import { notifierLimits } from './limits.ts';

export type ProbeResult =
  /** A look-up by the system will not hang. `addresses`: the system would find the same; empty where that
   *  is not sure. */
  | { readonly kind: 'answered'; readonly addresses: readonly LookupAddress[] }
  /** no usable answer in time */
  | { readonly kind: 'silent' };

export interface NameProbe {
  /** Whether the system finds this name without a name server. */
  isLocal(name: string): boolean;
  /** Calls `done` once, never within this call. Returns a function that ends the probe without a result. */
  probe(name: string, done: (result: ProbeResult) => void): () => void;
}

/** `servers`: in place of those in resolv.conf, for tests. */
export function createNameProbe(servers?: readonly string[], hostsPath = '/etc/hosts'): NameProbe {
  const hosts = new WatchedFile(hostsPath);
  const resolvConf = new WatchedFile('/etc/resolv.conf');
  const own = hostname().toLowerCase();
  return {
    isLocal(name) {
      const lower = name.toLowerCase();
      return (
        lower === 'localhost' ||
        lower.endsWith('.localhost') ||
        lower === own ||
        containsWord(hosts.text(), lower)
      );
    },
    probe: (name, done) => probeOnce(name, servers, () => ndotsIn(resolvConf.text()), done),
  };
}

function probeOnce(
  name: string,
  servers: readonly string[] | undefined,
  ndots: () => number,
  done: (result: ProbeResult) => void,
): () => void {
  // One per probe: it reads the present resolv.conf, and a malformed answer ends all queries of its
  // resolver. 0.2 ms.
  const resolver = new Resolver({ timeout: notifierLimits.lookupPacketMs, tries: 2 });
  if (servers !== undefined) resolver.setServers(servers);
  const startedAt = monotonicNow();
  const addresses: LookupAddress[] = [];
  const families = hasIpv6() ? ([4, 6] as const) : ([4] as const);
  let open: number = families.length;
  let isCertain = true;
  const timer = setTimeout(() => end({ kind: 'silent' }), notifierLimits.lookupProbeMs);
  timer.unref();

  function end(result: ProbeResult | null): void {
    if (open < 0) return;
    open = -1;
    clearTimeout(timer);
    resolver.cancel();
    if (result !== null) done(result);
  }

  const take = (family: 4 | 6, error: NodeJS.ErrnoException | null, found: readonly string[]) => {
    if (open <= 0) return;
    if (error === null) addresses.push(...found.map((address) => ({ address, family })));
    else if (!isAnswer(error.code, monotonicNow() - startedAt)) isCertain = false;
    open -= 1;
    if (open > 0) return;
    const isFirstForSystem = dotsIn(name) >= ndots();
    if (isCertain) end({ kind: 'answered', addresses: isFirstForSystem ? addresses : [] });
    else end({ kind: 'silent' });
  };
  for (const family of families)
    if (family === 4) resolver.resolve4(name, (error, found) => take(4, error, found));
    else resolver.resolve6(name, (error, found) => take(6, error, found));
  return () => end(null);
}

/** A server that fails at once makes the system's look-up fail soon, too. glibc keeps waiting after a
 *  malformed answer. */
function isAnswer(code: string | undefined, tookMs: number): boolean {
  if (code === 'ENOTFOUND' || code === 'ENODATA') return true;
  return tookMs < notifierLimits.lookupSlowMs && code !== 'EBADRESP' && code !== 'ETIMEOUT';
}

function dotsIn(name: string): number {
  return name.split('.').length - 1;
}

/** The number of dots in a name below which glibc tries the search domains first. */
function ndotsIn(resolvConf: string): number {
  const options = `${resolvConf}\noptions ${process.env['RES_OPTIONS'] ?? ''}`;
  const found = [...options.matchAll(/^\s*options\b.*?\bndots:(\d+)/gm)].at(-1);
  return Math.max(1, Number(found?.[1] ?? 1));
}

/** A comment begins with `#` and ends with its line. */
function containsWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const line = text.slice(text.lastIndexOf('\n', at) + 1, at);
    const end = text[at + word.length];
    if (!line.includes('#') && isBlank(text[at - 1]) && (end === '#' || isBlank(end))) return true;
  }
  return false;
}

function isBlank(letter: string | undefined): boolean {
  return letter === undefined || letter === ' ' || letter === '\t' || letter === '\n';
}

/** On a machine without an IPv6 address, the resolver does not look up IPv6 addresses. */
function hasIpv6(): boolean {
  return Object.values(networkInterfaces()).some((list) =>
    list?.some(({ family, internal }) => family === 'IPv6' && !internal),
  );
}

/** A small text file in lower case, read again after a change; a missing file is empty. */
class WatchedFile {
  readonly #path: string;
  #text = '';
  #state = '';
  #checkAt = 0;

  constructor(path: string) {
    this.#path = path;
  }

  text(): string {
    const now = monotonicNow();
    if (now < this.#checkAt) return this.#text;
    this.#checkAt = now + notifierLimits.lookupFileMs;
    try {
      const { mtimeMs, ino, size } = statSync(this.#path);
      const state = `${mtimeMs} ${ino} ${size}`;
      if (state === this.#state) return this.#text;
      this.#text =
        size > notifierLimits.lookupFileBytesMax ? '' : readFileSync(this.#path, 'utf8').toLowerCase();
      this.#state = state;
    } catch {
      [this.#text, this.#state] = ['', ''];
    }
    return this.#text;
  }
}
