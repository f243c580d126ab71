// Assets serves the files of the page: a closed map that the build wrote, read into memory at the start. It
// serves nothing else, so no path of a request reaches the file system. The files hold no data and are open
// to all.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { isRead } from '../api/http/request-head.ts';

/** dist/console/manifest.json: by path of the request; `/` is the page of every other path. Names of files
 *  beside it. */
export type Manifest = Readonly<Record<string, ManifestEntry>>;
interface ManifestEntry {
  /** content type */
  readonly type: string;
  readonly file: string;
  readonly gzip?: string;
  readonly br?: string;
}

interface Asset {
  readonly type: string;
  /** by content coding; '' = none */
  readonly bodies: Readonly<Partial<Record<'' | 'gzip' | 'br', Buffer>>>;
  readonly etag: string;
  readonly cacheControl: string;
}

/** Headers of every answer: no script, frame or guess of another origin. */
const security: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** Paths of the API beside /v1. */
const api = /^\/(?:v1|openapi\.json|livez|readyz|metrics)(?:\/|$)/;
/** Paths that are a file or nothing. */
const files = /^\/(?:assets\/|manual(?:\/|$))/;
const noPage = 'The console is not part of this build of dq. Run "npm run build".\n';

export class Assets {
  /** changes with the files of the page: a page reloads itself when it differs */
  readonly build: string;
  readonly #assets: ReadonlyMap<string, Asset>;
  readonly #basePath: string;

  /** `directory`: dist/console; a missing one is a build without the page. `basePath`: '' or `/path`,
   *  which browsers put before every path. Throws for half a build. */
  constructor(directory: string, version: string, basePath = '') {
    const manifest = readManifest(directory);
    const entries = Object.entries(manifest ?? {});
    this.#basePath = basePath;
    this.#assets = new Map(
      entries.map(([path, entry]) => [path, readAsset(directory, path, entry, basePath)]),
    );
    const hash = createHash('sha256').update(version);
    for (const [path, { etag }] of this.#assets) hash.update(`${path} ${etag}`);
    this.build = hash.digest('hex').slice(0, 12);
  }

  /** Sets the headers of every answer, and answers requests for files. False = a request for the API. */
  answer(request: IncomingMessage, response: ServerResponse): boolean {
    for (const name in security) response.setHeader(name, security[name] as string);
    request.url = this.#withoutBase(request.url ?? '/');
    const path = request.url.split('?', 1)[0] ?? '/';
    if (!isRead(request.method) || api.test(path)) {
      response.setHeader('x-dq-build', this.build);
      response.setHeader('cache-control', 'no-store');
      return false;
    }
    // Its links are relative to the path without the slash.
    if (path === '/manual/') {
      response.writeHead(308, { location: '../manual', 'content-length': 0 }).end();
      return true;
    }
    // Other paths are places of the page, which names an unknown one itself.
    const isFile = files.test(path);
    const asset = this.#assets.get(path) ?? (isFile ? undefined : this.#assets.get('/'));
    if (asset === undefined) sendText(request, response, isFile ? 'No such file.\n' : noPage);
    else send(asset, request, response);
    return true;
  }

  /** A proxy may pass the path with or without the base path. */
  #withoutBase(url: string): string {
    const base = this.#basePath;
    if (base === '' || !url.startsWith(base)) return url;
    const rest = url.slice(base.length);
    return rest === '' || rest.startsWith('?') ? `/${rest}` : rest.startsWith('/') ? rest : url;
  }
}

/** null: the build has no page. */
function readManifest(directory: string): Manifest | null {
  try {
    return JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8')) as Manifest;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function readAsset(directory: string, path: string, entry: ManifestEntry, basePath: string): Asset {
  const { type, file, gzip, br } = entry;
  const read = (name: string) => readFileSync(join(directory, name));
  const whole = read(file);
  // The page names its files and the base path: written for this base, it has no compressed form.
  const isRewritten = path === '/' && basePath !== '';
  const body = isRewritten ? Buffer.from(withBase(whole.toString(), basePath)) : whole;
  const compressed = {
    ...(gzip === undefined ? {} : { gzip: read(gzip) }),
    ...(br === undefined ? {} : { br: read(br) }),
  };
  return {
    type,
    bodies: isRewritten ? { '': body } : { '': body, ...compressed },
    etag: createHash('sha256').update(body).digest('base64url').slice(0, 22),
    cacheControl: path.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
  };
}

/** `/assets/…` in attributes, and `<meta name="dq-base" content="">`. */
function withBase(html: string, basePath: string): string {
  return html
    .replaceAll('="/', `="${basePath}/`)
    .replace('name="dq-base" content=""', `name="dq-base" content="${basePath}"`);
}

function send(asset: Asset, request: IncomingMessage, response: ServerResponse): void {
  const coding = codingFor(asset, request.headers['accept-encoding']);
  const body = asset.bodies[coding] as Buffer;
  const etag = coding === '' ? `"${asset.etag}"` : `"${asset.etag}-${coding}"`;
  response.setHeader('etag', etag);
  response.setHeader('cache-control', asset.cacheControl);
  response.setHeader('vary', 'accept-encoding');
  if (request.headers['if-none-match']?.split(/\s*,\s*/).includes(etag) === true) {
    response.writeHead(304).end();
    return;
  }
  response.writeHead(200, {
    'content-type': asset.type,
    'content-length': body.length,
    ...(coding === '' ? {} : { 'content-encoding': coding }),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

function codingFor({ bodies }: Asset, accepted = ''): '' | 'gzip' | 'br' {
  const names = accepted
    .toLowerCase()
    .split(',')
    .filter((part) => !/;\s*q=0(?:\.0*)?\s*$/.test(part))
    .map((part) => part.split(';', 1)[0]?.trim());
  return (
    (['br', 'gzip'] as const).find((coding) => bodies[coding] !== undefined && names.includes(coding)) ?? ''
  );
}

function sendText(request: IncomingMessage, response: ServerResponse, text: string): void {
  response.writeHead(404, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  });
  response.end(request.method === 'HEAD' ? undefined : text);
}
