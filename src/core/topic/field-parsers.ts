// How each kind of topic field is read from JSON. A parser answers the value, or complains under the field's name, says what
// would be right, and answers undefined. It never coerces: "5" is no number, and a typo must not become a setting.

import type { Complaints } from '../complaints.ts';
import { formatDuration, parseDuration } from '../duration.ts';
import { limits } from '../limits.ts';
import { isMailAddress } from '../mail-address.ts';

export type FieldParser<T> = (value: unknown, field: string, complaints: Complaints) => T | undefined;

export function oneOf<const T extends string>(...choices: readonly T[]): FieldParser<T> {
  const list = choices.map((choice) => `"${choice}"`).join(', ');
  return (value, field, complaints) =>
    choices.find((choice) => choice === value) ?? complaints.refuse(field, `must be one of ${list}`);
}

export function integer(min: number, max: number): FieldParser<number> {
  return (value, field, complaints) =>
    typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
      ? value
      : complaints.refuse(field, `must be a whole number from ${min} to ${max}`);
}

export function fraction(min: number, max: number): FieldParser<number> {
  return (value, field, complaints) =>
    typeof value === 'number' && value >= min && value <= max
      ? value
      : complaints.refuse(field, `must be a number from ${min} to ${max}`);
}

export const flag: FieldParser<boolean> = (value, field, complaints) =>
  typeof value === 'boolean' ? value : complaints.refuse(field, 'must be true or false');

export function duration(minMs: number, maxMs: number): FieldParser<number> {
  return (value, field, complaints) => {
    const parsed = parseDuration(value);
    if (!parsed.ok) return complaints.refuse(field, parsed.message);
    if (parsed.value < minMs || parsed.value > maxMs)
      return complaints.refuse(field, `must be from ${formatDuration(minMs)} to ${formatDuration(maxMs)}`);
    return parsed.value;
  };
}

/** Titles and owners: shown in consoles, tables and mails, so no control characters. */
export const label: FieldParser<string> = (value, field, complaints) => {
  if (typeof value !== 'string') return complaints.refuse(field, 'must be a string');
  if ([...value].length > limits.topicLabelMax)
    return complaints.refuse(field, `must be at most ${limits.topicLabelMax} characters`);
  if (/\p{Cc}|\p{Cs}/u.test(value))
    return complaints.refuse(field, 'must be text without control characters or line breaks');
  return value;
};

const statusPattern = /^[245](xx|\d\d)$/;
export const statuses: FieldParser<readonly string[]> = (value, field, complaints) => {
  if (!Array.isArray(value) || value.length === 0 || value.length > limits.topicOkStatusMax)
    return complaints.refuse(
      field,
      `must be a list of 1 to ${limits.topicOkStatusMax} statuses or classes, such as ["2xx", "404"]`,
    );
  let good = true;
  value.forEach((item: unknown, index) => {
    if (typeof item === 'string' && statusPattern.test(item)) return;
    good = false;
    // A list that is nested deeply enough has no String().
    const hint = typeof item !== 'object' && /^3/.test(String(item)) ? '; a 3xx is always a failure' : '';
    complaints.refuse(`${field}[${index}]`, `must be a status such as "204" or a class such as "2xx"${hint}`);
  });
  return good ? (value as readonly string[]) : undefined;
};

export const emails: FieldParser<readonly string[]> = (value, field, complaints) => {
  if (!Array.isArray(value) || value.length > limits.topicEmailsMax)
    return complaints.refuse(field, `must be a list of at most ${limits.topicEmailsMax} addresses`);
  let good = true;
  value.forEach((item: unknown, index) => {
    if (isMailAddress(item)) return;
    good = false;
    complaints.refuse(`${field}[${index}]`, 'must be a mail address such as ops@example.org');
  });
  return good ? (value as readonly string[]) : undefined;
};

const namePattern = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const valuePattern = /^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$|^$/;
/** Hop-by-hop headers, and those that say what dq says: a header that is accepted must be sent. */
const reservedHeaders = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade', 'expect', 'host', 'content-length', 'content-type'],
  ...['accept-encoding', 'user-agent', '__proto__'],
]);

/** Answers lower-case names: two spellings of one header would both be sent. */
export const staticHeaders: FieldParser<Readonly<Record<string, string>>> = (value, field, complaints) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return complaints.refuse(field, 'must be an object of header names and values');
  const entries = Object.entries(value);
  if (entries.length > limits.topicHeadersMax)
    return complaints.refuse(field, `must be at most ${limits.topicHeadersMax} headers`);
  const headers = new Map<string, string>();
  let good = true;
  const refuse = (name: string, message: string) => {
    good = false;
    complaints.refuse(`${field}.${name}`, message);
  };
  for (const [name, text] of entries) {
    const lower = name.toLowerCase();
    if (!namePattern.test(name)) refuse(name, 'is no header name');
    else if (reservedHeaders.has(lower) || /^(webhook|dq)-/.test(lower)) refuse(name, 'is set by dq itself');
    else if (headers.has(lower)) refuse(name, 'is given twice, in two spellings');
    else if (typeof text !== 'string' || text.length > limits.topicHeaderValueMax || !valuePattern.test(text))
      refuse(
        name,
        `must be at most ${limits.topicHeaderValueMax} visible ASCII characters, without blanks around them`,
      );
    else headers.set(lower, text);
  }
  return good ? Object.fromEntries(headers) : undefined;
};
