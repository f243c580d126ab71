// Receivers of alerts. A mail address is one addr-spec of plain ASCII without blanks, commas, angle brackets,
// quotes or line breaks: nothing in it can end an SMTP command or a header.
// A hook is a named HTTP receiver: a webhook, or the robot of a chat. Its text is
// NAME=KIND+URL[#SECRET]; topics, logs and replies use its name alone, because the URL holds a credential.

import { type Parsed, wrong } from './duration.ts';
import { parseSecret } from './topic/secrets.ts';

/** Said wherever alerts cannot go out by mail. */
export const noMail = 'smtp.url is not set, so no mail goes out';

const hookKinds = ['webhook', 'slack', 'dingtalk', 'wecom', 'feishu'] as const;

export interface AlertHook {
  readonly name: string;
  readonly kind: (typeof hookKinds)[number];
  /** without the secret */
  readonly url: string;
  /** webhook: `whsec_…`; dingtalk, feishu: the robot's signing secret, '' without one; else '' */
  readonly secret: string;
}

/** Lower case and without `@`: no name is a mail address, and no two names differ in case alone. */
export const hookNamePattern = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** The message names no part of the text behind the name. */
export function parseAlertHook(text: string): Parsed<AlertHook> {
  const [, name, kindText, urlText] = /^([^=]*)=([a-z]+)\+(https?:\/\/.*)$/s.exec(text) ?? [];
  const kind = hookKinds.find((one) => one === kindText);
  if (name === undefined || urlText === undefined || kind === undefined)
    return wrong(
      `must be NAME=KIND+URL with a kind of ${hookKinds.join(', ')}, such as ops=slack+https://hooks.slack.com/services/…`,
    );
  if (!hookNamePattern.test(name))
    return wrong('needs a name of at most 64 of a-z 0-9 . _ - that begins with a letter or digit');
  const [url = '', ...rest] = urlText.split('#');
  const secret = rest.join('#');
  if (/[\s\p{Cc}]/u.test(urlText) || !URL.canParse(url)) return wrong(`"${name}" needs a valid URL`);
  const { username, password } = new URL(url);
  if (username !== '' || password !== '') return wrong(`"${name}" must not have a user in its URL`);
  if (kind === 'webhook') {
    const parsed = parseSecret(secret);
    if (!parsed.ok) return wrong(`"${name}" needs #SECRET at its end, which ${parsed.message}`);
  }
  if (secret !== '' && (kind === 'slack' || kind === 'wecom'))
    return wrong(`"${name}" must not have a #SECRET: robots of ${kind} verify no signature`);
  return { ok: true, value: { name, kind, url: new URL(url).href, secret } };
}

/** The names of the hooks of a checked configuration. */
export function hookNamesOf(texts: readonly string[]): ReadonlySet<string> {
  return new Set(
    texts.flatMap((text) => {
      const parsed = parseAlertHook(text);
      return parsed.ok ? [parsed.value.name] : [];
    }),
  );
}

const local = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*";
const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
/** Anchored and without flags, for JSON schemas too. */
export const mailAddressPattern = new RegExp(`^(?=[^@]{1,64}@.{1,253}$)${local}@${label}(\\.${label})*$`);

export function isMailAddress(text: unknown): text is string {
  return typeof text === 'string' && mailAddressPattern.test(text);
}
