// Tests the texts of hooks, and the request and the answer of each kind.
// The signatures are computed here again, as the documents of the robots describe them.
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type AlertHook, parseAlertHook } from '../../src/core/alert-receiver.ts';
import { hookAnswer, hookRequest } from '../../src/mail/hook-sender.ts';
import { texts } from '../support/words.ts';

const key = Buffer.alloc(32, 7);
const whsec = `whsec_${key.toString('base64')}`;

describe('parseAlertHook', () => {
  it.each([
    [
      'ops=slack+https://hooks.slack.com/services/T/B/x',
      'slack',
      'https://hooks.slack.com/services/T/B/x',
      '',
    ],
    ['a=dingtalk+https://h/send?access_token=t#SECab', 'dingtalk', 'https://h/send?access_token=t', 'SECab'],
    ['a.b-c_1=wecom+https://h/send?key=k', 'wecom', 'https://h/send?key=k', ''],
    ['f=feishu+http://h/hook', 'feishu', 'http://h/hook', ''],
    [`w=webhook+https://h/x?a=1,2#${whsec}`, 'webhook', 'https://h/x?a=1,2', whsec],
  ])('accepts %s', (text, kind, url, secret) => {
    expect(parseAlertHook(text)).toEqual({
      ok: true,
      value: { name: text.slice(0, text.indexOf('=')), kind, url, secret },
    });
  });

  it.each(texts`
    https://s3cret/ | ops=telegram+https://s3cret/ | Ops=slack+https://s3cret/ |
    a@b.c=slack+https://s3cret/ | ops=slack+ftp://s3cret/ | ops=slack+https://u:s3cret@h/ |
    ops=slack+https://h/s3 cret | ops=slack+https://h/#s3cret | ops=wecom+https://h/#s3cret |
    ops=webhook+https://h/s3cret | ops=webhook+https://h/#whsec_s3cret
  `)('rejects %s and repeats no secret', (text) => {
    const parsed = parseAlertHook(text);
    expect(parsed.ok).toBe(false);
    expect(JSON.stringify(parsed)).not.toContain('s3');
  });
});

const hookOf = (text: string): AlertHook => {
  const parsed = parseAlertHook(text);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.value;
};
const mail = { subject: 'dq: 1 job died', text: 'a <b> & c\n', data: { type: 'dq.dead_jobs', count: 1 } };
const nowMs = 1_700_000_000_123;

describe('hookRequest', () => {
  it('webhook: signed as callbacks; the same id for the same alerts, another for others', () => {
    const hook = hookOf(`w=webhook+https://h/x#${whsec}`);
    const { url, headers, body } = hookRequest(hook, mail, nowMs);
    expect(url).toBe('https://h/x');
    expect(JSON.parse(body)).toEqual({
      ...{ type: 'dq.dead_jobs', count: 1, subject: mail.subject, text: mail.text },
    });
    expect(headers['webhook-timestamp']).toBe('1700000000');
    const id = headers['webhook-id'] ?? '';
    const mac = createHmac('sha256', key).update(`${id}.1700000000.${body}`).digest('base64');
    expect(headers['webhook-signature']).toBe(`v1,${mac}`);
    expect(id).toMatch(/^msg_[A-Za-z0-9_-]{32}$/);
    expect(hookRequest(hook, mail, nowMs + 60_000).headers['webhook-id']).toBe(id);
    const other = { ...mail, data: { ...mail.data, count: 2 } };
    expect(hookRequest(hook, other, nowMs).headers['webhook-id']).not.toBe(id);
  });

  it('slack: one text, with & < > escaped', () => {
    const { body } = hookRequest(hookOf('s=slack+https://h/'), mail, nowMs);
    expect(JSON.parse(body)).toEqual({ text: 'dq: 1 job died\n\na &lt;b&gt; &amp; c\n' });
  });

  it('dingtalk: a text message; time and signature in the query', () => {
    const { url, body } = hookRequest(hookOf('d=dingtalk+https://h/s?access_token=t#SECx'), mail, nowMs);
    const sign = createHmac('sha256', 'SECx').update(`${nowMs}\nSECx`).digest('base64');
    expect(Object.fromEntries(new URL(url).searchParams)).toEqual({
      access_token: 't',
      timestamp: String(nowMs),
      sign,
    });
    expect(url).toContain(`sign=${encodeURIComponent(sign)}`);
    expect(JSON.parse(body)).toEqual({
      msgtype: 'text',
      text: { content: `${mail.subject}\n\n${mail.text}` },
    });
  });

  it('wecom: a text message of at most 2,048 bytes, with its start and its end', () => {
    const text = `${'失'.repeat(3_000)}\n  dq dead requeue --topic t\n`;
    const { body } = hookRequest(hookOf('w=wecom+https://h/?key=k'), { subject: 'dq: x', text }, nowMs);
    const { msgtype, text: message } = JSON.parse(body);
    expect(msgtype).toBe('text');
    expect(Buffer.byteLength(message.content)).toBeLessThanOrEqual(2_048);
    expect(message.content).toMatch(/^dq: x\n\n失+\n…\n失+\n {2}dq dead requeue --topic t\n$/);
  });

  it('feishu: a text message; time in seconds and signature in the body, without a secret neither', () => {
    const { body } = hookRequest(hookOf('f=feishu+https://h/#s3'), mail, nowMs);
    const sign = createHmac('sha256', '1700000000\ns3').digest('base64');
    const content = { text: `${mail.subject}\n\n${mail.text}` };
    expect(JSON.parse(body)).toEqual({ timestamp: '1700000000', sign, msg_type: 'text', content });
    const plain = hookRequest(hookOf('f=feishu+https://h/'), mail, nowMs);
    expect(JSON.parse(plain.body)).toEqual({ msg_type: 'text', content });
    const calling = { ...mail, text: 'reply <AT user_id="all">all</at> <atom>' };
    const said = JSON.parse(hookRequest(hookOf('f=feishu+https://h/'), calling, nowMs).body).content.text;
    expect(said).toBe(`${mail.subject}\n\nreply < AT user_id="all">all< /at> <atom>`);
  });
});

describe('hookAnswer', () => {
  it.each([
    ['webhook', 204, '', 'accepted'],
    ['webhook', 410, 'gone', 'refused'],
    ['webhook', 302, '', 'refused'],
    ['webhook', 503, '', 'deferred'],
    ['webhook', 408, '', 'deferred'],
    ['slack', 200, 'ok', 'accepted'],
    ['slack', 404, 'channel_not_found', 'refused'],
    ['slack', 429, '', 'deferred'],
    ['dingtalk', 200, '{"errcode":0,"errmsg":"ok"}', 'accepted'],
    ['dingtalk', 200, '{"errcode":310000,"errmsg":"sign not match"}', 'refused'],
    ['dingtalk', 200, '{"errcode":130101,"errmsg":"send too fast"}', 'deferred'],
    ['wecom', 200, '{"errcode":93000,"errmsg":"invalid webhook url"}', 'refused'],
    ['wecom', 200, '{"errcode":45009,"errmsg":"api freq out of limit"}', 'deferred'],
    ['wecom', 200, '<html>', 'deferred'],
    ['feishu', 200, '{"code":0,"msg":"success","data":{}}', 'accepted'],
    ['feishu', 200, '{"StatusCode":0,"StatusMessage":"success"}', 'accepted'],
    ['feishu', 200, '{"code":19021,"msg":"sign match fail"}', 'refused'],
    ['feishu', 200, '{"code":11232,"msg":"frequency limited"}', 'deferred'],
    ['feishu', 200, 'null', 'deferred'],
  ] as const)('%s %d %s is %s', (kind, status, reply, expected) => {
    expect(hookAnswer({ name: 'n', kind, url: 'http://h/', secret: '' }, status, reply).kind).toBe(expected);
  });
});
