// Makes requests for the fuzzer from the daemon's own description: valid ones, valid ones with odd values,
// damaged bytes. Sends nothing. Topics that they create have callbacks to ports of this machine without a
// listener.

import { words } from '../../test/support/words.ts';
import type { Dice } from '../dice.ts';

export interface Description {
  readonly components: { readonly schemas: Readonly<Record<string, { readonly properties?: object }>> };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: {
    readonly content: Readonly<
      Record<string, { readonly schema: { readonly $ref?: string; readonly properties?: object } }>
    >;
  };
}

interface Route {
  readonly method: string;
  readonly template: string;
  readonly query: readonly string[];
  /** null = takes no body, or any bytes */
  readonly members: readonly string[] | null;
  readonly takesBody: boolean;
}

const names = ['t', 'u', 'v', 'none', '-', '__proto__', 'constructor', 'x'.repeat(128), 'x'.repeat(129)];
const ids = ['a', 'b', 'c', '订单', '%2F', '%00', '.', '..', '__proto__', 'é'.repeat(128), 'y'.repeat(300)];
const plain: Readonly<Record<string, readonly string[]>> = {
  delay: ['0', '1s', '1h', '3650d', 'PT5M', '2 hours', '-1', '1e3', '99999999999999999999', '30', '1M'],
  at: ['2030-01-01T00:00:00Z', '2001-01-01T00:00:00+08:00', '1900000000000', '5', '2030-02-30T00:00:00Z'],
  mode: ['replace', 'keep', 'reject', 'REPLACE'],
  limit: ['1', '1000', '0', '1001', '1e1'],
  cursor: ['dA', '1.1', '0', '9'.repeat(40)],
  state: ['delayed', 'ready', 'reserved', 'dead', 'done', 'cancelled'],
  ids: ['["a"]', '["a","b"]', '[]', '[1]', '{"a":1}'],
  all: ['true', 'false'],
  jobs: ['purge'],
  topic: names,
  id: ids,
  since: ['2001-01-01T00:00:00Z', '2040-01-01T00:00:00Z'],
  until: ['2001-01-01T00:00:00Z', '2040-01-01T00:00:00Z'],
};
const odd = ['', ...words`% %zz %ff %c0%80 +`, ' ', '\0', ...words`%00 [] {} null é # & = ' %2e%2e`];

/** Good values of JSON members. Random rules, addresses and limits are wrong often enough. */
const values: Readonly<Record<string, readonly string[]>> = {
  topic: ['"t"', '"u"', '"v"'],
  callbackUrl: ['"http://127.0.0.1:1/"', '"http://127.0.0.1:1/x?y=z"', '"ftp://x"', '"http://"'],
  retryIf: ['"{res.code}!=200"', '"{"', '"{res.a.b.c}==={status}"', '"((((((1))))))"'],
  rule: ['"{res.code}!=200"', '"!!!!{status}"', '"\'"'],
  body: ['"{}"', '"{\\"code\\":500}"', '5', '{"a":[1]}', '""'],
  delay: ['0', '"1s"', '"1h"', '"30 min"', '"PT5M"', '1000', '"30"', '-1'],
  timeout: ['"3s"', '"100ms"', '"1 s"', '1'],
  backoff: ['"2n+1"', '["1s"]', '[]', '{"type":"exponential","base":"1s","factor":2,"cap":"1h"}'],
  headers: ['{}', '{"x-a":"b"}', '{"host":"x"}', '{"__proto__":"x"}'],
  okStatus: ['["2xx"]', '["3xx"]', '[[[]]]'],
  state: ['"active"', '"paused"', '"offline"'],
  all: ['true'],
  ids: ['["a"]', '[""]'],
  since: ['"2001-01-01T00:00:00Z"', '5'],
  until: ['"2040-01-01T00:00:00Z"', 'null'],
  maxAttempts: ['1', '100', '0'],
  status: ['200', '500', '1e3'],
  to: ['"a@b.c"', '"a"'],
};
const needed = ['topic', 'callbackUrl', 'body', 'rule', 'to'];
const oddValues = words`null true 0 -1 1e999 9007199254740993 "" "\ud800" "\u0000" [] {} [[]] {"__proto__":1}`;

export class RequestMaker {
  readonly #dice: Dice;
  readonly #routes: readonly Route[];
  readonly #push: Route | undefined;

  constructor(description: Description, dice: Dice) {
    this.#dice = dice;
    this.#routes = Object.entries(description.paths).flatMap(([template, operations]) =>
      Object.entries(operations).map(([method, { parameters = [], requestBody }]) => {
        const schema = requestBody?.content['application/json']?.schema;
        const named = schema?.$ref?.split('/').at(-1);
        const { properties } = (named === undefined ? schema : description.components.schemas[named]) ?? {};
        return {
          method: method.toUpperCase(),
          template,
          query: parameters.filter((one) => one.in === 'query').map(({ name }) => name),
          members: properties === undefined ? null : Object.keys(properties),
          takesBody: requestBody !== undefined,
        };
      }),
    );
    this.#push = this.#routes.find(
      ({ method, template }) => method === 'POST' && template === '/v1/topics/{topic}/jobs',
    );
  }

  /** Requests of one connection: usually one, sometimes several in a row, sometimes no HTTP at all. Half of
   *  the connections begin with a request after which node:http reads them, also plain pushes. */
  make(): Buffer {
    const dice = this.#dice;
    if (dice.chance(0.03)) return this.#noise();
    const count = dice.chance(0.2) ? 2 + dice.below(4) : 1;
    // A request that ends the connection is not plain.
    const ends = dice.chance(0.5);
    const requests = Array.from({ length: count }, (_, n) => this.#request(!ends && n === count - 1));
    if (ends) requests.push(look('connection: close\r\n'));
    const bytes = Buffer.concat(requests);
    const sent = dice.chance(0.25) ? this.#damage(bytes) : bytes;
    return dice.chance(0.5) ? Buffer.concat([look(''), sent]) : sent;
  }

  #request(last: boolean): Buffer {
    const dice = this.#dice;
    const route = this.#route();
    const body = route.takesBody || dice.chance(0.05) ? this.#body(route) : Buffer.alloc(0);
    const headers = [
      `host: ${dice.chance(0.97) ? '127.0.0.1' : dice.pick(['evil.org', '', 'a, b', '[::1]'])}`,
    ];
    if (body.length > 0) headers.push(`content-type: ${this.#contentType(route)}`);
    const chunked = body.length > 0 && dice.chance(0.1);
    if (chunked) headers.push('transfer-encoding: chunked');
    else
      headers.push(
        `content-length: ${dice.chance(0.98) ? body.length : dice.pick([0, 1, -1, body.length + 5])}`,
      );
    if (dice.chance(0.05)) headers.push(this.#oddHeader());
    if (last) headers.push('connection: close');
    const method = dice.chance(0.97) ? route.method : dice.pick(['OPTIONS', 'TRACE', 'PURGE', 'get', 'X']);
    const head = `${method} ${this.#target(route)} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`;
    return Buffer.concat([Buffer.from(head), chunked ? this.#chunks(body) : body]);
  }

  #route(): Route {
    // The busiest route; of a hundred equal ones it would get too little.
    if (this.#push !== undefined && this.#dice.chance(0.1)) return this.#push;
    for (;;) {
      const route = this.#dice.pick(this.#routes);
      // Without the first token every further request would get a 401.
      if (route.method === 'POST' && route.template === '/v1/tokens') continue;
      // Replaces every process: the test would take that for deaths.
      if (route.method === 'POST' && route.template === '/v1/reload') continue;
      // Removing a topic waits two seconds, and further requests would find no topic.
      const removes = route.method === 'DELETE' && route.template === '/v1/topics/{topic}';
      if (!removes || this.#dice.chance(0.05)) return route;
    }
  }

  #target(route: Route): string {
    const dice = this.#dice;
    const path = route.template.replace(/\{(\w+)\}/g, (_, name: string) => {
      if (dice.chance(0.05)) return dice.pick(odd);
      const good = name === 'id' ? ids : names;
      return encodeURI(dice.chance(0.85) ? dice.pick(good.slice(0, 3)) : dice.pick(good));
    });
    const pieces: string[] = [];
    for (const name of [...route.query, 'nope', '__proto__']) {
      if (!dice.chance(name === 'nope' || name === '__proto__' ? 0.02 : 0.25)) continue;
      const good = plain[name] ?? odd;
      const value = dice.chance(0.5) ? (good[0] ?? '') : dice.pick(good);
      pieces.push(`${name}=${dice.chance(0.9) ? encodeURIComponent(value) : dice.pick(odd)}`);
      if (dice.chance(0.03)) pieces.push(`${name}=1`);
    }
    return pieces.length === 0 ? path : `${path}?${pieces.join('&')}`;
  }

  #contentType(route: Route): string {
    const dice = this.#dice;
    if (route.template === '/v1/jobs' && dice.chance(0.5)) return 'application/x-ndjson';
    return dice.chance(0.9)
      ? 'application/json'
      : dice.pick(['text/plain', 'a', 'application/json;x', 'é/x', '']);
  }

  #body(route: Route): Buffer {
    const dice = this.#dice;
    if (dice.chance(0.05)) return this.#junk();
    if (route.template === '/v1/jobs') return this.#batch();
    if (route.members === null) return Buffer.from(dice.chance(0.7) ? this.#json(3) : 'plain');
    return Buffer.from(this.#object(route.members, dice.pick([0, 0.05, 0.2, 0.9])));
  }

  #batch(): Buffer {
    const dice = this.#dice;
    const many = dice.chance(0.05) ? 1_001 : dice.below(40);
    const members = ['topic', 'id', 'delay', 'mode', 'body', 'contentType'];
    const items = Array.from({ length: many }, () =>
      dice.chance(0.8) ? this.#object(members, 0.3) : this.#json(2),
    );
    return Buffer.from(dice.chance(0.5) ? `[${items.join(',')}]` : items.join('\n'));
  }

  /** `share` is higher for members that every body needs. */
  #object(members: readonly string[], share: number): string {
    const dice = this.#dice;
    const pairs = members
      .filter((name) => dice.chance(needed.includes(name) ? 0.95 : share))
      .map((name) => `"${name}":${this.#value(name)}`);
    if (dice.chance(0.05))
      pairs.push(`"${dice.pick(['__proto__', 'constructor', 'nope'])}":${this.#json(2)}`);
    return `{${pairs.join(',')}}`;
  }

  #value(name: string): string {
    const dice = this.#dice;
    const good = values[name] ?? oddValues;
    if (dice.chance(0.03)) return dice.pick(oddValues);
    return dice.chance(0.6) ? (good[0] ?? '0') : dice.pick(good);
  }

  #json(depth: number): string {
    const dice = this.#dice;
    if (depth === 0 || dice.chance(0.3)) return dice.pick(oddValues);
    const inner = Array.from({ length: dice.below(4) }, () => this.#json(depth - 1));
    return dice.chance(0.5)
      ? `[${inner.join(',')}]`
      : `{${inner.map((text, n) => `"k${n}":${text}`).join(',')}}`;
  }

  #junk(): Buffer {
    const dice = this.#dice;
    const deep = 1_000 + dice.below(50_000);
    const texts = [
      '['.repeat(deep),
      `${'['.repeat(deep)}${']'.repeat(deep)}`,
      `${'{"a":'.repeat(deep)}1${'}'.repeat(deep)}`,
      `"${'x'.repeat(dice.below(400_000))}"`,
      `{"${'x'.repeat(10_000)}":1}`,
      `[${'1,'.repeat(50_000)}1]`,
    ];
    return dice.chance(0.3) ? bytesOf(dice, dice.below(2_000)) : Buffer.from(dice.pick(texts));
  }

  #oddHeader(): string {
    return this.#dice.pick([
      ...['origin: http://x', 'expect: 100-continue', 'expect: x', 'upgrade: h2c', 'content-encoding: gzip'],
      ...[
        'authorization: Bearer x',
        'authorization: ',
        'transfer-encoding: gzip',
        'x: \0',
        'x: é',
        ': y',
        'x',
      ],
      ...['host: b', 'content-length: 3', `x: ${'y'.repeat(17_000)}`, 'a:b\r\n'.repeat(500).trimEnd()],
    ]);
  }

  #chunks(body: Buffer): Buffer {
    const size = 1 + this.#dice.below(5_000);
    const pieces: Buffer[] = [];
    for (let at = 0; at < body.length; at += size) {
      const piece = body.subarray(at, at + size);
      pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
    }
    return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
  }

  #damage(bytes: Buffer): Buffer {
    const dice = this.#dice;
    const at = dice.below(Math.min(bytes.length, 2_000) + 1);
    switch (dice.below(4)) {
      case 0:
        return bytes.subarray(0, at);
      case 1:
        return Buffer.concat([bytes.subarray(0, at), bytesOf(dice, 1 + dice.below(8)), bytes.subarray(at)]);
      case 2:
        return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + dice.below(8))]);
      default: {
        const copy = Buffer.from(bytes);
        for (let n = 1 + dice.below(5); n > 0; n--)
          copy[dice.below(Math.max(copy.length, 1))] = dice.below(256);
        return copy;
      }
    }
  }

  #noise(): Buffer {
    return bytesOf(this.#dice, 1 + this.#dice.below(3_000));
  }
}

const look = (headers: string): Buffer =>
  Buffer.from(`GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}\r\n`);

function bytesOf(dice: Dice, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => dice.below(256)));
}
