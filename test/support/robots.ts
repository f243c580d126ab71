// Receivers of alerts that check a message as the document of each robot says, and reply as the robot does:
// dingtalk, wecom and feishu reply to a rejection with the status 200 and a code.
import { createHmac } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { type Arrival, type Sink, startSink } from './sink.ts';

export const robotKinds = ['webhook', 'slack', 'dingtalk', 'wecom', 'feishu'] as const;
export type RobotKind = (typeof robotKinds)[number];

/** The secret parts of the hooks, which no log and no reply may contain. */
export const robotSecrets = {
  ...{ webhook: `whsec_${Buffer.from('a key of the webhook, 32 bytes..').toString('base64')}` },
  ...{ slack: 'T0SLACKTEAM/B0SLACKHOOK/sLaCkToKeN0123456789', dingtalk: 'dingtalkaccesstoken0123456789' },
  ...{ dingtalkSign: 'SECdingtalksigningsecret', wecom: '693a91f6-7a0c-4bc4-97a0-0ec2sifa5aaa' },
  ...{ feishu: 'f1e15b00-feed-4bc4-97a0-0ec2sifa5aaa', feishuSign: 'feishusigningsecret01' },
} as const;

export interface Robots {
  readonly sink: Sink;
  /** values of alerts.hooks; the name of each is its kind */
  readonly hooks: readonly string[];
  /** texts of accepted messages */
  readonly accepted: Readonly<Record<RobotKind, readonly string[]>>;
  /** what the documents forbid, one sentence each */
  readonly rejected: readonly string[];
  requests(kind: RobotKind): number;
  /** Sends this reply instead, also for correct messages; null: as the documents say. */
  reply(kind: RobotKind, reply: Reply | null): void;
}

export type Reply = readonly [status: number, body: string];

const paths: Readonly<Record<RobotKind, string>> = {
  webhook: '/hook',
  slack: `/services/${robotSecrets.slack}`,
  dingtalk: `/robot/send?access_token=${robotSecrets.dingtalk}`,
  wecom: `/cgi-bin/webhook/send?key=${robotSecrets.wecom}`,
  feishu: `/open-apis/bot/v2/hook/${robotSecrets.feishu}`,
};
const signs: Partial<Record<RobotKind, string>> = {
  webhook: robotSecrets.webhook,
  dingtalk: robotSecrets.dingtalkSign,
  feishu: robotSecrets.feishuSign,
};

class Rejection extends Error {
  readonly reply: Reply;

  constructor(message: string, reply: Reply) {
    super(message);
    this.reply = reply;
  }
}

const hourMs = 3_600_000;

/** Returns the text of the message; throws a Rejection. */
const judges: Readonly<Record<RobotKind, (arrival: Arrival, json: Record<string, unknown>) => string>> = {
  webhook({ body, headers }, json) {
    new Webhook(robotSecrets.webhook).verify(body, headers as Record<string, string>);
    if (!/^dq\.(dead_jobs|incident|test)$/.test(String(json['type']))) throw new Rejection('type', [400, '']);
    return String(json['text']);
  },
  slack(_, json) {
    const { text, ...rest } = json;
    const wrong = (why: string, code: string) => new Rejection(`slack: ${why}`, [400, code]);
    if (typeof text !== 'string' || text === '') throw wrong('no text', 'no_text');
    if (Object.keys(rest).length > 0) throw wrong('unknown members', 'invalid_payload');
    // Above it slack cuts the text; a bare < begins a link or a mention.
    if ([...text].length > 40_000) throw wrong('text of more than 40,000 characters', 'msg_too_long');
    if (/[<>]|&(?!(?:amp|lt|gt);)/.test(text)) throw wrong('unescaped & < >', 'invalid_payload');
    return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
  },
  dingtalk({ path, body }, json) {
    const wrong = (why: string, errcode = 40_035) =>
      new Rejection(`dingtalk: ${why}`, [200, JSON.stringify({ errcode, errmsg: why })]);
    const query = new URL(path, 'http://h').searchParams;
    const timestamp = query.get('timestamp') ?? '';
    const mac = createHmac('sha256', robotSecrets.dingtalkSign);
    const sign = mac.update(`${timestamp}\n${robotSecrets.dingtalkSign}`).digest('base64');
    if (query.get('sign') !== sign) throw wrong('sign not match', 310_000);
    if (!(Math.abs(Date.now() - Number(timestamp)) < hourMs)) throw wrong('invalid timestamp', 310_000);
    if (body.length > 20_000) throw wrong('a body of more than 20,000 bytes');
    return textOf(json, 'msgtype', 'text', 'content', wrong);
  },
  wecom(_, json) {
    const wrong = (why: string, errcode = 40_008) =>
      new Rejection(`wecom: ${why}`, [200, JSON.stringify({ errcode, errmsg: why })]);
    const content = textOf(json, 'msgtype', 'text', 'content', wrong);
    if (Buffer.byteLength(content) > 2_048) throw wrong('content of more than 2,048 bytes');
    return content;
  },
  feishu({ body }, json) {
    const wrong = (why: string, code = 9_499) =>
      new Rejection(`feishu: ${why}`, [200, JSON.stringify({ code, msg: why, data: {} })]);
    const { timestamp, sign, ...message } = json;
    const expected = createHmac('sha256', `${timestamp}\n${robotSecrets.feishuSign}`).digest('base64');
    if (typeof timestamp !== 'string' || sign !== expected) throw wrong('sign match fail', 19_021);
    if (!(Math.abs(Date.now() - 1_000 * Number(timestamp)) < hourMs)) throw wrong('timestamp', 19_021);
    if (body.length > 20_000) throw wrong('a body of more than 20 KB');
    return textOf(message, 'msg_type', 'content', 'text', wrong);
  },
};

/** A text message: its type, the member that holds it, and the text in there; no other member. */
function textOf(
  json: Record<string, unknown>,
  type: string,
  member: string,
  inner: string,
  wrong: (why: string) => Rejection,
): string {
  const { [type]: kind, [member]: held, ...rest } = json;
  if (kind !== 'text') throw wrong(`${type} is not text`);
  if (typeof held !== 'object' || held === null) throw wrong(`${member} is missing`);
  const { [inner]: text, ...others } = held as Record<string, unknown>;
  if (typeof text !== 'string' || text.trim() === '') throw wrong(`${member}.${inner} is empty`);
  if (Object.keys({ ...rest, ...others }).length > 0) throw wrong('unknown members');
  return text;
}

const success: Readonly<Record<RobotKind, Reply>> = {
  webhook: [204, ''],
  slack: [200, 'ok'],
  dingtalk: [200, '{"errcode":0,"errmsg":"ok"}'],
  wecom: [200, '{"errcode":0,"errmsg":"ok"}'],
  feishu: [200, '{"code":0,"msg":"success","data":{}}'],
};

export async function startRobots(): Promise<Robots> {
  const accepted: Record<RobotKind, string[]> = {
    ...{ webhook: [], slack: [], dingtalk: [], wecom: [], feishu: [] },
  };
  const rejected: string[] = [];
  const replies = new Map<RobotKind, Reply>();
  const judge = (arrival: Arrival): Reply => {
    const kind = robotKinds.find((one) => arrival.path.startsWith(paths[one]));
    if (kind === undefined) return [404, 'no such robot'];
    try {
      const type = String(arrival.headers['content-type']);
      if (!/^application\/json; ?charset=utf-8$/i.test(type)) throw new Rejection(type, [415, '']);
      const text = judges[kind](arrival, JSON.parse(String(arrival.body)) as Record<string, unknown>);
      const reply = replies.get(kind);
      if (reply !== undefined) return reply;
      accepted[kind].push(text);
      return success[kind];
    } catch (error) {
      rejected.push(`${kind}: ${String(error)}`);
      return error instanceof Rejection ? error.reply : [400, String(error)];
    }
  };
  const sink = await startSink((arrival: Arrival, response: ServerResponse) => {
    const [code, body] = judge(arrival);
    response.writeHead(code).end(body);
  });
  const hooks = robotKinds.map((kind) => {
    const sign = signs[kind];
    const end = sign === undefined ? '' : `#${sign}`;
    return `${kind}=${kind}+${sink.url.slice(0, -1)}${paths[kind]}${end}`;
  });
  return {
    ...{ sink, hooks, accepted, rejected },
    requests: (kind) => sink.arrivals.filter(({ path }) => path.startsWith(paths[kind])).length,
    reply(kind, reply) {
      if (reply === null) replies.delete(kind);
      else replies.set(kind, reply);
    },
  };
}
