// What the README tells people to type is typed here: its first three lines, its curl examples, its signature checks.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it, onTestFinished } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { startDaemon } from '../support/daemon.ts';
import { runDq, startDqSink } from '../support/run-dq.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');

/** The code blocks of one language between two markers, or after a line. */
function blocks(language: string, text: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, code]) => code ?? '',
  );
}

function between(begin: string, end: string): string {
  const from = readme.indexOf(begin);
  const to = readme.indexOf(end, from);
  if (from < 0 || to < 0) throw new Error(`README.md has lost ${begin} … ${end}`);
  return readme.slice(from, to);
}

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'dq-test-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

describe('README', { timeout: 180_000 }, () => {
  it('its first three lines bring a callback whose signature is verified', async () => {
    const lines =
      blocks('sh', between('<!-- trial:begin -->', '<!-- trial:end -->'))[0]?.trim().split('\n') ?? [];
    expect(lines).toHaveLength(3);
    const [sinkLine, ...rest] = lines.map(wordsOf) as [string[], string[], string[]];
    expect(sinkLine.pop()).toBe('&');
    const daemon = await startDaemon();
    const sink = await startDqSink(sinkLine.slice(3));
    for (const line of rest) {
      const args = line.slice(2).map((word) => word.replace('http://127.0.0.1:9000', sink.url));
      const run = await runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir } });
      expect(run.code, run.stderr).toBe(0);
    }
    const line = await until('the callback came', () => sink.stdout());
    expect(line).toMatch(
      /POST \/close {2}order\.close {2}\S+ {2}attempt 1\/10 {2}late \S+ {2}signature ok {2}\{"order":4711\}/,
    );
  });

  it('its curl examples are answered with 2xx, in their order', async () => {
    const daemon = await startDaemon();
    const receiver = await startSink();
    const script = blocks('sh', between('<!-- examples:begin -->', '<!-- examples:end -->')).join('\n');
    const mine = script
      .replace('http://127.0.0.1:6789', daemon.url)
      .replaceAll('http://127.0.0.1:9000/', receiver.url);
    // Each answer must be a 2xx; -f makes curl end with 22 for the others.
    const shell = `set -e\ncurl() { command curl -sS --fail-with-body "$@" || { echo "curl $*" >&2; exit 1; }; echo; }\n${mine}`;
    const run = spawnSync('sh', ['-c', shell], { encoding: 'utf8', timeout: 60_000 });
    expect(run.status, `${run.stderr}${run.stdout.slice(-600)}`).toBe(0);
  });

  it('names every route of the API, and no other', async () => {
    const daemon = await startDaemon();
    const { body } = await daemon.api('GET', '/openapi.json');
    const built = Object.entries(body.paths as Record<string, Record<string, unknown>>).flatMap(
      ([path, methods]) =>
        Object.keys(methods)
          .filter((method) => method !== 'head')
          .map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(routesOf(between('<!-- examples:begin -->', '<!-- examples:end -->')).sort()).toEqual(
      built.sort(),
    );
  });
});

/** `POST /v1/topics/{topic}/pause` · `/resume`: a path alone replaces the last segment of the one before it. */
function routesOf(text: string): string[] {
  const routes: string[] = [];
  for (const [, cell] of text.matchAll(/^\| (`(?:GET|POST|PUT|PATCH|DELETE) [^|]*) \|/gm)) {
    for (const [, code] of (cell ?? '').matchAll(/`([^`]+)`/g)) {
      const before = routes.at(-1) ?? '';
      routes.push(code?.startsWith('/') ? before.replace(/\/[^/]*$/, code) : (code ?? ''));
    }
  }
  return routes;
}

/** Words of a simple command line; single quotes only. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

describe('README: the signature check', { timeout: 180_000 }, () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const body = '{"order":4711,"title":"关闭"}';

  function signed(by: string, at: number, text = body) {
    return {
      id: 'msg_1',
      time: String(Math.floor(at / 1_000)),
      signature: `v1,${Buffer.alloc(32).toString('base64')} ${new Webhook(by).sign('msg_1', new Date(at), text)}`,
    };
  }
  /** Each case with what a check must say of it. */
  const cases = () => [
    { ...signed(secret, Date.now()), right: true },
    { ...signed(`whsec_${Buffer.alloc(24, 1).toString('base64')}`, Date.now()), right: false },
    { ...signed(secret, Date.now(), 'another body'), right: false },
    { ...signed(secret, Date.now()), signature: '', right: false },
  ];
  const stale = () => ({ ...signed(secret, Date.now() - 400_000), right: false });
  const code = (language: string) => {
    const [block] = blocks(language, readme);
    if (block === undefined) throw new Error(`README.md has no ${language}`);
    return block;
  };
  const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;

  it('in Node', async () => {
    const file = join(directory(), 'check.mjs');
    writeFileSync(file, code('js'));
    const { isFromDq } = (await import(file)) as {
      isFromDq: (headers: object, body: Buffer, secret: string) => boolean;
    };
    for (const { id, time, signature, right } of [...cases(), stale()]) {
      const headers = { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature };
      expect(isFromDq(headers, Buffer.from(body), secret)).toBe(right);
    }
    expect(isFromDq({}, Buffer.from(body), secret)).toBe(false);
  });

  it('in Python', ({ skip }) => {
    if (!has('python3', '--version')) skip('no Python here');
    const call =
      'import json, sys\nfor c in json.load(sys.stdin):\n  print(is_from_dq({"webhook-id": c["id"], "webhook-timestamp": c["time"], "webhook-signature": c["signature"]}, c["body"].encode(), c["secret"]))';
    const all = [...cases(), stale()];
    const input = JSON.stringify(all.map((one) => ({ ...one, body, secret })));
    const output = execFileSync('python3', ['-c', `${code('python')}\n${call}`], { input, encoding: 'utf8' });
    expect(output.trim().split('\n')).toEqual(all.map(({ right }) => (right ? 'True' : 'False')));
  });

  // An installation is given up after five minutes.
  it('in PHP', { timeout: 330_000 }, async ({ skip }) => {
    const why = await whyNotInstalled('php');
    if (why !== null) skip(why);
    const file = join(directory(), 'check.php');
    const call = `\nforeach (json_decode(file_get_contents('php://stdin'), true) as $c) { $_SERVER['HTTP_WEBHOOK_ID'] = $c['id']; $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] = $c['time']; $_SERVER['HTTP_WEBHOOK_SIGNATURE'] = $c['signature']; echo is_from_dq($c['body'], $c['secret']) ? "true\\n" : "false\\n"; }\n`;
    writeFileSync(file, code('php') + call);
    const all = [...cases(), stale()];
    const input = JSON.stringify(all.map((one) => ({ ...one, body, secret })));
    const output = execFileSync('php', [file], { input, encoding: 'utf8' });
    expect(output.trim().split('\n')).toEqual(all.map(({ right }) => String(right)));
  });

  it('in Go', ({ skip }) => {
    if (!has('go', 'version')) skip('no Go here');
    const path = directory();
    writeFileSync(join(path, 'go.mod'), 'module dq\n\ngo 1.21\n');
    writeFileSync(join(path, 'check.go'), code('go'));
    const all = [...cases(), stale()];
    const rows = all.map(
      ({ id, time, signature, right }) =>
        `{${[id, time, signature].map((text) => JSON.stringify(text)).join(', ')}, ${right}},`,
    );
    writeFileSync(
      join(path, 'check_test.go'),
      `package dq

import ("net/http"; "testing")

func TestCheck(t *testing.T) {
	for _, c := range []struct{ id, time, signature string; right bool }{${rows.join('\n')}} {
		h := http.Header{}
		h.Set("webhook-id", c.id); h.Set("webhook-timestamp", c.time); h.Set("webhook-signature", c.signature)
		if IsFromDq(h, []byte(${JSON.stringify(body)}), ${JSON.stringify(secret)}) != c.right { t.Error(c) }
	}
}
`,
    );
    execFileSync('go', ['test', './...'], { cwd: path, encoding: 'utf8' });
  });

  it('in a shell', ({ skip }) => {
    if (!has('openssl', 'version')) skip('no openssl here');
    const path = directory();
    writeFileSync(join(path, 'body.bin'), body);
    const script = blocks('sh', readme).find((block) => block.includes('openssl')) ?? '';
    // It is for looking at one by hand, so it does not judge the time.
    for (const { id, time, signature, right } of cases()) {
      const env = { ...process.env, id, time, signature, secret };
      const output = execFileSync('sh', ['-c', script], { cwd: path, env, encoding: 'utf8' });
      expect(output.trim()).toBe(right ? 'ok' : 'wrong');
    }
  });
});
