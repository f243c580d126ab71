// Runs the examples of the README and the manual: commands against a daemon, code against signed callbacks.
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { signatureHeader } from '../../src/core/delivery.ts';
import { environment, launcher, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { removeAll } from '../support/producing.ts';
import { runDq, startDqSink } from '../support/run-dq.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const root = join(import.meta.dirname, '../..');
const manual = join(root, 'src/manual');
const pages = readdirSync(manual, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.md'),
);

/** The code blocks of one language; `marker`: only those after such a line. */
function blocks(text: string, language: string, marker = ''): string[] {
  const found = text.matchAll(new RegExp(`^${marker}\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'));
  return [...found].map(([, code]) => code ?? '');
}

/** Words of a simple command line; single quotes only. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

describe('manual', { timeout: 180_000 }, async () => {
  const daemon = await startDaemon({ scope: 'file' });
  // A page has the same commands in each language.
  const namesOf = new Map<string, string[]>();
  for (const name of pages) {
    const script = blocks(readFileSync(join(manual, name), 'utf8'), 'sh', '<!-- run -->\n').join('');
    if (script !== '') namesOf.set(script, [...(namesOf.get(script) ?? []), name]);
  }
  const scripts = [...namesOf].map(([script, names]) => [names.join(', '), script] as const);

  it('README: the lines of its trial bring a callback with a verified signature', async () => {
    const readme = readFileSync(join(root, 'README.md'), 'utf8');
    const lines =
      blocks(readme, 'sh')
        .find((block) => block.includes('dq sink'))
        ?.trim()
        .split('\n') ?? [];
    const [pathLine, sinkWords, ...rest] = lines;
    expect(pathLine).toBe('export PATH="$PWD/bin:$PATH"');
    const sinkLine = wordsOf(sinkWords ?? '');
    expect(sinkLine.pop()).toBe('&');
    expect(rest).toHaveLength(2);
    const sink = await startDqSink(sinkLine.slice(2));
    for (const line of rest) {
      const args = wordsOf(line)
        .slice(1)
        .map((word) => word.replace('http://127.0.0.1:9000', sink.url));
      const ended = await runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir } });
      expect(ended.code, ended.stderr).toBe(0);
    }
    const line = await until('the callback arrived', () => sink.stdout());
    expect(line).toMatch(
      /POST \/close {2}order\.close {2}\S+ {2}attempt 1\/10 {2}late \S+ {2}signature ok {2}\{"order":4711\}/,
    );
  });

  it.each(scripts)('%s: its commands succeed, in their order', async (_, script) => {
    await removeAll(daemon);
    const receiver = await startSink();
    const cwd = testDirectory();
    const bin = join(cwd, '.bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'dq'), `#!/bin/sh\nexec '${process.execPath}' '${launcher}' "$@"\n`);
    chmodSync(join(bin, 'dq'), 0o755);
    // curl ends with 22 for every reply that is not a 2xx, except where a block prints the status.
    const curl = `curl() { case "$*" in *http_code*) command curl "$@" ;; *) command curl -sS --fail-with-body "$@" ;; esac; }\n`;
    const mine = script
      .replaceAll('http://127.0.0.1:6789', daemon.url)
      .replaceAll('http://127.0.0.1:9000', receiver.url.replace(/\/$/, ''))
      .replaceAll('bench -d 2s', 'bench -d 200ms');
    // Rejects, with what was printed, unless the exit code is 0.
    await promisify(execFile)('bash', ['-eu', '-c', curl + mine], {
      cwd,
      env: environment({
        DQ: daemon.url,
        DQ_DATA_DIR: daemon.dataDir,
        PATH: `${bin}:${process.env['PATH']}`,
      }),
    });
  });
});

describe('signatures.md', { timeout: 180_000 }, () => {
  const page = readFileSync(join(manual, 'signatures.md'), 'utf8');
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const body = '{"order":4711,"title":"关闭"}';

  function signed(by: string, at: number, text = body) {
    return {
      id: 'msg_1',
      time: String(Math.floor(at / 1_000)),
      signature: `v1,${Buffer.alloc(32).toString('base64')} ${new Webhook(by).sign('msg_1', new Date(at), text)}`,
    };
  }
  /** Each with the expected result. */
  const cases = () => [
    { ...signed(secret, Date.now()), right: true },
    { ...signed(`whsec_${Buffer.alloc(24, 1).toString('base64')}`, Date.now()), right: false },
    { ...signed(secret, Date.now(), 'another body'), right: false },
    { ...signed(secret, Date.now()), signature: '', right: false },
    { ...signed(secret, Date.now() - 400_000), right: false },
    { ...signed(secret, Date.now()), time: 'soon', right: false },
  ];
  const code = (language: string, part = '') => {
    const block = blocks(page, language).find((one) => one.includes(part));
    if (block === undefined) throw new Error(`signatures.md has no ${language}`);
    return block;
  };
  const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;
  const input = (all: readonly object[]) => JSON.stringify(all.map((one) => ({ ...one, body, secret })));
  const expectLines = (output: string, all: readonly { readonly right: boolean }[]) =>
    expect(output.trim().toLowerCase().split('\n')).toEqual(all.map(({ right }) => String(right)));

  it('Node: its function judges right', async () => {
    const file = join(testDirectory(), 'check.mjs');
    writeFileSync(file, code('js', 'isFromDq'));
    const { isFromDq } = (await import(file)) as {
      isFromDq: (headers: object, body: Buffer, secret: string) => boolean;
    };
    for (const { id, time, signature, right } of cases()) {
      const headers = { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature };
      expect(isFromDq(headers, Buffer.from(body), secret)).toBe(right);
    }
    expect(isFromDq({}, Buffer.from(body), secret)).toBe(false);
  });

  it('libraries: the six lines judge every body, the npm library as the table says', async () => {
    const file = join(testDirectory(), 'lines.mjs');
    const lines = code('js', 'const isValid');
    expect(lines.trim().split('\n')).toHaveLength(6);
    const [first = '', ...rest] = lines.split('\n');
    writeFileSync(
      file,
      `${first}\nexport function check(headers, body, secret) {\n${rest.join('\n')}\nreturn isValid;\n}`,
    );
    const { check } = (await import(file)) as {
      check: (headers: object, body: Buffer, secret: string) => boolean;
    };
    for (const { id, time, signature, right } of cases()) {
      const headers = { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature };
      expect(check(headers, Buffer.from(body), secret)).toBe(right);
    }
    expect(check({}, Buffer.from(body), secret)).toBe(false);
    const time = Math.floor(Date.now() / 1_000);
    const library = new Webhook(secret);
    const gbk = Buffer.from([0xd6, 0xd8, 0xff]);
    for (const [bytes, plain, unparsed] of [
      [Buffer.from(body), true, true],
      [Buffer.alloc(0), true, true],
      [Buffer.from('order=1&a=b'), false, true],
      [gbk, false, false],
    ] as const) {
      const signature = signatureHeader([secret], 'msg_1', time, bytes);
      const headers = {
        'webhook-id': 'msg_1',
        'webhook-timestamp': `${time}`,
        'webhook-signature': signature,
      };
      expect(check(headers, bytes, secret)).toBe(true);
      const verifies = (options?: { jsonParse: boolean }) => () => library.verify(bytes, headers, options);
      if (plain) verifies()();
      else expect(verifies()).toThrow();
      if (unparsed) verifies({ jsonParse: false })();
      else expect(verifies({ jsonParse: false })).toThrow();
    }
  });

  it('Python: its function judges right', ({ skip }) => {
    if (!has('python3', '--version')) skip('no Python here');
    const call =
      'import json, sys\nfor c in json.load(sys.stdin):\n  print(is_from_dq({"webhook-id": c["id"], "webhook-timestamp": c["time"], "webhook-signature": c["signature"]}, c["body"].encode(), c["secret"]))';
    const all = cases();
    const script = `${code('python')}\n${call}`;
    expectLines(execFileSync('python3', ['-c', script], { input: input(all), encoding: 'utf8' }), all);
  });

  // An installation stops after five minutes.
  it('PHP: its function judges right', { timeout: 330_000 }, async ({ skip }) => {
    const why = await whyNotInstalled('php');
    if (why !== null) skip(why);
    const file = join(testDirectory(), 'check.php');
    const call = `\nforeach (json_decode(file_get_contents('php://stdin'), true) as $c) { $_SERVER['HTTP_WEBHOOK_ID'] = $c['id']; $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] = $c['time']; $_SERVER['HTTP_WEBHOOK_SIGNATURE'] = $c['signature']; echo is_from_dq($c['body'], $c['secret']) ? "true\\n" : "false\\n"; }\n`;
    writeFileSync(file, code('php') + call);
    const all = cases();
    expectLines(execFileSync('php', [file], { input: input(all), encoding: 'utf8' }), all);
  });

  it('Go: its function judges right', ({ skip }) => {
    if (!has('go', 'version')) skip('no Go here');
    const path = testDirectory();
    writeFileSync(join(path, 'go.mod'), 'module dq\n\ngo 1.21\n');
    writeFileSync(join(path, 'check.go'), code('go'));
    const rows = cases().map(
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

  it('Java: its function judges right', ({ skip }) => {
    if (!has('javac', '-version')) skip('no Java here');
    const path = testDirectory();
    const text = JSON.stringify;
    const calls = cases().map(
      ({ id, time, signature }) =>
        `System.out.println(DqSignature.isFromDq(${text(id)}, ${text(time)}, ${text(signature)}, ${text(body)}.getBytes("UTF-8"), ${text(secret)}));`,
    );
    writeFileSync(join(path, 'DqSignature.java'), code('java'));
    writeFileSync(
      join(path, 'Check.java'),
      `class Check { public static void main(String[] a) throws Exception { ${calls.join(' ')} } }`,
    );
    execFileSync('javac', ['-encoding', 'UTF-8', 'DqSignature.java', 'Check.java'], { cwd: path });
    expectLines(execFileSync('java', ['-cp', '.', 'Check'], { cwd: path, encoding: 'utf8' }), cases());
  });

  it('Ruby: its function judges right', ({ skip }) => {
    if (!has('ruby', '--version')) skip('no Ruby here');
    const call = `
require "json"
JSON.parse($stdin.read).each do |c|
  headers = { "webhook-id" => c["id"], "webhook-timestamp" => c["time"], "webhook-signature" => c["signature"] }
  puts from_dq?(headers, c["body"], c["secret"])
end`;
    const all = cases();
    expectLines(
      execFileSync('ruby', ['-e', code('ruby') + call], { input: input(all), encoding: 'utf8' }),
      all,
    );
  });

  it('shell: its function judges right', ({ skip }) => {
    if (!has('openssl', 'version')) skip('no openssl here');
    const path = testDirectory();
    writeFileSync(join(path, 'body.bin'), body);
    const script = `${code('sh', 'is_from_dq()')}\nis_from_dq "$@" && echo true || echo false`;
    for (const { id, time, signature, right } of cases()) {
      const args = ['-c', script, 'sh', id, time, signature, 'body.bin', secret];
      expect(execFileSync('sh', args, { cwd: path, encoding: 'utf8' }).trim()).toBe(String(right));
    }
  });

  it('test vector: its signature is that of the Standard Webhooks library', () => {
    const value = (name: string) => new RegExp(`^\\| ${name} \\| \`(.*)\` \\|$`, 'm').exec(page)?.[1] ?? '';
    const at = new Date(Number(value('`webhook-timestamp`')) * 1_000);
    expect(new Webhook(value('secret')).sign(value('`webhook-id`'), at, value('body'))).toBe(
      value('`webhook-signature`'),
    );
  });
});
